"""`manifest.json`: what a data set is, and which shards it has. Readable; no times, so equal runs give equal bytes."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json, reading, shortened, write_text
from attentiontuner.core.seals import SEAL, sealed, unsealed
from attentiontuner.core.wording import counted
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec

SCHEMA = 1
FILE = "manifest.json"
SHARDS = "shards"
LARGEST = 2**53
LOCK = ".lock"
"""Held while the manifest or an annotation file is read, changed and replaced."""


@dataclass(frozen=True)
class ShardEntry:
    """One shard: episodes `first` to `first + episodes - 1`; `bytes` and `sha256` are those of the file."""

    index: int
    first: int
    episodes: int
    successes: int
    distinct_frames: int
    bytes: int
    sha256: str
    lengths: tuple[int, ...]

    @property
    def end(self) -> int:
        """The number of the episode after the last."""
        return self.first + self.episodes


@dataclass(frozen=True)
class Manifest:
    """The whole of `manifest.json`. `episodes` is how many there will be once every shard is written; `annotations` are
    the shards each annotator has lines for, so that a lost file is noticed."""

    task: str
    settings: dict[str, Any]
    observation: ObservationSpec
    actions: ActionSpec
    seed: int | None
    episodes: int
    shard_episodes: int
    versions: dict[str, str] = field(default_factory=dict)
    shards: tuple[ShardEntry, ...] = ()
    annotations: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def with_shard(self, entry: ShardEntry) -> "Manifest":
        """The manifest with `entry` in the place of its index."""
        others = [shard for shard in self.shards if shard.index != entry.index]
        shards = tuple(sorted([*others, entry], key=lambda shard: shard.index))
        return replace(self, shards=shards, episodes=max(self.episodes, entry.end))

    def with_annotations(self, annotator: str, index: int, there: bool) -> "Manifest":
        """The manifest that knows whether `annotator` has lines for shard `index`."""
        others = {number for number in self.annotations.get(annotator, ()) if number != index}
        listed = {**self.annotations, annotator: tuple(sorted({*others, index} if there else others))}
        return replace(self, annotations={name: listed[name] for name in sorted(listed) if listed[name]})

    def readable_shards(self) -> tuple[ShardEntry, ...]:
        """The shards from the first up to the first gap: an interrupted collection can leave gaps behind."""
        end, readable = 0, []
        for shard in self.shards:
            if shard.first != end:
                break
            readable.append(shard)
            end = shard.end
        return tuple(readable)

    def shard_of(self, episode: int) -> ShardEntry:
        """The shard that holds `episode`; a `UserError` where there is none."""
        for shard in self.readable_shards():
            if shard.first <= episode < shard.end:
                return shard
        raise UserError(f"there is no episode {episode}: the data set holds {self.count()}")

    def count(self) -> int:
        """How many episodes can be read."""
        return sum(shard.episodes for shard in self.readable_shards())


def shard_name(index: int) -> str:
    return f"{index:05d}.safetensors.zst"


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically; one line per shard."""
    head = {
        "schema": SCHEMA,
        "task": manifest.task,
        "settings": manifest.settings,
        "observation": manifest.observation.to_json(),
        "actions": manifest.actions.to_json(),
        "seed": manifest.seed,
        "episodes": manifest.episodes,
        "shard_episodes": manifest.shard_episodes,
        "versions": manifest.versions,
    }
    shards = [asdict(shard) for shard in manifest.shards]
    whole = sealed({**head, "shards": shards, "annotations": manifest.annotations})
    lines = [json.dumps(head, indent=2, allow_nan=False).removesuffix("\n}") + ","]
    lines += _in_lines("shards", "[]", [_compact(shard) for shard in shards])
    people = [f"{_compact(name)}: {_compact(of)}" for name, of in manifest.annotations.items()]
    lines += [*_in_lines("annotations", "{}", people), f'  "{SEAL}": "{whole[SEAL]}"', "}", ""]
    write_text(root / FILE, "\n".join(lines))


def _in_lines(name: str, brackets: str, entries: list[str]) -> list[str]:
    """The lines of a list or an object, one per entry."""
    if not entries:
        return [f'  "{name}": {brackets},']
    listed = ",\n".join(f"    {entry}" for entry in entries)
    return [f'  "{name}": {brackets[0]}', listed, f"  {brackets[1]},"]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_manifest(root: Path) -> Manifest:
    """The manifest of the data set in `root`; anything wrong with it is a `UserError` that names the file."""
    path = root / FILE
    if not root.is_dir():
        wrong = "is not a folder" if root.exists() else "does not exist"
        raise UserError(f"{root} {wrong}: give the folder of a data set, or make one with `attentiontuner collect`")
    if not path.is_file():
        raise UserError(f"{root} is not a data set: it has no {FILE}")
    value = read_json(path)
    if not isinstance(value, dict) or "schema" not in value:
        raise UserError(f"{path} is damaged: it does not say its schema version")
    if value["schema"] != SCHEMA:
        raise UserError(
            f"{path} has schema version {value['schema']!r}, but this attentiontuner reads version {SCHEMA}: "
            "use the version that wrote it, or collect again"
        )
    with reading(path):
        manifest = Manifest(
            task=str(value["task"]),
            settings=dict(value["settings"]),
            observation=ObservationSpec.from_json(value["observation"]),
            actions=ActionSpec.from_json(value["actions"]),
            seed=None if value["seed"] is None else int(value["seed"]),
            episodes=int(value["episodes"]),
            shard_episodes=int(value["shard_episodes"]),
            versions=dict(value["versions"]),
            shards=tuple(_entry(shard) for shard in value["shards"]),
            annotations={str(name): tuple(map(int, of)) for name, of in value.get("annotations", {}).items()},
        )
    unsealed(value, path)
    return manifest


def _entry(value: dict[str, Any]) -> ShardEntry:
    entry = ShardEntry(**{**value, "lengths": tuple(value["lengths"])})
    counts = [entry.index, entry.first, entry.episodes, entry.successes, entry.distinct_frames, entry.bytes]
    if any(type(count) is not int or not 0 <= count < LARGEST for count in (*counts, *entry.lengths)):
        raise UserError(f"shard {shortened(str(entry.index))} has a number that cannot be")
    if len(entry.lengths) != entry.episodes:
        lengths = counted(len(entry.lengths), "length")
        raise UserError(f"shard {entry.index} lists {lengths} for {counted(entry.episodes, 'episode')}")
    return entry
