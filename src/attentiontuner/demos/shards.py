"""A shard: episodes as a safetensors file compressed with zstd, equal frames stored once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.errors import UserError
from attentiontuner.observations import ObservationSpec
from attentiontuner.wording import counted

ZSTD_LEVEL = 3
CHUNK_BYTES = 2**24
"""Frames are hashed and compared this many bytes at a time."""


@dataclass(frozen=True)
class Shard:
    """n episodes of together S steps, over U distinct observations. Episode i is steps `starts[i]:starts[i+1]`."""

    frames: NDArray[Any]  # [U, …]
    frame_index: NDArray[np.int32]  # [S]
    actions: NDArray[np.int32]  # [S]
    rewards: NDArray[np.float32]  # [S]
    lengths: NDArray[np.int32]  # [n]
    seeds: NDArray[np.int64]  # [n]
    success: NDArray[np.bool_]  # [n]
    terminated: NDArray[np.bool_]  # [n]
    truncated: NDArray[np.bool_]  # [n]

    @property
    def starts(self) -> NDArray[np.int64]:
        """`[n + 1]`, the first step of each episode, and S."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def demonstration(self, row: int, episode: int, pairs: Any = None) -> Demonstration:
        """Episode `row` of the shard, which is number `episode` of the data set."""
        start, end = (int(n) for n in self.starts[row : row + 2])
        return Demonstration(
            observations=self.frames[self.frame_index[start:end]],
            actions=self.actions[start:end].astype(np.int64),
            rewards=self.rewards[start:end],
            terminated=bool(self.terminated[row]),
            truncated=bool(self.truncated[row]),
            seed=int(self.seeds[row]),
            success=bool(self.success[row]),
            pairs=pairs,
            episode=episode,
        )


