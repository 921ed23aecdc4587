"""Packed batches: whole episodes end to end, no padding, equal observations once. The data live on the device as bytes.

Legend: B episodes, S steps in all of them together, T steps of the longest, U distinct observations, n = 2T tokens.

A batch has the steps of its episodes one after another. `slot` says where a step would stand in a padded [B, T]
layout, which few parts of a model need. The host sends the numbers of the episodes and little else; everything is
gathered on the device. On a GPU sizes are rounded up (`Sizes`), so that one recorded CUDA graph serves many batches;
steps beyond the real ones have the slot B·T, one past the end.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.data.tokens import TOKENS_PER_STEP, head_of, observation_token
from attentiontuner.demos.packed import PackedDemos, spans

Integers = NDArray[np.int64]

WORTH_SHARING = 0.7
"""Equal observations of a batch are embedded once where at most this share of its steps saw something of their own."""


FILLER_STEPS = 256
"""A rounded shape has room for a multiple of this many steps."""


class Sizes(NamedTuple):
    """The shape of a batch: how many of each thing it has room for. `frames` is 0 where steps share no observations."""

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
        frame: `[S]` which of them each step saw; None where step s saw observation s.
        actions: `[S]` the action taken at each step.
        time: `[S]` the step's number in its episode; the fillers count as one more.
        slot: `[S]` row · longest + time; rows · longest for steps that only fill the shape.
        bounds: `[B + 2]` 0, then the steps up to the end of each episode, the fillers last.
        lengths: `[B]` steps of each episode.
        annotated: `[B]` whether the episode takes part in the memory loss.
        ones: `[K]` flat places of the ones of E in `[heads, B, n, n]`; one past the end for fillers.
        multiplicity: `[K]` float32: how often each of the ones counts.
        totals: `[3]` float32: what sums are divided by in the whole batch (over all processes): the steps, the entries
            of E of annotated episodes, and the things (pairs times multiplicity) that as many recall on average.
        rows, longest: B and T.
    """

    observations: Tensor
    frame: Tensor | None
    actions: Tensor
    time: Tensor
    slot: Tensor
    bounds: Tensor
    lengths: Tensor
    annotated: Tensor
    ones: Tensor
    multiplicity: Tensor
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

    def per_step(self, embedded: Tensor) -> Tensor:
        """What belongs to distinct observations `[U, …]`, for each step `[S, …]`."""
        return embedded if self.frame is None else embedded.index_select(0, self.frame)

    def expert(self, heads: int) -> Tensor:
        """E, one for each supervised head: bool `[heads, B, n, n]`."""
        size = heads * self.rows * self.tokens**2
        flat = torch.zeros(size + 1, dtype=torch.bool, device=self.ones.device)
        flat.index_fill_(0, self.ones, True)
        return flat[:size].view(heads, self.rows, self.tokens, self.tokens)

    def recalled(self) -> Tensor:
        """How often each step recalls each earlier one: float32 `[B, T, T]` of multiplicities, in timesteps."""
        n, size = self.tokens, self.rows * self.longest**2
        row, token, past = self.ones // n**2, self.ones // n % n, self.ones % n
        place = (row * self.longest + token // TOKENS_PER_STEP) * self.longest + past // TOKENS_PER_STEP
        wanted = (row < self.rows) & (past < token)
        flat = torch.zeros(size + 1, device=self.ones.device)
        flat = flat.index_add(0, torch.where(wanted, place, size), self.multiplicity)
        return flat[:size].view(self.rows, self.longest, self.longest)


class DemoData:
    """Demonstrations on a device.

    Args:
        packed: the demonstrations.
        device: where frames and actions live.
        attend_self: whether E has ones on the diagonal of the observations.
        heads: number of supervised heads.
        split_pairs: give each supervised head its own stretch of every row instead of all of it.
        things: how many things (pairs times multiplicity) an annotated episode recalls on average, where these are only
            some of the episodes of a data set.
    """

    def __init__(
        self,
        packed: PackedDemos,
        device: torch.device | str = "cpu",
        attend_self: bool = True,
        heads: int = 1,
        split_pairs: bool = False,
        things: float | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.frames = torch.from_numpy(np.ascontiguousarray(packed.frames)).to(self.device)
        # A GPU has its own copy of the frames, and the host needs none.
        self.packed = packed if self.device.type == "cpu" else replace(packed, frames=packed.frames[:0].copy())
        self.heads = max(heads, 1)
        self.lengths = packed.lengths.astype(np.int64)
        self.starts = packed.starts.astype(np.int64)
        self.annotated = packed.annotated.astype(bool)
        self._seen = packed.frame_index.astype(np.int64)
        self._frame_index = self._on_device(self._seen)
        self._actions = self._on_device(packed.actions)
        self._list_ones(attend_self, split_pairs)
        self._things = mean_things(packed.annotated, packed.pairs) if things is None else things
        self.share_frames = self._distinct_share() <= WORTH_SHARING

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    def _on_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device)

    def _list_ones(self, attend_self: bool, split_pairs: bool) -> None:
        """The ones of every episode's E as (head, row token, column token, multiplicity), episode after episode."""
        episode, p, q, multiplicity = (self.packed.pairs[:, column].astype(np.int64) for column in range(4))
        if attend_self:
            annotated_rows = np.flatnonzero(self.annotated)
            own = np.repeat(annotated_rows, self.lengths[annotated_rows])
            present = spans(np.zeros(len(annotated_rows), np.int64), self.lengths[annotated_rows])
            episode, p, q = np.append(episode, own), np.append(p, present), np.append(q, present)
            multiplicity = np.append(multiplicity, np.ones_like(own))
        column, row = observation_token(p), observation_token(q)
        if split_pairs:
            head = head_of(column, row, self.heads)
        else:
            head = np.repeat(np.arange(self.heads), len(row))
            repeated = (np.tile(values, self.heads) for values in (episode, column, row, multiplicity))
            episode, column, row, multiplicity = repeated
        order = np.argsort(episode, kind="stable")
        self._one_count = np.bincount(episode, minlength=len(self))
        self._ones = self._on_device(np.stack([each[order] for each in (head, row, column, multiplicity)]))
        one_starts = np.cumsum(self._one_count) - self._one_count
        episodes = np.stack([self.lengths, self.starts, one_starts, self.annotated.astype(np.int64)], 1)
        # One row more than there are episodes: the empty episode that fills a shape.
        self._episodes = self._on_device(np.append(episodes, np.zeros_like(episodes[:1]), 0))

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

    def numbers(self, rows: Integers, share: slice = slice(None), *, rounded: bool = False) -> tuple[Integers, Sizes]:
        """A batch of the episodes `rows` as flat numbers for `assemble`, and its shape.

        `share` is the part of the rows this process computes; the totals are those of all of them. A process without
        any computes one empty episode, so that all take the same step. `rounded` leaves a little room in the shape, so
        that few different shapes occur.
        """
        entries = (TOKENS_PER_STEP * self.lengths[rows]) ** 2
        annotated = self.annotated[rows]
        counted = [entries[annotated].sum(), round(self._things * annotated.sum())]
        totals = np.array([self.lengths[rows].sum(), *(max(count, 1) for count in counted)])
        rows = rows[share]
        distinct, frame = self._distinct(rows) if self.share_frames else (rows[:0], rows[:0])
        sizes = Sizes(
            rows=max(len(rows), 1),
            steps=max(int(self.lengths[rows].sum()), 1),
            longest=int(self.lengths[rows].max(initial=1)),
            frames=max(len(distinct), int(self.share_frames)),
            ones=int(self._one_count[rows].sum()),
        )
        if rounded:
            units = Sizes(1, FILLER_STEPS, 16, 256, 4096)
            sizes = Sizes(*(-(-size // unit) * unit for size, unit in zip(sizes, units, strict=True)))
        shared = sizes.steps if self.share_frames else 0
        bounds = _bounds(self.lengths[rows], sizes.rows, sizes.steps)
        one_bounds = _bounds(self._one_count[rows], sizes.rows, sizes.ones)
        rows = _fill(rows, sizes.rows + 1, len(self))
        parts = [totals, rows, bounds, one_bounds, _fill(distinct, sizes.frames), _fill(frame, shared)]
        return np.concatenate(parts), sizes

    def assemble(self, numbers: Tensor, sizes: Sizes) -> Batch:
        """Gather a batch on the device from the numbers there."""
        shared = sizes.steps if self.share_frames else 0
        parts = [3, sizes.rows + 1, sizes.rows + 2, sizes.rows + 2, sizes.frames, shared]
        totals, rows, bounds, one_bounds, distinct, frame = numbers.split(parts)
        lengths, starts, one_starts, annotated = self._episodes[rows].unbind(1)  # [B + 1], the fillers last
        row, time, source = spread(bounds, starts, sizes.steps, len(self._actions))
        if not self.share_frames:
            distinct = self._frame_index[source]
        one_of, _, one = spread(one_bounds, one_starts, sizes.ones, self._ones.shape[1])
        head, token, recalled, multiplicity = self._ones[:, one].unbind()
        n = TOKENS_PER_STEP * sizes.longest
        matrix = torch.add(one_of, head, alpha=sizes.rows)
        place = torch.add(recalled, torch.add(token, matrix, alpha=n), alpha=n)
        return Batch(
            observations=self.frames.index_select(0, distinct),
            frame=frame if self.share_frames else None,
            actions=self._actions[source],
            time=time,
            slot=torch.add(time, row, alpha=sizes.longest).clamp(max=sizes.rows * sizes.longest),
            bounds=bounds,
            lengths=lengths[:-1],
            annotated=annotated[:-1] > 0,
            ones=torch.where(one_of < sizes.rows, place, self.heads * sizes.rows * n * n),
            multiplicity=multiplicity.float(),
            totals=totals.float(),
            rows=sizes.rows,
            longest=sizes.longest,
        )

    def batch(self, rows: Integers, share: slice = slice(None)) -> Batch:
        """The batch of the episodes `rows`, on the device, exactly as large as it is."""
        numbers, sizes = self.numbers(np.asarray(rows, np.int64), share)
        return self.assemble(torch.from_numpy(numbers).to(self.device), sizes)


def mean_things(annotated: NDArray[np.bool_], pairs: NDArray[np.integer[Any]]) -> float:
    """How many things an annotated episode recalls on average: `[N]` bool, and `[K, 4]` pairs with multiplicities."""
    return float(pairs[:, 3].sum() / max(annotated.sum(), 1))


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


def _bounds(counts: Integers, rows: int, size: int) -> Integers:
    """0, then the sums of `counts` up to each of `rows` owners (who may be fewer), then `size`."""
    ends = np.cumsum(counts)
    return np.concatenate([[0], _fill(ends, rows, int(counts.sum())), [size]])


def _fill(values: Integers, size: int, filler: int = 0) -> Integers:
    filled = np.full(size, filler, np.int64)
    filled[: len(values)] = values
    return filled
