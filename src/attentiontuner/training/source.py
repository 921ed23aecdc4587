"""Where the batches come from: demonstrations held as a whole, or streamed from the store pool by pool."""

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.data.batches import DemoData, epoch_batches, mean_things
from attentiontuner.data.labels import (
    Labels,
    annotate_fraction,
    choose_demonstrations,
    label_generator,
    perturb_pairs,
    random_pairs,
    shuffle_pairs,
)
from attentiontuner.demos.annotations import read_annotations
from attentiontuner.demos.manifest import read_manifest
from attentiontuner.demos.packed import PackedDemos
from attentiontuner.demos.store import DemoStore
from attentiontuner.errors import UserError
from attentiontuner.models.recall import MOST, RecallConfig
from attentiontuner.progress import progress
from attentiontuner.training.config import METHODS, TrainConfig
from attentiontuner.wording import counted

Integers = NDArray[np.int64]

MOST_TEST_EPISODES = 500
"""More would not make the test accuracy's curve any clearer, and would be missing from training."""

POOLS_AT_ONCE = 2
"""One to draw batches from, and one that is being read."""

BLOCK_BYTES = 4 * 2**20
"""Bytes of observations that are looked at together."""


@dataclass(frozen=True)
class Chunk:
    """Some batches of an epoch: rows of `data`, whose row i is episode `episodes[i]` of the data set."""

    data: DemoData
    episodes: Integers
    batches: list[Integers]


