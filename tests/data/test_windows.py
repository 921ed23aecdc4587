"""Windows: which steps they hold, that actions and pairs are those of the episode, and that short ones are whole."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attentiontuner.data.dataset import DemoData
from attentiontuner.data.windows import Cut, WindowedData, far_recalled
from attentiontuner.demos.pairs import PairTable
from attentiontuner.losses import keep_loss
from tests.models.test_transformer import GRID, packed_demos

LENGTHS = [12, 3, 30, 7]
PAIRS = [[(0, 11), (5, 6), (2, 9, 2)], [(0, 2)], [(1, 20), (1, 29), (24, 28)], None]
WINDOW = 4


def long_demos():
    packed = packed_demos(GRID, LENGTHS, 4)
    tables = [
        PairTable.nothing([length]) if pairs is None else PairTable.of(pairs, length)
        for pairs, length in zip(PAIRS, LENGTHS, strict=True)
    ]
    return replace(packed, pairs=PairTable.join(tables), episodes=np.array([40, 41, 42, 43]))


def in_epoch(epoch, seed=1):
    return WindowedData(long_demos(), WINDOW, seed, epoch=epoch)


def needed(row, first):
    return {p for p, q, *_ in PAIRS[row] or [] if p < first <= q}


def test_a_window_is_consecutive_steps_and_before_them_those_that_are_still_recalled():
    sizes = set()
    for epoch in range(200):
        data = in_epoch(epoch)
        for row, length in enumerate(LENGTHS):
            steps, carried, pairs, p, q = data.cut(row)
            window, before = steps[carried:], steps[:carried]
            assert np.array_equal(window, window[0] + np.arange(min(WINDOW, length)))
            assert window[-1] < length
            assert (np.diff(steps) > 0).all()
            assert needed(row, window[0]) <= set(before.tolist())
            assert carried <= max(WINDOW, len(needed(row, window[0])))
            there = {(int(steps[i]), int(steps[j])) for i, j in zip(p, q, strict=True)}
            assert there == {(a, b) for a, b, *_ in PAIRS[row] or [] if window[0] <= b <= window[-1]}
            assert len(pairs) == len(there)
            sizes.add((row, carried))
    assert {(2, size) for size in range(WINDOW + 1)} <= sizes  # none carried over, many, and all between
    assert {size for row, size in sizes if row == 1} == {0}


def test_steps_that_recall_and_are_recalled_are_met_more_often_than_others():
    packed = packed_demos(GRID, [1000], 4)
    data = WindowedData(replace(packed, pairs=PairTable.of([(100, 900)], 1000)), WINDOW, 1)
    met = np.zeros(1000)
    for data.epoch in range(400):
        cut = data.cut(0)
        met[cut.steps[cut.carried :]] += 1
    assert min(met[[100, 900]]) > 90
    assert met.sum() == 400 * WINDOW
    assert np.median(met) <= 2


def test_a_batch_of_windows_is_what_the_episodes_say():
    packed = long_demos()
    for epoch in range(20):
        data = in_epoch(epoch)
        rows = np.array([2, 0, 3, 1])
        batch, cuts = data.batch(rows), [data.cut(row) for row in rows]
        sizes = [len(cut.steps) for cut in cuts]
        assert batch.lengths.tolist() == sizes
        assert batch.longest == max(sizes)
        assert batch.time.tolist() == [place for size in sizes for place in range(size)]
        place = np.concatenate([packed.starts[row] + cut.steps for row, cut in zip(rows, cuts, strict=True)])
        true = np.concatenate([cut.steps for cut in cuts])
        assert batch.window.step.tolist() == true.tolist()
        assert batch.begins.tolist() == (true == 0).tolist()
        assert batch.actions.tolist() == packed.actions[place].tolist()
        assert batch.last_actions[true > 0].tolist() == packed.actions[place[true > 0] - 1].tolist()
        frames = packed.frames[packed.frame_index[place]]
        assert np.array_equal(batch.per_step(batch.observations).numpy(), frames)
        learned = np.concatenate([np.arange(len(cut.steps)) >= cut.carried for cut in cuts])
        assert batch.learned.tolist() == learned.tolist()
        assert batch.totals.steps == learned.sum() == 4 + 4 + 4 + 3
        counted = [
            [cut.carried <= t < len(cut.steps) and row != 3 for t in range(batch.longest)]
            for row, cut in zip(rows, cuts, strict=True)
        ]
        assert batch.counted().tolist() == counted
        pairs = {
            (int(rows[row]), int(cuts[row].steps[p]), int(cuts[row].steps[q]), amount)
            for row, p, q, amount in zip(*map(torch.Tensor.tolist, batch.pairs), strict=True)
        }
        wanted = set()
        for row, cut in zip(rows, cuts, strict=True):
            inside = set(cut.steps[cut.carried :].tolist())
            wanted |= {(int(row), p, q, float(sum(times) or 1)) for p, q, *times in PAIRS[row] or [] if q in inside}
        assert pairs == wanted


def test_what_is_recalled_from_afar_is_known_by_step():
    assert [steps.tolist() for steps in far_recalled(long_demos().pairs, WINDOW)] == [[0, 2], [], [1, 24], []]
    assert [steps.tolist() for steps in far_recalled(long_demos().pairs, 8)] == [[0], [], [1], []]


def test_the_keep_loss_is_balanced_cross_entropy_of_the_steps_of_annotated_windows():
    packed, rows = long_demos(), np.array([2, 0, 3, 1])
    far = {(0, 0), (0, 2), (2, 1), (2, 24)}
    met = 0
    for epoch in range(30):
        data = in_epoch(epoch)
        batch = data.batch(rows)
        logits = torch.randn(len(batch.time), generator=torch.Generator().manual_seed(epoch))
        yes, no, place = [], [], 0
        for row in rows:
            cut = data.cut(row)
            for number, step in enumerate(cut.steps.tolist()):
                if number >= cut.carried and packed.pairs.annotated[row]:
                    wanted = float((row, step) in far)
                    loss = F.binary_cross_entropy_with_logits(logits[place], torch.tensor(wanted))
                    (yes if wanted else no).append(loss)
                place += 1
        expected = sum(torch.stack(part).mean() / 2 for part in (yes, no) if part)
        torch.testing.assert_close(keep_loss(logits, batch), expected)
        met += bool(yes)
    assert met > 10
    whole = DemoData(packed).batch(rows)
    assert keep_loss(torch.ones(len(whole.time)), whole) == 0


def test_an_epoch_and_a_seed_decide_the_windows_and_nothing_else_does():
    def steps(data, rows):
        return [data.cut(row).steps.tolist() for row in rows]

    one = in_epoch(5)
    assert steps(one, range(4)) == steps(in_epoch(5), [0, 1, 2, 3])
    assert steps(one, [2, 0]) == steps(one, range(4))[2::-2]
    assert steps(in_epoch(6), range(4)) != steps(one, range(4)) != steps(in_epoch(5, seed=2), range(4))
    some = replace(long_demos().pairs.select([2]))
    packed = long_demos()
    alone = replace(
        packed,
        lengths=packed.lengths[2:3],
        starts=packed.starts[2:3],
        pairs=some,
        success=packed.success[2:3],
        seeds=packed.seeds[2:3],
        episodes=packed.episodes[2:3],
    )
    assert steps(WindowedData(alone, WINDOW, 1, epoch=5), [0]) == steps(one, [2])


def test_rounded_shapes_and_shares_say_the_same():
    data, rows = in_epoch(3), np.array([2, 0, 3, 1])
    batch = data.batch(rows)
    numbers, shape = data.numbers(rows, rounded=True)
    rounded = data.assemble(torch.from_numpy(numbers), shape)
    steps, pairs = len(batch.time), len(batch.pairs.row)
    assert len(rounded.time) > steps
    assert rounded.learned.sum() == batch.learned.sum()
    for name in ("actions", "time", "begins"):
        assert torch.equal(getattr(rounded, name)[:steps], getattr(batch, name)), name
    assert all(torch.equal(more[:pairs], own) for more, own in zip(rounded.pairs, batch.pairs, strict=True))
    assert (rounded.pairs.row[pairs:] == rounded.rows).all()
    logits = torch.randn(len(rounded.time), generator=torch.Generator().manual_seed(0))
    whole = keep_loss(logits, rounded)
    torch.testing.assert_close(whole, keep_loss(logits[:steps], batch))
    ends = batch.bounds[1:-1].tolist()
    halves = [data.batch(rows, slice(part, None, 2)) for part in range(2)]
    order = [
        torch.cat([torch.arange(ends[row - 1] if row else 0, ends[row]) for row in range(part, 4, 2)])
        for part in range(2)
    ]
    torch.testing.assert_close(
        sum(keep_loss(logits[own], half) for own, half in zip(order, halves, strict=True)), whole
    )
    assert [half.totals.steps for half in halves] == [batch.totals.steps] * 2
    empty = data.batch(np.array([0]), slice(1, None, 2))
    assert not empty.learned.any()


def test_windows_that_are_long_enough_are_the_whole_episodes():
    packed, rows = long_demos(), np.array([1, 3, 0])
    whole, windows = DemoData(packed).batch(rows), WindowedData(packed, 12, 1).batch(rows)
    for item in fields(whole):
        if item.name in ("observations", "frame", "window", "totals"):
            continue
        one, other = getattr(whole, item.name), getattr(windows, item.name)
        same = all(map(torch.equal, one, other)) if isinstance(one, tuple) else np.array_equal(one, other)
        assert same, item.name
    seen = [batch.per_step(batch.observations) for batch in (whole, windows)]
    assert torch.equal(*seen)
    assert torch.equal(windows.learned, whole.real)
    known = whole.begins.nonzero()[:, 0]
    others = torch.ones(len(whole.time), dtype=torch.bool).index_fill(0, known, False)
    assert torch.equal(windows.last_actions[others], whole.last_actions[others])
    assert (windows.totals.steps, windows.totals.squares) == (whole.totals.steps, whole.totals.squares)


@pytest.mark.parametrize("row", [0, 2])
def test_all_that_a_window_recalls_is_in_it(row, monkeypatch):
    """However many are needed: here more than are ever carried over beside."""
    length = LENGTHS[row]
    packed = long_demos()
    pairs = PairTable.of([(p, length - 1) for p in range(length - 1)], length)
    others = [PairTable.nothing([other]) for other in LENGTHS]
    others[row] = pairs
    data = WindowedData(replace(packed, pairs=PairTable.join(others)), WINDOW, 1)
    for epoch in range(30):
        data.epoch = epoch
        cut = data.cut(row)
        assert isinstance(cut, Cut)
        assert cut.steps.tolist() == list(range(cut.steps[-1] + 1))
