"""Blocks hold every step once, with its past; and what is computed in blocks is what is computed at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner import losses
from attentiontuner.data import blocks
from attentiontuner.data.blocks import Block, Entries, blocks_of, joined
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.losses import memory_cross_entropy, memory_rows, memory_sum, recalled_as_wanted
from attentiontuner.methods import get_method, tuner
from attentiontuner.models import attention, recall
from attentiontuner.models.sizes import RECALL_HEAD
from tests.methods.configs import loss_of
from tests.models.test_recall import small
from tests.models.test_transformer import EVERY_KIND, GRID, packed_demos
from tests.test_losses import random_output

LENGTHS = [9, 4, 5, 30, 3]
ALIKE = [30, 28, 30, 27, 12]


@pytest.fixture
def together(monkeypatch):
    """Episodes as long as these are cut together."""
    monkeypatch.setattr(blocks, "LEAST", 8)


@pytest.mark.parametrize("entries", [1, 16, 100, 300, 10_000])
def test_every_step_is_in_one_block_and_none_is_larger_than_it_must(entries):
    blocks = list(blocks_of(LENGTHS, entries))
    steps = [(row, t) for each in blocks for row in range(each.first, each.last) for t in range(each.start, each.end)]
    assert len(steps) == len(set(steps))
    assert {(row, t) for row, length in enumerate(LENGTHS) for t in range(length)} <= set(steps)
    for each in blocks:
        alone = each.last - each.first == 1 and each.end - each.start == 1
        assert alone or (each.last - each.first) * (each.end - each.start) * each.end <= entries


def test_episodes_that_are_about_as_long_are_cut_together(together):
    """In stretches whose sizes recur; one that is far shorter waits."""
    assert list(blocks_of(ALIKE, 800)) == [
        *(Block(0, 3, start, min(start + 8, 30)) for start in range(0, 30, 8)),
        *(Block(3, 5, start, min(start + 8, 27)) for start in range(0, 27, 8)),
    ]
    assert [each[:2] for each in blocks_of([30, 4, 30], 300)][::4] == [(0, 1), (1, 2), (2, 3)]


def test_pairs_of_a_stretch_of_several_episodes_are_its_own(together):
    batch = DemoData(packed_demos(GRID, ALIKE, 4)).batch(np.arange(5))
    wanted, entries = batch.recalled(), batch.entries()
    assert wanted.sum() > 20
    for each in batch.blocks(800):
        assert torch.equal(entries.matrix(each), wanted[each.rows, each.asks, each.past])


def test_parts_of_blocks_are_joined_where_they_belong():
    whole = torch.arange(5 * 30).view(5, 30) * (torch.arange(30) < torch.tensor(LENGTHS)[:, None])
    for entries in (40, 300):
        blocks = list(blocks_of(LENGTHS, entries))
        assert torch.equal(joined(blocks, [whole[each.rows, each.asks] for each in blocks], 30), whole)
        deeper = [whole[each.rows, each.asks, None] for each in blocks]
        assert torch.equal(joined(blocks, deeper, 30), whole[:, :, None])


def test_the_pairs_of_a_block_are_those_of_its_steps():
    batch = DemoData(packed_demos(GRID, LENGTHS, 4)).batch(np.arange(5))
    wanted, entries = batch.recalled(), batch.entries()
    assert wanted.sum() > 5
    for size in (40, 300, 10_000):
        for each in batch.blocks(size):
            assert torch.equal(entries.matrix(each), wanted[each.rows, each.asks, each.past])


def by_memory(batch, heads, options):
    """The memory loss of heads drawn at random, and its gradient."""
    output = random_output(batch, heads)
    projected = next(iter(output.watched.values())).projected.requires_grad_()
    memory = loss_of(output, batch, **options).terms["memory"]
    memory.backward()
    return memory.detach(), projected.grad


@pytest.mark.parametrize(("options", "heads"), [({}, 1), ({"split_pairs": True}, 3), ({"attend_self": False}, 2)])
@pytest.mark.parametrize("lengths", [LENGTHS, ALIKE], ids=["each by itself", "together"])
def test_equation_four_in_blocks_of_a_batch(monkeypatch, together, options, heads, lengths):
    packed = packed_demos(GRID, lengths, 4)
    parts = [PairTable.nothing([lengths[2]]) if row == 2 else packed.pairs.select([row]) for row in range(5)]
    batch = DemoData(replace(packed, pairs=PairTable.join(parts))).batch(np.arange(5))
    at_once = by_memory(batch, heads, options)
    monkeypatch.setattr(tuner, "AT_ONCE", 900)
    monkeypatch.setattr(tuner, "IN_A_BLOCK", 2_000)
    assert len(batch.blocks(2_000, 2)) > 5
    torch.testing.assert_close(by_memory(batch, heads, options), at_once, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("here", [True, False], ids=["on a host", "elsewhere"])
@pytest.mark.parametrize("size", [1.0, 3.0, 10.0])
def test_equation_four_in_blocks_is_exact(monkeypatch, size, here):
    """Also where nobody looks which rows need what, as on a GPU."""
    if not here:
        monkeypatch.setattr(losses, "_those", lambda which: torch.arange(len(which)))
    generator = torch.Generator().manual_seed(1)
    n = 40
    query, key = (size * torch.randn(2, 1, n, 8, generator=generator)).requires_grad_().unbind()
    expert = torch.rand(1, n, n, generator=generator).tril() > 0.9
    _, row, column = expert.nonzero(as_tuple=True)
    found = []
    for kind in (torch.float32, torch.float64):
        asked, keys = (each.detach().to(kind).requires_grad_() for each in (query, key))
        if kind == torch.float32:
            ones = Entries(row, column, torch.ones(len(row)), n)
            value = memory_sum(asked, keys, ones, torch.ones(1, n, dtype=torch.bool), list(blocks_of([n], 200)))
        else:
            scores = (asked @ keys.mT) * 8**-0.5
            future = torch.ones(n, n, dtype=torch.bool).triu(1)
            value = memory_cross_entropy(scores.masked_fill(future, -torch.inf).log_softmax(-1), expert).sum()
        value.backward()
        found.append([each.double() for each in (value.detach(), asked.grad, keys.grad)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5 * size**2)


def test_a_row_that_is_wrong_by_nearly_as_much_as_counts_still_learns():
    scores = torch.tensor([[[0.0, -92.0, -93.0], [0.0, -120.0, -121.0], [0.0, -1.0, -2.0]]])
    exact = scores.double().requires_grad_()
    value = memory_cross_entropy(exact.log_softmax(-1), torch.zeros(1, 3, 3, dtype=torch.bool))
    value.sum().backward()
    nowhere = torch.zeros(0, dtype=torch.int64)
    rows, gradient = memory_rows(scores, nowhere, nowhere, torch.zeros(0))
    torch.testing.assert_close(rows.double(), value.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), exact.grad, rtol=1e-4, atol=1e-5)
    assert gradient[0, 0, 0] > 0.9


@pytest.mark.parametrize("observation", EVERY_KIND.values(), ids=EVERY_KIND)
def test_a_recall_head_in_blocks(monkeypatch, observation):
    model, _ = small(observation, dropped_cells=0.0, teacher=1.0)
    packed = packed_demos(observation, LENGTHS, 4)
    batch = DemoData(packed).batch(np.arange(5))
    results = []
    for held, in_a_block in ((2**24, 2**20), (1, 600 * (model.observation_embedding.cells + 3))):
        monkeypatch.setitem(recall.HELD, "cpu", held)
        monkeypatch.setitem(recall.IN_A_BLOCK, "cpu", in_a_block)
        model.zero_grad()
        output = model.train()(batch, (RECALL_HEAD,))
        loss_of(output, batch, model.config, "recall").total.backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        recalled = output.watched[RECALL_HEAD]
        inside = (torch.arange(30) < batch.lengths[:, None])[..., None]
        results.append([output.distribution, recalled.whole.scores * inside, *gradients])
    assert len(batch.blocks(600)) > 2
    torch.testing.assert_close(*results, atol=2e-5, rtol=1e-3)


def test_attention_in_blocks(monkeypatch):
    projected = torch.randn(1, 50, 3, 2, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    results = []
    for long in (2**34, 0):
        monkeypatch.setattr(attention, "LONG", long)
        monkeypatch.setattr(attention, "IN_A_BLOCK", 500)
        (gradient,) = torch.autograd.grad(attention._attend(projected).square().sum(), projected)
        results.append(gradient)
    torch.testing.assert_close(*results)


def test_what_was_recalled_is_judged_block_by_block():
    packed = packed_demos(GRID, LENGTHS, 4)
    batch = DemoData(packed).batch(np.arange(5))
    output, method = random_output(batch, 2), get_method("attentiontuner")
    every = Block(0, 5, 0, 30)
    whole = recalled_as_wanted(method.recall_strength(output, every), batch.recalled())
    expected = torch.stack([head.log_attention() for head in output.watched.values()]).amax(0)[:, ::2, ::2]
    torch.testing.assert_close(method.recall_strength(output, every), expected)
    entries = batch.entries()
    for each in batch.blocks(100):
        strength = method.recall_strength(output, each)
        found = recalled_as_wanted(strength, entries.matrix(each), each.start)
        assert torch.equal(found, whole[each.rows, each.asks])
