"""Where the batches come from: demonstrations held as a whole, or streamed from the store pool by pool."""

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.progress import progress
from attentiontuner.data.dataset import DemoData, epoch_batches, mean_things
from attentiontuner.data.windows import WindowedData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.demos.store.reader import DemoStore

Integers = NDArray[np.int64]

POOLS_AT_ONCE = 2
"""One to draw batches from or to test on, and one that is being read."""

UNPACKED = 3
"""How many times its frames a shard takes at most while it is read."""

BLOCK_BYTES = 4 * 2**20
"""Bytes of observations that are looked at together."""


@dataclass(frozen=True)
class Chunk:
    """Some batches of an epoch: rows of `data`, whose row i is episode `episodes[i]` of the data set."""

    data: DemoData
    episodes: Integers
    batches: list[Integers]


class Source:
    """The training demonstrations of a run, as the batches of each epoch: a pure function of (seed, epoch). Its test
    demonstrations as pieces, in their order.

    Args:
        store: the data set.
        episodes: numbers of the episodes in it.
        labels: their pairs.
        batch_size: demonstrations in a batch.
        seed: fixes the order of the batches.
        device: where batches are gathered.
        memory_limit: bytes of frames held at once where they are streamed; None: all are held.
        learn_padding: from the second epoch on all demonstrations are as long as the longest.
        window: batches hold windows of so many steps (`data.windows`); None: whole episodes.
    """

    def __init__(
        self,
        store: DemoStore,
        episodes: Integers,
        labels: PairTable,
        batch_size: int,
        seed: int,
        device: torch.device,
        memory_limit: int | None = None,
        learn_padding: bool = False,
        window: int | None = None,
    ) -> None:
        self.store, self.episodes, self.labels, self.device = store, episodes, labels, device
        self.batch_size, self.seed, self.memory_limit, self.window = batch_size, seed, memory_limit, window
        self._things = mean_things(labels)
        self._shards = [] if memory_limit is None else _shard_rows(store, episodes)
        self._longest = int(labels.lengths.max(initial=1)) if learn_padding else None
        self._whole: tuple[bool, DemoData] | None = None  # whether it is filled up

    def __len__(self) -> int:
        """Number of demonstrations."""
        return len(self.episodes)

    def batches(self, epoch: int) -> int:
        """Number of batches of an epoch (from 0)."""
        return sum(len(batches) for _, batches in self._plan(epoch))

    def episodes_of(self, epoch: int, batch: int) -> Integers:
        """The numbers of the episodes of a batch (from 0) of an epoch; nothing is read."""
        return [self.episodes[rows[own]] for rows, batches in self._plan(epoch) for own in batches][batch]

    def chunks(self, epoch: int, first_batch: int = 0) -> Iterator[Chunk]:
        """The batches of an epoch (from 0) from number `first_batch` on."""
        if self.memory_limit is None:
            filled = self._longest is not None and epoch > 0
            if self._whole is None or self._whole[0] != filled:
                self._whole = None  # first forgotten, since a device may hold one only
                self._whole = filled, self._data(self._read(np.arange(len(self))), epoch)
            if isinstance(self._whole[1], WindowedData):
                self._whole[1].epoch = epoch
            ((_, batches),) = self._plan(epoch)
            if first_batch < len(batches):
                yield Chunk(self._whole[1], self.episodes, batches[first_batch:])
            return
        plan = []
        for rows, batches in self._plan(epoch):
            if first_batch < len(batches):
                plan.append((rows, batches[first_batch:]))
            first_batch = max(0, first_batch - len(batches))
        with ThreadPoolExecutor(1) as reader:
            coming: Future[PackedDemos] | None = reader.submit(self._read, plan[0][0]) if plan else None
            for number, (rows, batches) in enumerate(plan):
                assert coming is not None
                # The reader never touches the device: another thread's copy would spoil a CUDA graph being recorded.
                data = self._data(coming.result(), epoch)
                coming = reader.submit(self._read, plan[number + 1][0]) if number + 1 < len(plan) else None
                yield Chunk(data, self.episodes[rows], batches)

    def pieces(self) -> Iterator[DemoData]:
        """All demonstrations in their order: in one piece that stays where they are held, else pool by pool, of which
        one may be in use while the next one is read."""
        if self.memory_limit is None:
            yield next(self.chunks(0)).data
            return
        for rows in self._pools(range(len(self._shards))):
            yield self._data(self._read(rows), 0)

    def _data(self, packed: PackedDemos, epoch: int) -> DemoData:
        if self.window is None:
            return DemoData(self._filled_up(packed, epoch), self.device, self._things)
        return WindowedData(packed, self.window, self.seed, self.device, epoch)

    def observed(self) -> Iterator[tuple[NDArray[np.uint8], Integers]]:
        """All training observations in blocks of distinct ones `[u, bytes]`, with how many steps saw each `[u]`."""
        if self.memory_limit is None:
            data = next(self.chunks(0)).data
            yield from in_blocks(data.frames, data.packed.frame_index)
            return
        plan = self._plan(0)
        with progress(f"look at {self.store.task}", len(self)) as bar:
            for rows, _ in plan:
                packed = self._read(rows)
                yield from in_blocks(torch.from_numpy(packed.frames), packed.frame_index)
                bar.advance(len(rows))

    def actions(self) -> Iterator[NDArray[np.generic]]:
        """All training actions, in blocks `[n, …]`."""
        if self.memory_limit is None:
            yield next(self.chunks(0)).data.packed.actions
            return
        with progress(f"look at the actions of {self.store.task}", len(self)) as bar:
            for rows, _ in self._plan(0):
                yield self._read(rows).actions
                bar.advance(len(rows))

    def frames(self) -> int:
        """About how many distinct training observations there are."""
        return max(1, frame_bytes(self.store, self.episodes) // self.store.observation.nbytes)

    def _plan(self, epoch: int) -> list[tuple[Integers, list[Integers]]]:
        """The pools of an epoch: shards in random order, as many together as fit; batches mix all of a pool."""
        if self.memory_limit is None:
            return [(np.arange(len(self)), epoch_batches(len(self), self.batch_size, self.seed, epoch))]
        rng = np.random.default_rng([self.seed, epoch])
        plan = []
        for rows in self._pools(rng.permutation(len(self._shards))):
            order = rng.permutation(len(rows))
            size = self.batch_size
            plan.append((rows, [order[start : start + size] for start in range(0, len(rows), size)]))
        return plan

    def _pools(self, order: Iterable[int]) -> list[Integers]:
        """The rows of shards in this order, of as many together as fit."""
        assert self.memory_limit is not None
        room = self.memory_limit // POOLS_AT_ONCE
        pools: list[list[Integers]] = []
        used = 0
        for number in order:
            rows, size = self._shards[number]
            if used + size > room or not pools:
                pools.append([])
                used = 0
            pools[-1].append(rows)
            used += size
        return [np.concatenate(pool) for pool in pools]

    def _read(self, rows: Integers) -> PackedDemos:
        packed = self.store.annotated_by(None).read_packed(self.episodes[rows])
        return replace(packed, pairs=self.labels.select(rows))

    def _filled_up(self, packed: PackedDemos, epoch: int) -> PackedDemos:
        return packed if self._longest is None or epoch == 0 else filled_up(packed, self._longest)

    def fingerprint(self) -> dict[str, object]:
        """What a run must find unchanged to go on: which demonstrations and which labels it trains on."""
        shards = self.store.manifest.readable_shards()
        return {
            "demonstrations": len(self),
            "annotated": int(self.labels.annotated.sum()),
            "seed": self.store.seed,
            "frames": _digest("".join(shard.sha256 for shard in shards).encode()),
            "episodes": _digest(self.episodes.astype(np.int64).tobytes()),
            "labels": _digest(self.labels.annotated.tobytes() + _label_bytes(self.labels)),
        }


def filled_up(packed: PackedDemos, longest: int) -> PackedDemos:
    """The demonstrations, each as long as the longest: behind its own steps, steps that see zeros and do action 0."""
    count = len(packed)
    own = (np.arange(longest) < packed.lengths[:, None]).ravel()
    frame_index = np.full(count * longest, len(packed.frames), np.int64)
    frame_index[own] = packed.frame_index
    actions = np.zeros((count * longest, *packed.actions.shape[1:]), packed.actions.dtype)
    actions[own] = packed.actions
    return replace(
        packed,
        frames=np.append(packed.frames, np.zeros_like(packed.frames[:1]), 0),
        frame_index=frame_index,
        actions=actions,
        lengths=np.full(count, longest, np.int64),
        starts=np.arange(count, dtype=np.int64) * longest,
    )


def _label_bytes(labels: PairTable) -> bytes:
    uncertain = b"" if labels.exact else labels.p_last.tobytes() + labels.q_last.tobytes()
    weights = b"" if (labels.weight == 1).all() else labels.weight.tobytes()
    return labels.rows().tobytes() + uncertain + weights


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def in_blocks(frames: Tensor, frame_index: Integers) -> Iterator[tuple[NDArray[np.uint8], Integers]]:
    """Frames `[U, bytes]` in blocks, with how often each occurs among `frame_index` `[S]`."""
    seen = np.bincount(frame_index, minlength=len(frames))
    size = max(1, BLOCK_BYTES * len(frames) // max(frames.nbytes, 1))
    for start in range(0, len(frames), size):
        yield frames[start : start + size].cpu().numpy(), seen[start : start + size]


def frame_bytes(store: DemoStore, episodes: Integers) -> int:
    """About how many bytes of distinct frames these episodes have, from the manifest alone."""
    return sum(size for _, size in _shard_rows(store, episodes))


def reading_bytes(store: DemoStore) -> int:
    """About how many bytes it takes to read the largest shard, beside the frames that are taken from it."""
    largest = max((shard.distinct_frames for shard in store.manifest.readable_shards()), default=0)
    return UNPACKED * largest * store.observation.nbytes


def _shard_rows(store: DemoStore, episodes: Integers) -> list[tuple[Integers, int]]:
    """For each shard: which of `episodes` (by place) lie in it, and their share of its frame bytes."""
    found = []
    for shard in store.manifest.readable_shards():
        rows = np.flatnonzero((episodes >= shard.first) & (episodes < shard.end))
        if len(rows):
            found.append((rows, shard.distinct_frames * store.observation.nbytes * len(rows) // shard.episodes))
    return found
