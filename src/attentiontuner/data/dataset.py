"""Demonstrations on a device, from which batches are gathered there: the host sends numbers of episodes, little else.

Legend as in `batch`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.data.batch import Batch, Pairs, Totals
from attentiontuner.demos.pairs import PairTable, spans
from attentiontuner.demos.store.packed import PackedDemos

Integers = NDArray[np.int64]

WORTH_SHARING = 0.7
"""Equal observations of a batch are embedded once where at most this share of its steps saw something of their own."""

FILLER_STEPS = 256
"""A rounded shape has room for a multiple of this many steps."""


class BatchShape(NamedTuple):
    """The shape of a batch: how many of each thing it has room for. `frames` is 0 where steps share no observations."""

    rows: int
    steps: int
    longest: int
    frames: int
    pairs: int


ROUNDING = BatchShape(1, FILLER_STEPS, 16, 256, 2048)
"""Shapes are rounded up to multiples of these where few different shapes are wanted."""


class DemoData:
    """Demonstrations on a device.

    Args:
        packed: the demonstrations.
        device: where frames, actions and pairs live.
        things: how many things (pairs times multiplicity) an annotated episode recalls on average, where these are only
            some of the episodes of a data set.
    """

    def __init__(self, packed: PackedDemos, device: torch.device | str = "cpu", things: float | None = None) -> None:
        self.device = torch.device(device)
        self.frames = torch.from_numpy(np.ascontiguousarray(packed.frames)).to(self.device)
        # A GPU has its own copy of the frames, and the host needs none.
        self.packed = packed if self.device.type == "cpu" else replace(packed, frames=packed.frames[:0].copy())
        self.lengths = packed.lengths.astype(np.int64)
        self.starts = packed.starts.astype(np.int64)
        self.annotated = packed.pairs.annotated
        self._seen = packed.frame_index.astype(np.int64, copy=False)
        self._frame_index = self._on_device(self._seen)
        self._actions = self._on_device(packed.actions)
        pairs = packed.pairs.settled()
        self._pair_count = np.bincount(pairs.episode, minlength=len(self))
        self._pairs = self._on_device(np.stack([pairs.p, pairs.q]).astype(np.int64))
        self._amounts = self._on_device((pairs.multiplicity * pairs.weight).astype(np.float32))
        pair_starts = np.cumsum(self._pair_count) - self._pair_count
        episodes = np.stack([self.lengths, self.starts, pair_starts, self.annotated.astype(np.int64)], 1)
        # One row more than there are episodes: the empty episode that fills a shape.
        self._episodes = self._on_device(np.append(episodes, np.zeros_like(episodes[:1]), 0))
        self._things = mean_things(packed.pairs) if things is None else things
        self.share_frames = self._distinct_share() <= WORTH_SHARING

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def longest(self) -> int:
        """Steps of the longest row that a batch can have."""
        return int(self.lengths.max())

    def _on_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.device)

    def _distinct_share(self) -> float:
        """Distinct observations per step in a few batches of 64 episodes."""
        generator = np.random.default_rng(0)
        samples = [generator.choice(len(self), min(64, len(self)), replace=False) for _ in range(4)]
        steps = sum(int(self.lengths[rows].sum()) for rows in samples)
        return sum(len(self._distinct(rows)[0]) for rows in samples) / steps

    def _distinct(self, rows: Integers) -> tuple[Integers, Integers]:
        """The distinct observations of these episodes, and which of them each step saw."""
        distinct, frame = np.unique(self._seen[spans(self.starts[rows], self.lengths[rows])], return_inverse=True)
        return distinct, frame.astype(np.int64)

    def numbers(
        self, rows: Integers, share: slice = slice(None), *, rounded: bool = False
    ) -> tuple[Integers, BatchShape]:
        """A batch of the episodes `rows` as flat numbers for `assemble`, and its shape.

        `share` is the part of the rows this process computes; the totals are those of all of them. A process without
        any computes one empty episode, so that all take the same step. `rounded` leaves a little room in the shape, so
        that few different shapes occur.
        """
        annotated = self.annotated[rows]
        counted = [(self.lengths[rows][annotated] ** 2).sum(), round(self._things * annotated.sum())]
        totals = np.array([self.lengths[rows].sum(), *(max(count, 1) for count in counted)])
        rows = rows[share]
        distinct, frame = self._distinct(rows) if self.share_frames else (rows[:0], rows[:0])
        shape = BatchShape(
            rows=max(len(rows), 1),
            steps=max(int(self.lengths[rows].sum()), 1),
            longest=int(self.lengths[rows].max(initial=1)),
            frames=max(len(distinct), int(self.share_frames)),
            pairs=int(self._pair_count[rows].sum()),
        )
        if rounded:
            shape = BatchShape(*(-(-size // unit) * unit for size, unit in zip(shape, ROUNDING, strict=True)))
        shared = shape.steps if self.share_frames else 0
        bounds = bounds_of(self.lengths[rows], shape.rows, shape.steps)
        pair_bounds = bounds_of(self._pair_count[rows], shape.rows, shape.pairs)
        rows = filled(rows, shape.rows + 1, len(self))
        parts = [totals, rows, bounds, pair_bounds, filled(distinct, shape.frames), filled(frame, shared)]
        return np.concatenate(parts), shape

    def assemble(self, numbers: Tensor, shape: BatchShape) -> Batch:
        """Gather a batch on the device from the numbers there."""
        shared = shape.steps if self.share_frames else 0
        parts = [3, shape.rows + 1, shape.rows + 2, shape.rows + 2, shape.frames, shared]
        totals, rows, bounds, pair_bounds, distinct, frame = numbers.split(parts)
        lengths, starts, pair_starts, annotated = self._episodes[rows].unbind(1)  # [B + 1], the fillers last
        row, time, source = spread(bounds, starts, shape.steps, len(self._actions))
        if not self.share_frames:
            distinct = self._frame_index[source]
        owner, _, pair = spread(pair_bounds, pair_starts, shape.pairs, len(self._amounts))
        p, q = self._pairs[:, pair].unbind()
        return Batch(
            observations=self.frames.index_select(0, distinct),
            frame=frame if self.share_frames else None,
            actions=self._actions[source],
            time=time,
            slot=torch.add(time, row, alpha=shape.longest).clamp(max=shape.rows * shape.longest),
            bounds=bounds,
            lengths=lengths[:-1],
            annotated=annotated[:-1] > 0,
            pairs=Pairs(owner, p, q, self._amounts[pair]),
            totals=Totals(*totals.float().unbind()),
            rows=shape.rows,
            longest=shape.longest,
        )

    def batch(self, rows: Integers, share: slice = slice(None)) -> Batch:
        """The batch of the episodes `rows`, on the device, exactly as large as it is."""
        numbers, shape = self.numbers(np.asarray(rows, np.int64), share)
        return self.assemble(torch.from_numpy(numbers).to(self.device), shape)


def mean_things(pairs: PairTable) -> float:
    """How many things (pairs times multiplicity) an annotated episode recalls on average."""
    return float(pairs.multiplicity.sum() / max(pairs.annotated.sum(), 1))


def epoch_batches(episodes: int, batch_size: int, seed: int, epoch: int) -> list[Integers]:
    """The batches of an epoch: a fresh shuffle of all episodes, cut every `batch_size`. A pure function."""
    order = np.random.default_rng([seed, epoch]).permutation(episodes)
    return [order[start : start + batch_size] for start in range(0, episodes, batch_size)]


def spread(bounds: Tensor, starts: Tensor, size: int, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Things of B owners end to end in `size` places, the fillers after them as those of one more owner.

    `bounds` `[B + 2]` are where each owner's things begin, and the end; `starts` `[B + 1]` where they begin in a list
    of `total`. Returns for each place its owner, its number within the owner, and its place in the list.
    """
    place = torch.arange(size, device=bounds.device)
    owner = torch.searchsorted(bounds[1:-1], place, right=True)
    begins = bounds[:-1]
    return owner, place - begins[owner], (place + (starts - begins)[owner]).clamp(max=total - 1)


def bounds_of(counts: Integers, rows: int, size: int) -> Integers:
    """0, then the sums of `counts` up to each of `rows` owners (who may be fewer), then `size`."""
    ends = np.cumsum(counts)
    return np.concatenate([[0], filled(ends, rows, int(counts.sum())), [size]])


def filled(values: Integers, size: int, filler: int = 0) -> Integers:
    """`values` and as many fillers as it takes to be `size`."""
    whole = np.full(size, filler, np.int64)
    whole[: len(values)] = values
    return whole
