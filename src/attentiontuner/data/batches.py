"""Packed batches: whole episodes end to end, no padding, equal observations once. The data live on the device as bytes.

Legend: B episodes, S steps in all of them together, T steps of the longest, U distinct observations, n = 2T tokens.

A batch has the steps of its episodes one after another. `slot` says where a step would stand in a padded [B, T] layout;
attention is the only part of a model that needs that layout. On a GPU the sizes are rounded up (`Sizes`), so that one
recorded CUDA graph serves many batches; steps beyond the real ones have the slot B·T, one past the end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.data.tokens import TOKENS_PER_STEP, head_of, observation_token
from attentiontuner.demos.packed import PackedDemos

Integers = NDArray[np.int64]


class Sizes(NamedTuple):
    """The shape of a batch: how many of each thing it has room for."""

    rows: int
    steps: int
    longest: int
    frames: int
    ones: int


@dataclass(frozen=True)
class Batch:
    """What a model reads, on its device.

    Attributes:
        observations: `[U, …]` bytes (float32 for vectors), the distinct observations.
        frame: `[S]` which of them each step saw.
        actions: `[S]` the action taken at each step.
        time: `[S]` the step's number in its episode.
        slot: `[S]` row · longest + time; rows · longest for steps that only fill the shape.
        lengths: `[B]` steps of each episode.
        annotated: `[B]` whether the episode takes part in the memory loss.
        ones: `[K]` flat places of the ones of E in `[heads, B, n, n]`; one past the end for fillers.
        totals: `[2]` float32: what the sums are divided by, the steps and the entries of E of annotated episodes in the
            whole batch (over all processes).
        rows, longest: B and T.
    """

    observations: Tensor
    frame: Tensor
    actions: Tensor
    time: Tensor
    slot: Tensor
    lengths: Tensor
    annotated: Tensor
    ones: Tensor
    totals: Tensor
    rows: int
    longest: int

    @property
    def real(self) -> Tensor:
        """`[S]` bool: the steps that are not fillers."""
        return self.slot < self.rows * self.longest

    @property
    def tokens(self) -> int:
        """n: tokens of the longest episode."""
        return TOKENS_PER_STEP * self.longest

    def expert(self, heads: int) -> Tensor:
        """E, one for each supervised head: bool `[heads, B, n, n]`."""
        size = heads * self.rows * self.tokens**2
        flat = torch.zeros(size + 1, dtype=torch.bool, device=self.ones.device)
        flat[self.ones] = True
        return flat[:size].view(heads, self.rows, self.tokens, self.tokens)


class Index(NamedTuple):
    """A batch as numbers only, made on the host: each field is int64 and becomes the `Batch` field of that name."""

    frames: Integers
    source: Integers
    frame: Integers
    time: Integers
    slot: Integers
    lengths: Integers
    annotated: Integers
    ones: Integers
    totals: Integers


class DemoData:
    """Demonstrations on a device.

    Args:
        packed: the demonstrations.
        device: where frames and actions live.
        attend_self: whether E has ones on the diagonal of the observations.
        heads: number of supervised heads.
        split_pairs: give each supervised head its own stretch of every row instead of all of it.
    """

    def __init__(
        self,
        packed: PackedDemos,
        device: torch.device | str = "cpu",
        attend_self: bool = True,
        heads: int = 1,
        split_pairs: bool = False,
    ) -> None:
        self.device = torch.device(device)
        self.packed = packed
        self.heads = max(heads, 1)
        self.frames = torch.from_numpy(np.ascontiguousarray(packed.frames)).to(self.device)
        self.actions = torch.from_numpy(packed.actions.astype(np.int64)).to(self.device)
        self.lengths = packed.lengths.astype(np.int64)
        self.starts = packed.starts.astype(np.int64)
        self.annotated = packed.annotated.astype(bool)
        self._frame_index = packed.frame_index.astype(np.int64)
        self._list_ones(attend_self, split_pairs)

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    def _list_ones(self, attend_self: bool, split_pairs: bool) -> None:
        """The ones of every episode's E as (head, row token, column token), episode after episode."""
        episode, p, q = (self.packed.pairs[:, column].astype(np.int64) for column in range(3))
        if attend_self:
            annotated_rows = np.flatnonzero(self.annotated)
            own = np.repeat(annotated_rows, self.lengths[annotated_rows])
            present = ranges(np.zeros(len(annotated_rows), np.int64), self.lengths[annotated_rows])
            episode, p, q = np.append(episode, own), np.append(p, present), np.append(q, present)
        column, row = observation_token(p), observation_token(q)
        if split_pairs:
            head = head_of(column, row, self.heads)
        else:
            head = np.repeat(np.arange(self.heads), len(row))
            episode, column, row = (np.tile(values, self.heads) for values in (episode, column, row))
        order = np.lexsort((column, row, head, episode))
        self._one_head, self._one_row, self._one_column = head[order], row[order], column[order]
        self._one_count = np.bincount(episode, minlength=len(self))
        self._one_start = np.cumsum(self._one_count) - self._one_count

    def index(self, rows: Integers, sizes: Sizes | None = None, share: slice = slice(None)) -> Index:
        """The batch of the episodes `rows` as numbers, filled up to `sizes` (default: exactly as large as it is).

        `share` is the part of the rows this process computes; the totals are those of all of them.
        """
        entries = (TOKENS_PER_STEP * self.lengths[rows]) ** 2
        totals = np.array([self.lengths[rows].sum(), max(entries[self.annotated[rows]].sum(), 1)])
        rows = rows[share]
        lengths = self.lengths[rows]
        sizes = sizes or self.exact_sizes(rows)
        row = np.repeat(np.arange(len(rows)), lengths)
        time = ranges(np.zeros(len(rows), np.int64), lengths)
        source = ranges(self.starts[rows], lengths)
        frames, frame = np.unique(self._frame_index[source], return_inverse=True)
        return Index(
            frames=_fill(frames, sizes.frames, 0),
            source=_fill(source, sizes.steps, 0),
            frame=_fill(frame.astype(np.int64), sizes.steps, 0),
            time=_fill(time, sizes.steps, 0),
            slot=_fill(row * sizes.longest + time, sizes.steps, sizes.rows * sizes.longest),
            lengths=_fill(lengths, sizes.rows, 0),
            annotated=_fill(self.annotated[rows].astype(np.int64), sizes.rows, 0),
            ones=self._ones(rows, sizes),
            totals=totals,
        )

    def _ones(self, rows: Integers, sizes: Sizes) -> Integers:
        counts = self._one_count[rows]
        place = ranges(self._one_start[rows], counts)
        n = TOKENS_PER_STEP * sizes.longest
        batch_row = np.repeat(np.arange(len(rows)), counts)
        flat = ((self._one_head[place] * sizes.rows + batch_row) * n + self._one_row[place]) * n + self._one_column[
            place
        ]
        return _fill(flat, sizes.ones, self.heads * sizes.rows * n * n)

    def exact_sizes(self, rows: Integers) -> Sizes:
        """The sizes of a batch of these episodes with nothing to spare."""
        steps = int(self.lengths[rows].sum())
        frames = len(np.unique(self._frame_index[ranges(self.starts[rows], self.lengths[rows])]))
        longest = int(self.lengths[rows].max(initial=1))
        return Sizes(len(rows), steps, longest, frames, int(self._one_count[rows].sum()))

    def assemble(self, index: "Index | list[Tensor]", sizes: Sizes) -> Batch:
        """Gather a batch on the device; `index` holds tensors there, in the order of `Index`."""
        frames, source, frame, time, slot, lengths, annotated, ones, totals = index
        return Batch(
            observations=self.frames.index_select(0, torch.as_tensor(frames)),
            frame=torch.as_tensor(frame),
            actions=self.actions.index_select(0, torch.as_tensor(source)),
            time=torch.as_tensor(time),
            slot=torch.as_tensor(slot),
            lengths=torch.as_tensor(lengths),
            annotated=torch.as_tensor(annotated) > 0,
            ones=torch.as_tensor(ones),
            totals=torch.as_tensor(totals).float(),
            rows=sizes.rows,
            longest=sizes.longest,
        )

    def batch(self, rows: Integers, share: slice = slice(None)) -> Batch:
        """The batch of the episodes `rows`, on the device, exactly as large as it is."""
        rows = np.asarray(rows, np.int64)
        sizes = self.exact_sizes(rows[share])
        index = self.index(rows, sizes, share)
        return self.assemble([torch.from_numpy(field).to(self.device) for field in index], sizes)


def epoch_batches(episodes: int, batch_size: int, seed: int, epoch: int) -> list[Integers]:
    """The batches of an epoch: a fresh shuffle of all episodes, cut every `batch_size`. A pure function."""
    order = np.random.default_rng([seed, epoch]).permutation(episodes)
    return [order[start : start + batch_size] for start in range(0, episodes, batch_size)]


def ranges(starts: Integers, counts: Integers) -> Integers:
    """`[start, start + 1, …]` of each start for its count, one after another."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def _fill(values: Integers, size: int, filler: int) -> Integers:
    if len(values) == size:
        return values
    assert len(values) < size, f"a batch of {len(values)} does not fit a shape of {size}"
    filled = np.full(size, filler, np.int64)
    filled[: len(values)] = values
    return filled
