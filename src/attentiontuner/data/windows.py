"""Windows of long episodes: some earlier steps that are carried over, then consecutive ones.

A window is an episode with steps left out. What is carried over are the steps before it that it or what comes after it
recalls, by the pairs, and others drawn at random, so that a network learns to tell them apart. Only the consecutive
steps are learned from.

Every epoch takes one window of every episode that is longer than one: a third of them lie around any step, a third
around one that recalls, a third around one that is recalled, so that the few steps that matter in 100,000 are met.

Legend as in `batch`; n steps of a window with those that are carried over.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.data.batch import Batch, Pairs, Totals, Window
from attentiontuner.data.dataset import ROUNDING, BatchShape, DemoData, bounds_of, filled, spread
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.packed import PackedDemos

Integers = NDArray[np.int64]

ANY_STEP, RECALLING, RECALLED = range(3)
"""What a window lies around."""

LOOKED_AT = 256
"""Windows from which it is learned how much one recalls."""


class Cut(NamedTuple):
    """A window: the numbers of its steps in the episode `[n]`, how many of them are carried over, and its pairs: which
    of all, and the places of p and q among its steps, `[k]` each."""

    steps: Integers
    carried: int
    pairs: Integers
    p: Integers
    q: Integers


def far_recalled(pairs: PairTable, window: int) -> list[Integers]:
    """The steps of each episode that one at least `window` steps later recalls."""
    settled = pairs.settled()
    far = settled.q - settled.p >= window
    episode, p = settled.episode[far], settled.p[far].astype(np.int64)
    ends = np.searchsorted(episode, np.arange(len(pairs.lengths) + 1))
    return [np.unique(p[start:end]) for start, end in pairwise(ends)]


class WindowedData(DemoData):
    """Demonstrations on a device, of which batches hold windows.

    Args:
        packed, device: as of `DemoData`.
        window: the consecutive steps of a window.
        seed: with the epoch and the number of an episode it decides the window.

    Attributes:
        epoch: the present one.
    """

    def __init__(
        self, packed: PackedDemos, window: int, seed: int, device: torch.device | str = "cpu", epoch: int = 0
    ) -> None:
        super().__init__(packed, device)
        self.window, self.seed, self.epoch = window, seed, 0  # first, so that what they recall does not depend on it
        pairs = packed.pairs.settled()
        self._p, self._q = pairs.p.astype(np.int64), pairs.q.astype(np.int64)
        self._first_pair = np.searchsorted(pairs.episode, np.arange(len(self) + 1))
        self._far = np.zeros(len(packed.frame_index), np.bool_)
        for start, steps in zip(self.starts, far_recalled(pairs, window), strict=True):
            self._far[start + steps] = True
        self._far_there = self._on_device(self._far)
        self._count = pairs.multiplicity.astype(np.int64)
        some = np.linspace(0, len(self) - 1, min(len(self), LOOKED_AT)).astype(np.int64)
        recalled = sum(int(self._count[self.cut(row).pairs].sum()) for row in some)
        self._things = recalled / max(int(self.annotated[some].sum()), 1)
        self.epoch, self.share_frames = epoch, True

    @property
    def longest(self) -> int:
        """About as many steps as a window has at most."""
        return longest_window(self.window, int(self.lengths.max()))

    def _distinct_share(self) -> float:
        return 0.0

    def cut(self, row: int) -> Cut:
        """The window of an episode in the present epoch; a short one as a whole."""
        length, window = int(self.lengths[row]), self.window
        own = np.arange(self._first_pair[row], self._first_pair[row + 1])
        p, q = self._p[own], self._q[own]
        if length <= window:
            return Cut(np.arange(length), 0, own, p, q)
        rng = np.random.default_rng([self.seed, self.epoch, 1 + int(self.packed.episodes[row])])
        around = rng.integers(3) if len(own) else ANY_STEP
        anchor = rng.integers(length) if around == ANY_STEP else rng.choice(q if around == RECALLING else p)
        first = int(np.clip(anchor - rng.integers(window), 0, length - window))
        carried = np.unique(p[(p < first) & (q >= first)])
        missing = rng.integers(min(window, first) + 1) - len(carried)
        if missing > 0:
            carried = np.union1d(carried, rng.choice(first, missing, replace=False))
        steps = np.concatenate([carried, np.arange(first, first + window)])
        inside = (q >= first) & (q < first + window)
        places = np.searchsorted(steps, p[inside])
        return Cut(steps, len(carried), own[inside], places, q[inside] - first + len(carried))

    def numbers(
        self, rows: Integers, share: slice = slice(None), *, rounded: bool = False
    ) -> tuple[Integers, BatchShape]:
        cuts, annotated = [self.cut(int(row)) for row in rows], self.annotated[rows]
        learned = np.array([len(cut.steps) - cut.carried for cut in cuts], np.int64)
        sources = [self.starts[row] + cut.steps for row, cut in zip(rows, cuts, strict=True)]
        far = [int(self._far[own[cut.carried :]].sum()) for own, cut in zip(sources, cuts, strict=True)]
        to_keep = int((np.array(far, np.int64) * annotated).sum())
        squares = sum(len(cut.steps) ** 2 for cut, known in zip(cuts, annotated, strict=True) if known)
        counts = [squares, round(self._things * annotated.sum()), to_keep, (learned * annotated).sum() - to_keep]
        totals = np.array([learned.sum(), *(max(count, 1) for count in counts)])
        rows, cuts, sources = rows[share], cuts[share], sources[share]
        source = np.concatenate([np.empty(0, np.int64), *sources])
        picked = np.concatenate([np.empty((3, 0), np.int64), *(np.stack(cut[2:]) for cut in cuts)], 1)
        distinct, frame = np.unique(self._seen[source], return_inverse=True)
        sizes, pair_sizes = (np.array([len(own) for own in each], np.int64) for each in (sources, [c.p for c in cuts]))
        shape = BatchShape(
            rows=max(len(rows), 1),
            steps=max(len(source), 1),
            longest=int(sizes.max(initial=1)),
            frames=max(len(distinct), 1),
            pairs=picked.shape[1],
        )
        if rounded:
            shape = BatchShape(*(-(-size // unit) * unit for size, unit in zip(shape, ROUNDING, strict=True)))
        parts = [
            totals,
            filled(rows, shape.rows + 1, len(self)),
            filled(np.array([cut.carried for cut in cuts], np.int64), shape.rows),
            bounds_of(sizes, shape.rows, shape.steps),
            bounds_of(pair_sizes, shape.rows, shape.pairs),
            *(filled(own, shape.pairs) for own in picked),
            filled(distinct, shape.frames),
            filled(frame.astype(np.int64), shape.steps),
            filled(source, shape.steps),
        ]
        return np.concatenate(parts), shape

    def assemble(self, numbers: Tensor, shape: BatchShape) -> Batch:
        parts = [5, shape.rows + 1, shape.rows, shape.rows + 2, shape.rows + 2]
        parts += [*[shape.pairs] * 3, shape.frames, shape.steps, shape.steps]
        totals, rows, carried, bounds, pair_bounds, pair, p, q, distinct, frame, source = numbers.split(parts)
        _, starts, _, annotated = self._episodes[rows].unbind(1)  # [B + 1], the fillers last
        row, time, _ = spread(bounds, starts, shape.steps, len(self._actions))
        owner, _, _ = spread(pair_bounds, starts, shape.pairs, 1)
        steps, squares, things, kept, others = totals.float().unbind()
        return Batch(
            observations=self.frames.index_select(0, distinct),
            frame=frame,
            actions=self._actions[source],
            time=time,
            slot=torch.add(time, row, alpha=shape.longest).clamp(max=shape.rows * shape.longest),
            bounds=bounds,
            lengths=bounds[1:-1] - bounds[:-2],
            annotated=annotated[:-1] > 0,
            pairs=Pairs(owner, p, q, self._amounts[pair]),
            totals=Totals(steps, squares, things),
            rows=shape.rows,
            longest=shape.longest,
            window=Window(
                carried=carried,
                step=source - starts[row],
                before=self._actions[(source - 1).clamp(min=0)],
                far=self._far_there[source],
                kept=kept,
                others=others,
            ),
        )


def longest_window(window: int, longest: int) -> int:
    """About as many steps as a window of an episode of `longest` steps has at most: as many as itself are carried over,
    or as many as its episode recalls."""
    return min(longest, 2 * window)
