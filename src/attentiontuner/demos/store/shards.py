"""A shard: episodes as a safetensors file compressed with zstd, equal frames stored once."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_bytes
from attentiontuner.core.seals import not_its_checksum
from attentiontuner.core.wording import counted
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import ShardEntry
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, SpaceError

ZSTD_LEVEL = 3
CHUNK_BYTES = 2**24
"""Frames are hashed and compared this many bytes at a time."""

HEADER_BYTES = 2**16
"""More than the names and shapes of a shard's arrays take."""


STEP_BYTES = 12
"""Less than this no step takes: its frame, reward and action."""

MOST_PACKED = 2**15
"""Bytes that zstd makes of one at most: it repeats 128 kB in four."""


@dataclass(frozen=True)
class Shard:
    """n episodes of together S steps, over U distinct observations. Episode i is steps `starts[i]:starts[i+1]`."""

    frames: NDArray[np.uint8]  # [U, nbytes]; in the file of a plain observation [U, …] in its own type
    frame_index: NDArray[np.int32]  # [S]
    actions: NDArray[Any]  # [S, …] int32, or float32 for numbers within bounds
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

    def demonstration(
        self, observation: ObservationSpec, row: int, episode: int, pairs: PairTable | None = None
    ) -> Demonstration:
        """Episode `row` of the shard, which is number `episode` of the data set."""
        start, end = (int(n) for n in self.starts[row : row + 2])
        seen = self.frames[self.frame_index[start:end]]
        seen.setflags(write=False)  # nobody else has it: it need not be copied
        return Demonstration(
            observations=observation.decode(seen),
            actions=self.actions[start:end],
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

    def __init__(self, nbytes: int, hash_bytes: Callable[[bytes], int] = hash, room: int = 0) -> None:
        """`room`: as many frames are not copied once more as the table grows; what is not used costs no memory."""
        self._hash = hash_bytes
        self._buffer = np.empty((room, nbytes), np.uint8)
        self._count = 0
        self._chunk = max(1, CHUNK_BYTES // nbytes)
        self._owners: dict[int, int] = {}  # hash -> row of the first frame with that hash
        self._collided: dict[bytes, int] = {}  # frames whose hash belongs to another frame -> row

    @property
    def frames(self) -> NDArray[np.uint8]:
        """`[U, nbytes]`, in order of first appearance."""
        return self._buffer[: self._count]

    def add(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        """`[N]` rows of the `[N, nbytes]` frames."""
        owners, following = self._owners, self._count
        found: list[int] = []
        fresh: list[int] = []
        for start in range(0, len(frames), self._chunk):
            part = np.ascontiguousarray(frames[start : start + self._chunk])
            for key in map(self._hash, part.view(f"V{part.shape[1]}").ravel().tolist()):
                owner = owners.setdefault(key, following)
                if owner == following:
                    following += 1
                    fresh.append(len(found))
                found.append(owner)
        rows = np.array(found, np.int64)
        self._append(frames if len(fresh) == len(frames) else frames[fresh])
        self._resolve_collisions(frames, rows)
        return rows

    def _resolve_collisions(self, frames: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
        for start in range(0, len(frames), self._chunk):
            part = slice(start, start + self._chunk)
            same = (self._buffer[rows[part]] == frames[part]).all(axis=1)
            for i in start + np.flatnonzero(~same):
                key = frames[i].tobytes()
                if key not in self._collided:
                    self._collided[key] = self._count
                    self._append(frames[i : i + 1])
                rows[i] = self._collided[key]

    def _append(self, frames: NDArray[np.uint8]) -> None:
        needed = self._count + len(frames)
        if needed > len(self._buffer):
            grown = np.empty((max(needed, len(self._buffer) * 3 // 2), self._buffer.shape[1]), np.uint8)
            grown[: self._count] = self.frames
            self._buffer = grown
        self._buffer[self._count : needed] = frames
        self._count = needed


def build_shard(demonstrations: Sequence[Demonstration], observation: ObservationSpec, actions: ActionSpec) -> Shard:
    """One shard of `demonstrations`, each checked against the specifications."""
    table = FrameTable(observation.nbytes)
    rows, acted = [], []
    for demonstration in demonstrations:
        rows.append(table.add(_encoded(demonstration, "observations", observation)))
        acted.append(_encoded(demonstration, "actions", actions))
    return Shard(
        frames=table.frames,
        frame_index=np.concatenate(rows).astype(np.int32),
        actions=np.concatenate(acted).astype(_stored(actions)),
        rewards=np.concatenate([d.rewards for d in demonstrations]),
        lengths=np.array([len(d) for d in demonstrations], np.int32),
        seeds=np.array([d.seed for d in demonstrations], np.int64),
        success=np.array([d.success for d in demonstrations], np.bool_),
        terminated=np.array([d.terminated for d in demonstrations], np.bool_),
        truncated=np.array([d.truncated for d in demonstrations], np.bool_),
    )


def _stored(actions: ActionSpec) -> "np.dtype[Any]":
    """The type of actions in the file."""
    return np.dtype(np.int32) if actions.dtype.kind == "i" else actions.dtype


def _encoded(demonstration: Demonstration, field: str, spec: ObservationSpec | ActionSpec) -> NDArray[Any]:
    try:
        return spec.encode(getattr(demonstration, field))
    except SpaceError as error:
        raise UserError(
            f"{demonstration.name}, {field}, step {error.row}: {error.problem} (the data set promises {spec})"
        ) from error


def encode_shard(shard: Shard, observation: ObservationSpec) -> bytes:
    """The bytes of the file. The same shard gives the same bytes."""
    arrays = {field.name: np.ascontiguousarray(getattr(shard, field.name)) for field in fields(Shard)}
    if observation.plain:
        arrays["frames"] = np.asarray(observation.decode(shard.frames))
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(save(arrays))


def refuse_more_steps(path: Path, entry: ShardEntry) -> None:
    """Refuse a shard that can never hold the steps that the manifest says it has, before there is room for them."""
    steps, size = sum(entry.lengths), path.stat().st_size if path.exists() else entry.bytes
    if steps * STEP_BYTES > size * MOST_PACKED:
        raise UserError(
            f"{path} is damaged, or the manifest of its data set: it has {counted(size, 'byte')} for "
            f"{counted(steps, 'step')}; restore them from a copy"
        )


def shard_bytes(path: Path) -> bytes:
    """The content of a shard's file, which has to be there."""
    if not path.exists():
        raise UserError(f"{path} is missing: collect again to make it, or restore it from a copy")
    return read_bytes(path)


def read_shard(path: Path, observation: ObservationSpec, actions: ActionSpec, entry: ShardEntry) -> Shard:
    """The shard in `path`, checked against what the manifest says of it; a damaged one is a `UserError`."""
    remedy = "delete it and collect again, or restore it from a copy"
    if path.is_file() and path.stat().st_size > entry.bytes:
        raise UserError(f"{path} is damaged: it is larger than the manifest says; {remedy}")
    content = shard_bytes(path)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise UserError(f"{path} is damaged: {not_its_checksum(path)}; {remedy}")
    try:
        _refuse_bomb(content, observation, actions, entry)
        content = zstandard.ZstdDecompressor().decompress(content)
        shard = Shard(**load(content))
        del content  # a large shard is held once from here on
    except (zstandard.ZstdError, SafetensorError, TypeError, ValueError, KeyError, MemoryError) as error:
        raise UserError(f"{path} is damaged: {error}; {remedy}") from error
    problem = _fault(shard, observation, actions, entry.lengths)
    if problem:
        raise UserError(f"{path} is damaged: {problem}")
    frames = shard.frames if observation.plain else observation.decode(shard.frames)
    try:
        return replace(shard, frames=observation.encode(frames))
    except SpaceError as error:
        step = int(np.argmax(shard.frame_index == error.row))
        row = int(np.searchsorted(shard.starts, step, side="right")) - 1
        place = f"episode {entry.first + row}, step {step - shard.starts[row]}"
        raise UserError(
            f"{path}, {place}: {error.problem} (the data set promises {observation}): record it again without that"
        ) from error


def _refuse_bomb(content: bytes, observation: ObservationSpec, actions: ActionSpec, entry: ShardEntry) -> None:
    """Refuse a file that would unpack to more than the manifest says it holds."""
    steps = sum(entry.lengths)
    numbers = 8 + _stored(actions).itemsize * int(np.prod(actions.shape))  # of a step: frame, reward, action
    room = min(entry.distinct_frames, steps) * observation.nbytes + steps * numbers + 15 * entry.episodes + HEADER_BYTES
    if not 0 <= zstandard.frame_content_size(content) <= room:
        raise ValueError("it would unpack to more than its episodes have")


def _fault(shard: Shard, observation: ObservationSpec, actions: ActionSpec, lengths: Sequence[int]) -> str:
    """What the arrays of a shard are not, "" where they are all that is expected."""
    part = observation.parts[0][1]
    steps, episodes = sum(lengths), len(lengths)
    sizes: dict[str, tuple[tuple[int, ...], Any]] = {
        "frames": ((*shard.frames.shape[:1], *part.shape), part.dtype)
        if observation.plain
        else ((*shard.frames.shape[:1], observation.nbytes), np.uint8),
        "frame_index": ((steps,), np.int32),
        "actions": ((steps, *actions.shape), _stored(actions)),
        "rewards": ((steps,), np.float32),
        "lengths": ((episodes,), np.int32),
        "seeds": ((episodes,), np.int64),
        **dict.fromkeys(("success", "terminated", "truncated"), ((episodes,), np.bool_)),
    }
    if not np.array_equal(shard.lengths, lengths):
        return "its episodes have other lengths than the manifest says"
    for name, (shape, kind) in sizes.items():
        found = getattr(shard, name)
        if found.shape != shape or found.dtype != kind:
            return f"{name} is {found.dtype} of shape {found.shape}, not {np.dtype(kind)} of shape {shape}"
    if steps and not 0 <= shard.frame_index.min() <= shard.frame_index.max() < len(shard.frames):
        return f"a frame index is outside its {counted(len(shard.frames), 'frame')}"
    try:
        actions.encode(shard.actions)
    except SpaceError as error:
        return f"step {error.row} has {error.problem}"
    return ""