class Source:
    """The training demonstrations of a run, as the batches of each epoch: a pure function of (config, epoch)."""

    def __init__(self, store: DemoStore, episodes: Integers, config: TrainConfig, device: torch.device) -> None:
        self.episodes, self.config, self.device = episodes, config, device
        self.labels = training_labels(store, episodes, config)
        self._things = mean_things(self.labels.annotated, self.labels.pairs)
        self._frames = DemoStore(store.path, read_manifest(store.path), annotator=None)
        self._pools = [] if config.memory_limit is None else _shard_rows(self._frames, episodes)
        self._whole: DemoData | None = None

    def __len__(self) -> int:
        """Number of training demonstrations."""
        return len(self.episodes)

    def batches(self, epoch: int) -> int:
        """Number of batches of an epoch (from 0)."""
        if self.config.memory_limit is None:
            return -(-len(self) // self.config.batch_size)
        return sum(len(batches) for _, batches in self._plan(epoch))

    def chunks(self, epoch: int, first_batch: int = 0) -> Iterator[Chunk]:
        """The batches of an epoch (from 0) from number `first_batch` on."""
        size, seed = self.config.batch_size, self.config.seed
        if self.config.memory_limit is None:
            if self._whole is None:
                self._whole = on_device(self._read(np.arange(len(self))), self.config, self.device, self._things)
            batches = epoch_batches(len(self), size, seed, epoch)
            if first_batch < len(batches):
                yield Chunk(self._whole, self.episodes, batches[first_batch:])
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
                data = on_device(coming.result(), self.config, self.device, self._things)
                coming = reader.submit(self._read, plan[number + 1][0]) if number + 1 < len(plan) else None
                yield Chunk(data, self.episodes[rows], batches)

    def observed(self) -> Iterator[tuple[NDArray[Any], Integers]]:
        """All training observations in blocks of distinct ones `[u, …]`, with how many steps saw each `[u]`."""
        if self.config.memory_limit is None:
            data = next(self.chunks(0)).data
            yield from _blocks(data.frames, data.packed.frame_index)
            return
        plan = self._plan(0)
        with progress(f"look at {self.config.task}", len(self)) as bar:
            for rows, _ in plan:
                packed = self._read(rows)
                yield from _blocks(torch.from_numpy(packed.frames), packed.frame_index)
                bar.advance(len(rows))

    def frames(self) -> int:
        """About how many distinct training observations there are."""
        return max(1, frame_bytes(self._frames, self.episodes) // _frame_size(self._frames))

    def _plan(self, epoch: int) -> list[tuple[Integers, list[Integers]]]:
        """The pools of an epoch: shards in random order, as many together as fit; batches mix all of a pool."""
        assert self.config.memory_limit is not None
        rng = np.random.default_rng([self.config.seed, epoch])
        room = self.config.memory_limit // POOLS_AT_ONCE
        pools: list[list[Integers]] = []
        used = room
        for number in rng.permutation(len(self._pools)):
            rows, size = self._pools[number]
            if used + size > room:
                pools.append([])
                used = 0
            pools[-1].append(rows)
            used += size
        plan = []
        for pool in pools:
            rows = np.concatenate(pool)
            order = rng.permutation(len(rows))
            size = self.config.batch_size
            plan.append((rows, [order[start : start + size] for start in range(0, len(rows), size)]))
        return plan

    def _read(self, rows: Integers) -> PackedDemos:
        packed = self._frames.read_packed(self.episodes[rows])
        labels = self.labels.select(rows)
        return replace(packed, annotated=labels.annotated, pairs=labels.pairs.astype(np.int64))

    def fingerprint(self) -> dict[str, object]:
        """What a run must find unchanged to go on: which demonstrations and which labels it trains on."""
        manifest = read_manifest(self._frames.path)
        frames = "".join(shard.sha256 for shard in manifest.readable_shards()).encode()
        labels = self.labels.annotated.tobytes() + np.ascontiguousarray(self.labels.pairs, np.int32).tobytes()
        return {
            "demonstrations": len(self),
            "annotated": int(self.labels.annotated.sum()),
            "seed": manifest.seed,
            "frames": hashlib.sha256(frames).hexdigest()[:16],
            "episodes": hashlib.sha256(self.episodes.astype(np.int64).tobytes()).hexdigest()[:16],
            "labels": hashlib.sha256(labels).hexdigest()[:16],
        }


def _blocks(frames: Tensor, frame_index: Integers) -> Iterator[tuple[NDArray[Any], Integers]]:
    """Frames `[U, …]` in blocks, with how often each occurs among `frame_index` `[S]`."""
    seen = np.bincount(frame_index, minlength=len(frames))
    size = max(1, BLOCK_BYTES * len(frames) // max(frames.nbytes, 1))
    for start in range(0, len(frames), size):
        yield frames[start : start + size].cpu().numpy(), seen[start : start + size]


def on_device(packed: PackedDemos, config: TrainConfig, device: torch.device, things: float | None = None) -> DemoData:
    """Packed demonstrations as the run's data; `things` is `mean_things` of all of them."""
    return DemoData(packed, device, config.attend_self, len(config.supervised()), config.split_pairs, things)


def split_episodes(
    store: DemoStore, test_store: DemoStore | None, config: TrainConfig
) -> tuple[Integers, tuple[DemoStore, Integers]]:
    """The training episodes' numbers, and the store and numbers of the test episodes (the last ones of `store`)."""
    total = len(store)
    if test_store is not None:
        test = (test_store, np.arange(len(test_store)))
        train = np.arange(total)
    else:
        count = min(round(total * config.test_fraction), MOST_TEST_EPISODES)
        count = max(count, int(config.test_fraction > 0 and total > 1))
        test = (store, np.arange(total - count, total))
        train = np.arange(total - count)
    if len(train) == 0:
        raise UserError(f"{store.path} holds {counted(total, 'episode')}: none is left to train on")
    return choose_demonstrations(train, config.demos, label_generator(config.seed, "demos")), test


def _without_pairs(config: TrainConfig) -> str:
    """The method that trains the same network without memory pairs."""
    network = METHODS[config.method].network
    return next(name for name, method in METHODS.items() if method.network is network and not method.pairs)


def _check_multiplicities(store: DemoStore, episodes: Integers, labels: Labels, config: TrainConfig) -> None:
    """A recall head counts up to exp(`MOST`) things at one step."""
    too_often = labels.pairs[labels.pairs[:, 3] > math.exp(MOST)]
    if len(too_often):
        row, p, q, multiplicity = too_often[0]
        raise UserError(
            f"{store.path}, episode {episodes[row]}, annotator {config.annotator!r}: pair ({p}, {q}) counts "
            f"{multiplicity} times, but method {config.method!r} counts up to {int(math.exp(MOST))}"
        )


def training_labels(store: DemoStore, episodes: Integers, config: TrainConfig) -> Labels:
    """The annotations of the training episodes after everything the configuration does to them."""
    lengths = store.lengths[episodes].astype(np.int64)
    nothing = Labels(lengths, np.zeros(len(episodes), bool), np.empty((0, 4), np.int32))
    if not config.needs_pairs:
        return nothing
    if config.annotator not in store.annotators():
        there = ", ".join(store.annotators()) or "nobody"
        raise UserError(
            f"{store.path} has no annotator {config.annotator!r} ({there} there), but the memory loss needs memory "
            f"pairs: annotate it, choose --annotator, or train with --method {_without_pairs(config)}"
        )
    found = read_annotations(store.path, config.annotator)
    annotated = np.array([int(episode) in found for episode in episodes])
    if not annotated.any():
        raise UserError(
            f"{store.path}: annotator {config.annotator!r} has annotated none of the "
            f"{counted(len(episodes), 'training demonstration')}, but the memory loss needs memory pairs: "
            f"annotate some, or train with --method {_without_pairs(config)}"
        )
    parts = [
        np.column_stack([np.full(len(found[int(episode)].pairs), row, np.int32), found[int(episode)].pairs])
        for row, episode in enumerate(episodes)
        if annotated[row]
    ]
    labels = Labels(lengths, annotated, np.concatenate(parts).astype(np.int32))
    if isinstance(config.model, RecallConfig):
        _check_multiplicities(store, episodes, labels, config)
    labels = annotate_fraction(labels, config.annotated_fraction, label_generator(config.seed, "annotated"))
    if config.pairs == "random":
        labels = random_pairs(labels, label_generator(config.seed, "random"))
    elif config.pairs == "shuffled":
        labels = shuffle_pairs(labels, label_generator(config.seed, "shuffled"))
    return perturb_pairs(labels, config.noise_p, config.noise_q, label_generator(config.seed, "noise"))


def frame_bytes(store: DemoStore, episodes: Integers) -> int:
    """About how many bytes of distinct frames these episodes have, from the manifest alone."""
    return sum(size for _, size in _shard_rows(store, episodes))


def _frame_size(store: DemoStore) -> int:
    """Bytes of one observation."""
    return store.observation.dtype.itemsize * int(np.prod(store.observation.shape))


def _shard_rows(store: DemoStore, episodes: Integers) -> list[tuple[Integers, int]]:
    """For each shard: which of `episodes` (by place) lie in it, and their share of its frame bytes."""
    one = _frame_size(store)
    found = []
    for shard in read_manifest(store.path).readable_shards():
        rows = np.flatnonzero((episodes >= shard.first) & (episodes < shard.end))
        if len(rows):
            found.append((rows, shard.distinct_frames * one * len(rows) // shard.episodes))
    return found