class FrameTable:
    """Collects distinct frames: `add` gives each frame its row in `frames`, equal frames the same one.

    Frames are found by a hash of their bytes and then compared, so a hash that two frames share costs time, not truth.
    """

    def __init__(self, observation: ObservationSpec, hash_bytes: Callable[[bytes], int] = hash) -> None:
        self._hash = hash_bytes
        self._buffer = np.empty((0, *observation.shape), observation.dtype)
        self._count = 0
        self._chunk = max(1, CHUNK_BYTES // (observation.dtype.itemsize * math.prod(observation.shape)))
        self._owners: dict[int, int] = {}  # hash -> row of the first frame with that hash
        self._collided: dict[bytes, int] = {}  # frames whose hash belongs to another frame -> row

    @property
    def frames(self) -> NDArray[Any]:
        """`[U, …]`, in order of first appearance."""
        return self._buffer[: self._count]

    def add(self, frames: NDArray[Any]) -> NDArray[np.int64]:
        """`[N]` rows of the `[N, …]` frames."""
        frames = np.ascontiguousarray(frames, self._buffer.dtype)
        flat = frames.reshape(len(frames), -1).view(np.uint8)
        owners, following = self._owners, self._count
        found: list[int] = []
        fresh: list[int] = []
        for start in range(0, len(flat), self._chunk):
            part = flat[start : start + self._chunk]
            for key in map(self._hash, part.view(f"V{part.shape[1]}").ravel().tolist()):
                owner = owners.setdefault(key, following)
                if owner == following:
                    following += 1
                    fresh.append(len(found))
                found.append(owner)
        rows = np.array(found, np.int64)
        self._append(frames if len(fresh) == len(frames) else frames[fresh])
        self._resolve_collisions(flat, rows)
        return rows

    def _resolve_collisions(self, flat: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
        for start in range(0, len(flat), self._chunk):
            part = slice(start, start + self._chunk)
            same = (self._bytes()[rows[part]] == flat[part]).all(axis=1)
            for i in start + np.flatnonzero(~same):
                key = flat[i].tobytes()
                if key not in self._collided:
                    self._collided[key] = self._count
                    self._append(flat[i].view(self._buffer.dtype).reshape(1, *self._buffer.shape[1:]))
                rows[i] = self._collided[key]

    def _bytes(self) -> NDArray[np.uint8]:
        return self._buffer.reshape(len(self._buffer), -1).view(np.uint8)

    def _append(self, frames: NDArray[Any]) -> None:
        needed = self._count + len(frames)
        if needed > len(self._buffer):
            grown = np.empty((max(needed, len(self._buffer) * 3 // 2), *self._buffer.shape[1:]), self._buffer.dtype)
            grown[: self._count] = self.frames
            self._buffer = grown
        self._buffer[self._count : needed] = frames
        self._count = needed


def build_shard(demonstrations: Sequence[Demonstration], observation: ObservationSpec, actions: int) -> Shard:
    """One shard of `demonstrations`, each checked against the observation and the number of actions."""
    table = FrameTable(observation)
    rows = []
    for demonstration in demonstrations:
        _check(demonstration, observation, actions)
        rows.append(table.add(demonstration.observations))
    for channel, limit in enumerate(observation.symbols):
        highest = int(table.frames[..., channel].max(initial=0))
        if highest >= limit:
            symbols = counted(limit, "symbol")
            raise UserError(f"observations: channel {channel} holds symbol {highest}, but has only {symbols}")
    shard = Shard(
        frames=table.frames,
        frame_index=np.concatenate(rows).astype(np.int32),
        actions=np.concatenate([d.actions for d in demonstrations]).astype(np.int32),
        rewards=np.concatenate([d.rewards for d in demonstrations]),
        lengths=np.array([len(d) for d in demonstrations], np.int32),
        seeds=np.array([d.seed for d in demonstrations], np.int64),
        success=np.array([d.success for d in demonstrations], np.bool_),
        terminated=np.array([d.terminated for d in demonstrations], np.bool_),
        truncated=np.array([d.truncated for d in demonstrations], np.bool_),
    )
    bad = not_finite(shard)
    if bad is not None:
        raise UserError(
            f"{demonstrations[bad[0]].name}, observations: step {bad[1]} holds a number that is not finite: "
            "replace it, or leave the episode out"
        )
    return shard


def not_finite(shard: Shard) -> tuple[int, int] | None:
    """(episode's row, step) of the first observation that holds NaN or infinity; None: there is none."""
    if shard.frames.dtype.kind != "f":
        return None
    finite = np.isfinite(shard.frames).all(axis=1)
    good = finite[shard.frame_index]
    if good.all():
        return None
    step = int(np.argmin(good))
    row = int(np.searchsorted(shard.starts, step, side="right")) - 1
    return row, step - int(shard.starts[row])


def _check(demonstration: Demonstration, observation: ObservationSpec, actions: int) -> None:
    found, name = demonstration.observations, demonstration.name
    if found.shape[1:] != observation.shape or found.dtype != observation.dtype:
        raise UserError(
            f"{name}, observations: {found.dtype} {found.shape[1:]} each, but the data set's specification says "
            f"{observation.kind}, {observation.dtype} {observation.shape}: {_remedy(found, observation)}"
        )
    if demonstration.actions.max() >= actions:
        known = counted(actions, "action")
        raise UserError(f"{name}, actions: action {demonstration.actions.max()}, but the data set has only {known}")


def _remedy(found: NDArray[Any], observation: ObservationSpec) -> str:
    if found.shape[1:] != observation.shape:
        return "change one of the two"
    if observation.kind == "image" and found.dtype.kind == "f":
        return "give (255 * images).astype('uint8') where they go from 0 to 1"
    return f"convert them with .astype({observation.dtype.name!r})"


def encode_shard(shard: Shard) -> bytes:
    """The bytes of the file. The same shard gives the same bytes."""
    arrays = {field.name: np.ascontiguousarray(getattr(shard, field.name)) for field in fields(Shard)}
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(save(arrays))


def read_shard(path: Path, observation: ObservationSpec, lengths: Sequence[int]) -> Shard:
    """The shard in `path`, checked against what the manifest says of it; a damaged one is a `UserError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} is missing: collect again to make it, or restore it from a copy") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    try:
        arrays = load(zstandard.ZstdDecompressor().decompress(content))
        shard = Shard(**arrays)
    except (zstandard.ZstdError, SafetensorError, TypeError, ValueError, KeyError, MemoryError) as error:
        raise UserError(
            f"{path} is damaged: {error}; delete it and collect again, or restore it from a copy"
        ) from error
    problem = _fault(shard, observation, lengths)
    if problem:
        raise UserError(f"{path} is damaged: {problem}")
    return shard


def _fault(shard: Shard, observation: ObservationSpec, lengths: Sequence[int]) -> str:
    if shard.frames.shape[1:] != observation.shape or shard.frames.dtype != observation.dtype:
        return (
            f"its frames are {shard.frames.dtype} {shard.frames.shape[1:]}, not {observation.dtype} {observation.shape}"
        )
    if not np.array_equal(shard.lengths, lengths):
        return "its episodes have other lengths than the manifest says"
    steps, episodes = int(shard.lengths.sum()), len(shard.lengths)
    for name, size in (("frame_index", steps), ("actions", steps), ("rewards", steps), ("seeds", episodes)):
        if getattr(shard, name).shape != (size,):
            return f"{name} has shape {getattr(shard, name).shape}, not ({size},)"
    for name in ("success", "terminated", "truncated"):
        if getattr(shard, name).shape != (episodes,):
            return f"{name} has shape {getattr(shard, name).shape}, not ({episodes},)"
    if steps and not 0 <= shard.frame_index.min() <= shard.frame_index.max() < len(shard.frames):
        return f"a frame index is outside its {counted(len(shard.frames), 'frame')}"
    return ""
