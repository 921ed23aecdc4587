"""Many demonstrations as a few flat arrays: what training reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.demos.pairs import PairTable, spans
from attentiontuner.demos.store.manifest import ShardEntry
from attentiontuner.demos.store.shards import FrameTable, Shard
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec


@dataclass(frozen=True)
class PackedDemos:
    """N episodes of together S steps over U distinct observations. Nothing is padded.

    Episode i is steps `starts[i] : starts[i] + lengths[i]`; its observation at step t is
    `frames[frame_index[starts[i] + t]]`, as bytes that `observation.decode` makes arrays of.
    """

    observation: ObservationSpec
    frames: NDArray[np.uint8]  # [U, nbytes]
    frame_index: NDArray[np.int64]  # [S]
    actions: NDArray[Any]  # [S, …], int64, or float32 for numbers within bounds
    lengths: NDArray[np.int64]  # [N]
    starts: NDArray[np.int64]  # [N]
    pairs: PairTable  # of N episodes
    success: NDArray[np.bool_]  # [N]
    seeds: NDArray[np.int64]  # [N]
    episodes: NDArray[np.int64]  # [N], their numbers in the data set

    def __len__(self) -> int:
        """Number of episodes N."""
        return len(self.lengths)


def pack(
    observation: ObservationSpec,
    action: ActionSpec,
    shards: Sequence[ShardEntry],
    chosen: NDArray[np.int64],
    read: Callable[[ShardEntry], Shard],
    read_pairs: Callable[[ShardEntry], PairTable],
) -> PackedDemos:
    """The chosen episodes in the order given, each shard read once and forgotten."""
    ends = np.array([shard.end for shard in shards], np.int64)
    shard_of = np.searchsorted(ends, chosen, side="right")
    every_length = np.array([length for shard in shards for length in shard.lengths], np.int64)
    lengths = every_length[chosen]
    starts = np.cumsum(lengths) - lengths
    steps = int(lengths.sum())
    frame_index, actions = np.empty(steps, np.int64), np.empty((steps, *action.shape), action.dtype)
    success, seeds = np.empty(len(chosen), np.bool_), np.empty(len(chosen), np.int64)
    by_shard, pairs = np.argsort(shard_of, kind="stable"), []
    used_shards, taken = np.unique(shard_of), np.bincount(shard_of, lengths)
    most = sum(min(shards[number].distinct_frames, int(taken[number])) for number in used_shards)
    table = FrameTable(observation.nbytes, room=most)
    for number in used_shards:
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
        pairs.append(read_pairs(entry).select(local))
        del shard, frames  # before the next is read
    return PackedDemos(
        observation=observation,
        frames=table.frames,
        frame_index=frame_index,
        actions=actions,
        lengths=lengths,
        starts=starts,
        pairs=PairTable.join(pairs).select(np.argsort(by_shard)),
        success=success,
        seeds=seeds,
        episodes=chosen,
    )
