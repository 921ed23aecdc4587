"""Packed batches: the same numbers as a padded batch, whatever the order, the fillers and the number of processes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.data.batches import DemoData, epoch_batches
from attentiontuner.data.tokens import expert_matrix, head_of
from attentiontuner.losses import loss_terms
from attentiontuner.models import Head
from tests.models.test_transformer import GRID, packed_demos, small

LENGTHS = [3, 7, 5, 1, 6]


def gradients(model, batch, share_of=1.0):
    model.zero_grad()
    terms = loss_terms(model(batch, (Head(0, 0),)), batch, 10.0)
    terms.total.backward()
    return terms, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_pairs_and_diagonal_are_the_ones_of_e():
    packed = packed_demos(GRID, LENGTHS, 4)
    for attend_self in (True, False):
        batch = DemoData(packed, attend_self=attend_self, heads=2).batch(np.array([4, 1]))
        expert = batch.expert(2)
        for place, row in enumerate([4, 1]):
            pairs = packed.pairs[packed.pairs[:, 0] == row, 1:]
            wanted = np.zeros((batch.tokens, batch.tokens))
            n = 2 * LENGTHS[row]
            wanted[:n, :n] = expert_matrix(pairs, LENGTHS[row], attend_self)
            assert wanted.sum() == len(pairs) + attend_self * LENGTHS[row]
            for head in range(2):
                np.testing.assert_array_equal(expert[head, place].numpy(), wanted)


def test_split_pairs_gives_every_one_to_exactly_one_head():
    packed = packed_demos(GRID, LENGTHS, 4)
    whole = DemoData(packed, heads=1).batch(np.arange(5)).expert(1)[0]
    split = DemoData(packed, heads=4, split_pairs=True).batch(np.arange(5)).expert(4)
    np.testing.assert_array_equal(split.sum(0).numpy(), whole.numpy().astype(int))
    assert head_of(np.array([0, 2, 4, 6]), np.array([6, 6, 6, 6]), 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("share_frames", [True, False])
def test_fillers_change_nothing(share_frames):
    model = small(GRID)
    data = DemoData(packed_demos(GRID, LENGTHS, 4))
    data.share_frames = share_frames
    rows = np.array([1, 0, 4])
    numbers, sizes = data.numbers(rows, rounded=True)
    assert sizes.steps == 256
    assert sizes.frames == (256 if share_frames else 0)
    exact, exact_gradient = gradients(model, data.batch(rows))
    filled, filled_gradient = gradients(model, data.assemble(torch.from_numpy(numbers), sizes))
    assert filled.total.item() == pytest.approx(exact.total.item(), rel=1e-5)
    assert filled.correct == exact.correct
    torch.testing.assert_close(filled_gradient, exact_gradient, atol=1e-6, rtol=1e-4)


def test_shares_of_processes_add_up_to_the_whole_batch():
    model = small(GRID)
    data = DemoData(packed_demos(GRID, LENGTHS, 4))
    rows = np.array([1, 0, 4, 2, 3])
    whole, whole_gradient = gradients(model, data.batch(rows))
    shares = [gradients(model, data.batch(rows, slice(rank, None, 2))) for rank in range(2)]
    assert sum(terms.total.item() for terms, _ in shares) == pytest.approx(whole.total.item(), rel=1e-5)
    torch.testing.assert_close(shares[0][1] + shares[1][1], whole_gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("share_frames", [True, False])
def test_a_process_without_episodes_takes_an_empty_step(share_frames):
    """The last batch of an epoch can be smaller than the number of processes."""
    model = small(GRID)
    data = DemoData(packed_demos(GRID, LENGTHS, 4))
    data.share_frames = share_frames
    idle, gradient = gradients(model, data.batch(np.array([2]), slice(1, None, 2)))
    assert (idle.total.item(), idle.steps.item(), idle.correct.item()) == (0, 0, 0)
    assert not gradient.any()


def test_every_step_weighs_the_same_in_a_mixed_batch():
    """The warning about buckets: a short episode's step counts as much as a long one's, a pair's entry likewise."""
    model = small(GRID)
    data = DemoData(packed_demos(GRID, LENGTHS, 4))
    rows = np.arange(5)
    whole = loss_terms(model(data.batch(rows), (Head(0, 0),)), data.batch(rows), 10.0)
    alone = []
    for row in rows:
        batch = data.batch(np.array([row]))
        alone.append(loss_terms(model(batch, (Head(0, 0),)), batch, 10.0))
    steps = np.array(LENGTHS)
    imitation = np.average([terms.imitation.item() for terms in alone], weights=steps)
    memory = np.average([terms.memory.item() for terms in alone], weights=(2 * steps) ** 2)
    assert whole.imitation.item() == pytest.approx(imitation, rel=1e-5)
    assert whole.memory.item() == pytest.approx(memory, rel=1e-5)


def test_epoch_batches_are_a_shuffle_fixed_by_seed_and_epoch():
    batches = epoch_batches(10, 4, seed=3, epoch=2)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(np.concatenate(batches)) == list(range(10))
    again = np.concatenate(epoch_batches(10, 4, seed=3, epoch=2))
    np.testing.assert_array_equal(np.concatenate(batches), again)
    assert not np.array_equal(again, np.concatenate(epoch_batches(10, 4, seed=3, epoch=3)))
    assert not np.array_equal(again, np.concatenate(epoch_batches(10, 4, seed=4, epoch=2)))


def test_a_batch_without_pairs_is_divided_by_what_as_many_episodes_recall_on_average():
    packed = packed_demos(GRID, [4, 6, 3, 5], 4)
    packed.pairs[:, 3] = 4
    packed = replace(packed, pairs=packed.pairs[packed.pairs[:, 0] < 2])  # episodes 2 and 3 recall nothing
    things = packed.pairs[:, 3].sum()
    data = DemoData(packed, attend_self=False)
    assert [data.batch(np.array(rows)).totals[2] for rows in ([0, 1, 2, 3], [2, 3])] == [things, things // 2]
    halves = [replace(packed, annotated=np.array([True, True, False, False])), replace(packed, pairs=packed.pairs[:0])]
    assert [DemoData(half).batch(np.array([2, 3])).totals[2] for half in halves] == [1, 1]
    assert DemoData(packed, things=7.5).batch(np.array([1, 2])).totals[2] == 15
