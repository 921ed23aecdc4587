"""Packed batches: the same numbers as a padded batch, whatever the order, the fillers and the number of processes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData, epoch_batches
from attentiontuner.data.tokens import expert_matrices, expert_matrix, expert_of_heads, head_of
from attentiontuner.demos.pairs import PairTable
from attentiontuner.models.heads import Head
from tests.methods.configs import loss_of
from tests.models.test_transformer import GRID, packed_demos, small

LENGTHS = [3, 7, 5, 1, 6]


def gradients(model, batch, share_of=1.0):
    model.zero_grad()
    loss = loss_of(model(batch, (Head(0, 0),)), batch)
    loss.total.backward()
    return loss, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_pairs_and_diagonal_are_the_ones_of_e():
    packed = packed_demos(GRID, LENGTHS, 4)
    for attend_self in (True, False):
        batch = DemoData(packed).batch(np.array([4, 1]))
        expert = expert_of_heads(batch, 2, attend_self, split=False)
        for place, row in enumerate([4, 1]):
            pairs = packed.pairs.select([row])
            wanted = np.zeros((2 * batch.longest, 2 * batch.longest))
            n = 2 * LENGTHS[row]
            wanted[:n, :n] = expert_matrix(pairs, LENGTHS[row], attend_self)
            assert wanted.sum() == len(pairs) + attend_self * LENGTHS[row]
            for head in range(2):
                np.testing.assert_array_equal(expert[head, place].numpy(), wanted)


def test_the_expert_matrix_of_a_list_is_checked():
    expert = expert_matrix([(0, 2), (1, 2, 3)], 3, attend_self=False, tokens_per_step=1)
    assert expert.tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]
    assert expert_matrix([], 3, tokens_per_step=1).tolist() == np.eye(3).tolist()
    for pairs in ([(2, 0)], [(0, 3)], [(0.5, 2)], [(-1, 2)], None):
        with pytest.raises(UserError, match="pair"):
            expert_matrix(pairs, 3)


@pytest.mark.parametrize("tokens_per_step", [1, 2])
def test_the_matrices_of_a_padded_batch_are_those_of_its_episodes(tokens_per_step):
    pairs, lengths = [[(0, 2)], None, PairTable.of([(1, 3, 2)], 4), []], [3, 5, 4, 1]
    for attend_self, padded_to in ((True, None), (False, 11)):
        expert, tokens = expert_matrices(pairs, lengths, attend_self, tokens_per_step, padded_to)
        n = padded_to or 5 * tokens_per_step
        assert tokens.tolist() == [3 * tokens_per_step, 0, 4 * tokens_per_step, tokens_per_step]
        wanted = np.zeros((4, n, n), bool)
        for row in (0, 2, 3):
            own = slice(0, tokens[row])
            wanted[row, own, own] = expert_matrix(pairs[row], lengths[row], attend_self, tokens_per_step)
        np.testing.assert_array_equal(expert.numpy(), wanted)
    again, _ = expert_matrices(pairs, torch.tensor(lengths), False, tokens_per_step, 11)
    assert torch.equal(again, expert)


@pytest.mark.parametrize(
    ("pairs", "lengths", "options", "text"),
    [
        ([[], [(0, 5)]], [2, 5], {}, r"episode 1, pair \(0, 5\): q is outside the episode of 5 steps"),
        ([[]], [2, 5], {}, "give a list of pairs for each of 2, not 1 of them"),
        (None, [2], {}, "give a list of pairs for each of 1, not NoneType"),
        ([(0, 1)], [2], {}, "episode 0, pairs: 0 is not"),
        ([[]], [0], {}, r"lengths \[0\]: give the steps of each episode, from 1"),
        ([[]], [2.5], {}, r"lengths \[2.5\]"),
        ([[]], 3, {}, "lengths 3"),
        ([[]], [3], {"padded_to": 5}, "an episode of 6 tokens, but padded_to=5"),
        ([[]], [3], {"tokens_per_step": 0}, "tokens_per_step=0: a step has 1 token or more"),
    ],
)
def test_what_is_no_padded_batch_is_refused_in_one_line(pairs, lengths, options, text):
    with pytest.raises(UserError, match=text) as caught:
        expert_matrices(pairs, lengths, **options)
    assert "\n" not in str(caught.value)


def test_split_pairs_gives_every_one_to_exactly_one_head():
    packed = packed_demos(GRID, LENGTHS, 4)
    batch = DemoData(packed).batch(np.arange(5))
    whole = expert_of_heads(batch, 1, attend_self=True, split=False)[0]
    split = expert_of_heads(batch, 4, attend_self=True, split=True)
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
    assert filled.measures == exact.measures
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
    assert (idle.total.item(), idle.steps.item(), idle.measures["accuracy"].item()) == (0, 0, 0)
    assert not gradient.any()


def test_every_step_weighs_the_same_in_a_mixed_batch():
    """The warning about buckets: a short episode's step counts as much as a long one's, a pair's entry likewise."""
    model = small(GRID)
    data = DemoData(packed_demos(GRID, LENGTHS, 4))
    rows = np.arange(5)
    whole = loss_of(model(data.batch(rows), (Head(0, 0),)), data.batch(rows))
    alone = []
    for row in rows:
        batch = data.batch(np.array([row]))
        alone.append(loss_of(model(batch, (Head(0, 0),)), batch))
    steps = np.array(LENGTHS)
    imitation = np.average([loss.terms["imitation"].item() for loss in alone], weights=steps)
    memory = np.average([loss.terms["memory"].item() for loss in alone], weights=(2 * steps) ** 2)
    assert whole.terms["imitation"].item() == pytest.approx(imitation, rel=1e-5)
    assert whole.terms["memory"].item() == pytest.approx(memory, rel=1e-5)


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
    table = replace(packed.pairs, multiplicity=np.full(len(packed.pairs), 4))
    first, nothing = table.select([0, 1]), PairTable.join([PairTable.of([], 3), PairTable.of([], 5)])
    packed = replace(packed, pairs=PairTable.join([first, nothing]))  # episodes 2 and 3 recall nothing
    things = first.multiplicity.sum()
    data = DemoData(packed)
    assert [data.batch(np.array(rows)).totals.things for rows in ([0, 1, 2, 3], [2, 3])] == [things, things // 2]
    halves = [PairTable.join([first, PairTable.nothing([3, 5])]), PairTable.nothing([4, 6, 3, 5])]
    found = [DemoData(replace(packed, pairs=half)).batch(np.array([2, 3])).totals.things for half in halves]
    assert found == [1, 1]
    assert DemoData(packed, things=7.5).batch(np.array([1, 2])).totals.things == 15


def test_an_uncertain_pair_stands_in_the_middle_and_counts_by_its_weight():
    packed = packed_demos(GRID, [8], 4)
    pairs = PairTable([8], [True], [0, 0], [1, 2], [6, 7], [1, 3], p_last=[5, 2], weight=[1, 0.5])
    batch = DemoData(replace(packed, pairs=pairs)).batch(np.array([0]))
    wanted = torch.zeros(8, 8)
    wanted[6, 3], wanted[7, 2] = 1, 1.5
    torch.testing.assert_close(batch.recalled()[0], wanted)
    assert np.argwhere(expert_of_heads(batch, 1, attend_self=False, split=False)[0, 0].numpy()).tolist() == [
        [12, 6], [14, 4],
    ]  # fmt: skip


@pytest.mark.parametrize("rounded", [False, True])
def test_deciding_steps_are_those_with_pairs(rounded):
    packed = packed_demos(GRID, LENGTHS, 4)
    table = PairTable.join([packed.pairs.select([0, 1, 2]), PairTable.nothing([1]), packed.pairs.select([4])])
    data = DemoData(replace(packed, pairs=table))
    numbers, shape = data.numbers(np.array([4, 1, 3]), rounded=rounded)
    batch = data.assemble(torch.from_numpy(numbers), shape)
    found = batch.deciding[batch.real].split([6, 7, 1])
    wanted = [[step % 2 == 1 for step in range(6)], [step % 2 == 1 for step in range(7)], [False]]
    assert [part.tolist() for part in found] == wanted
    assert not batch.deciding[~batch.real].any()
