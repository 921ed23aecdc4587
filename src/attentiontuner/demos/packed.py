"""Many demonstrations as a few flat arrays: what training reads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.demos.manifest import ShardEntry
from attentiontuner.demos.pairs import PairArray
from attentiontuner.demos.shards import FrameTable, Shard
from attentiontuner.errors import UserError
from attentiontuner.observations import ObservationSpec


@dataclass(frozen=True)
class PackedDemos:
    """N episodes of together S steps over U distinct observations. Nothing is padded.

    Episode i is steps `starts[i] : starts[i] + lengths[i]`; its observation at step t is
    `frames[frame_index[starts[i] + t]]`.
    """

    observation: ObservationSpec
    frames: NDArray[Any]  # [U, …]
    frame_index: NDArray[np.int64]  # [S]
    actions: NDArray[np.int64]  # [S]
    lengths: NDArray[np.int64]  # [N]
    starts: NDArray[np.int64]  # [N]
    pairs: NDArray[np.int64]  # [K, 4] rows (row in the selection, p, q, multiplicity), in order of (row, q, p)
    annotated: NDArray[np.bool_]  # [N]; False: not annotated, which is not the same as no pairs
    success: NDArray[np.bool_]  # [N]
    seeds: NDArray[np.int64]  # [N]
    episodes: NDArray[np.int64]  # [N], their numbers in the data set

    def __len__(self) -> int:
        """Number of episodes N."""
        return len(self.lengths)


def pack(
    observation: ObservationSpec,
    shards: Sequence[ShardEntry],
    episodes: Sequence[int] | NDArray[np.int64],
    read: Callable[[ShardEntry], Shard],
    read_pairs: Callable[[ShardEntry], Mapping[int, PairArray]],
) -> PackedDemos:
    """The chosen episodes in the order given, each shard read once and forgotten."""
    chosen = np.asarray(episodes, np.int64).reshape(-1)
    ends = np.array([shard.end for shard in shards], np.int64)
    total = int(ends[-1]) if len(ends) else 0
    outside = chosen[(chosen < 0) | (chosen >= total)]
    if len(outside):
        raise UserError(f"there is no episode {outside[0]}: the data set holds {total}")
    shard_of = np.searchsorted(ends, chosen, side="right")
    every_length = np.array([length for shard in shards for length in shard.lengths], np.int64)
    lengths = every_length[chosen]
    starts = np.cumsum(lengths) - lengths
    steps = int(lengths.sum())
    frame_index, actions = np.empty(steps, np.int64), np.empty(steps, np.int64)
    success, annotated = np.empty(len(chosen), np.bool_), np.zeros(len(chosen), np.bool_)
    seeds = np.empty(len(chosen), np.int64)
    table = FrameTable(observation)
    pairs: list[NDArray[np.int64]] = []
    for number in np.unique(shard_of):
        entry = shards[number]
        shard = read(entry)
        rows = np.flatnonzero(shard_of == number)
        local = chosen[rows] - entry.first
        source = spans(shard.starts[local], lengths[rows])
        target = spans(starts[rows], lengths[rows])
        used, inverse = np.unique(shard.frame_index[source], return_inverse=True)
        frames = shard.frames if len(used) == len(shard.frames) else shard.frames[used]
        frame_index[target] = table.add(frames)[inverse]
        actions[target] = shard.actions[source]
        success[rows], seeds[rows] = shard.success[local], shard.seeds[local]
        found = read_pairs(entry)
        for row in rows:
            of_row = found.get(int(chosen[row]))
            if of_row is not None:
                annotated[row] = True
                pairs.append(np.column_stack([np.full(len(of_row), row, np.int64), of_row]))
    return PackedDemos(
        observation=observation,
        frames=table.frames,
        frame_index=frame_index,
        actions=actions,
        lengths=lengths,
        starts=starts,
        pairs=_in_order(pairs),
        annotated=annotated,
        success=success,
        seeds=seeds,
        episodes=chosen,
    )


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, …, start + length - 1 of each span, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))


def _in_order(pairs: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    rows = np.concatenate([np.empty((0, 4), np.int64), *pairs])
    return rows[np.argsort(rows[:, 0], kind="stable")]
