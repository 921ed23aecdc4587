"""Reading a data set: lazily, shard by shard, so that it may be larger than memory."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.annotations import (
    LOST,
    annotators,
    annotators_of,
    lost_annotations,
    named,
    read_annotations,
    read_shard_annotations,
)
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import SHARDS, Manifest, ShardEntry, read_manifest, shard_name
from attentiontuner.demos.store.packed import PackedDemos, pack
from attentiontuner.demos.store.shards import Shard, read_shard, refuse_more_steps
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec

EXPERT = "expert"
"""The annotator whose pairs are what a scripted expert recalled."""

SHARDS_IN_MEMORY = 2


class DemoStore:
    """A data set as a sequence of `Demonstration`s, with the pairs of one annotator, or the union of several's.

    `annotator` says whose, such as `anna` or `anna,bob`; None: nobody's.
    """

    def __init__(self, path: Path, manifest: Manifest, annotator: str | None) -> None:
        self.path = path
        self._named = named(annotator)
        self.annotator = ",".join(self._named) or None
        self.manifest = manifest
        self._shards = manifest.readable_shards()
        self.lengths = np.array([length for shard in self._shards for length in shard.lengths], np.int64)
        self._ends = np.array([shard.end for shard in self._shards], np.int64)
        self._loaded: OrderedDict[int, tuple[Shard, PairTable]] = OrderedDict()

    @classmethod
    def open(cls, path: Path | str, annotator: str | None = None) -> "DemoStore":
        """The data set in the folder `path`.

        `annotator` None: the expert if there is one, else the only annotator, else nobody (every `pairs` is None).
        Of several, such as `anna,bob`, an episode has the pairs that one of them has (`PairTable.merge`).
        """
        root = Path(path)
        manifest = read_manifest(root)
        if annotator is None:
            there = annotators(root)
            annotator = EXPERT if EXPERT in there else there[0] if len(there) == 1 else None
        else:
            annotators_of(root, annotator)
        return cls(root, manifest, annotator)

    @classmethod
    def of(cls, data: "DemoStore | Path | str", annotator: str | None = None) -> "DemoStore":
        """`data` itself, or the data set in that folder; with the pairs of `annotator`, where one is given."""
        if isinstance(data, DemoStore):
            return data if annotator is None else data.annotated_by(annotator)
        if isinstance(data, Path | str):
            return cls.open(data, annotator)
        raise UserError(f"a {type(data).__name__} is no data set: give a DemoStore, or the folder of one")

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.manifest.task

    @property
    def settings(self) -> dict[str, Any]:
        """The environment settings the episodes were recorded under."""
        return dict(self.manifest.settings)

    @property
    def observation(self) -> ObservationSpec:
        return self.manifest.observation

    @property
    def actions(self) -> ActionSpec:
        return self.manifest.actions

    @property
    def seed(self) -> int | None:
        """The seed of the collection; None where people played."""
        return self.manifest.seed

    @property
    def complete(self) -> bool:
        """False where a collection was interrupted: the episodes before the first missing shard are here."""
        return len(self) == self.manifest.episodes

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    def __repr__(self) -> str:
        episodes = counted(len(self), "episode")
        return f"DemoStore({str(self.path)!r}, task {self.task}, {episodes}, annotator {self.annotator})"

    def __getitem__(self, episode: int) -> Demonstration:
        """Episode number `episode` (from the end where negative)."""
        number = int(episode) + len(self) if episode < 0 else int(episode)
        if not 0 <= number < len(self):
            raise IndexError(f"there is no episode {episode}: the data set holds {len(self)}")
        entry = self._shards[int(np.searchsorted(self._ends, number, side="right"))]
        shard, pairs = self._load(entry)
        return shard.demonstration(self.observation, number - entry.first, number, pairs.one(number - entry.first))

    def __iter__(self) -> Iterator[Demonstration]:
        return (self[episode] for episode in range(len(self)))

    def annotators(self) -> list[str]:
        """The names of those who annotated this data set."""
        return annotators(self.path)

    def read_packed(self, episodes: Sequence[int] | NDArray[np.int64] | None = None) -> PackedDemos:
        """The chosen episodes (None: all) as flat arrays, in the order given."""
        chosen = self._chosen(episodes)
        for number in np.unique(np.searchsorted(self._ends, chosen, side="right")):
            refuse_more_steps(self._shard_path(self._shards[number]), self._shards[number])
        return pack(self.observation, self.actions, self._shards, chosen, self._read, self._read_pairs)

    def read_pairs(self, episodes: Sequence[int] | NDArray[np.int64] | None = None) -> PairTable:
        """The pairs of the chosen episodes (None: all) in the order given, without reading a frame."""
        chosen = self._chosen(episodes)
        wanted = np.bincount(np.searchsorted(self._ends, chosen, side="right"), minlength=len(self._shards))
        tables = [
            self._read_pairs(entry) if count else PairTable.nothing(entry.lengths)
            for entry, count in zip(self._shards, wanted, strict=True)
        ]
        return PairTable.join(tables).select(chosen)

    def _chosen(self, episodes: Sequence[int] | NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Numbers of episodes (None: of all); one that is not there is a `UserError`."""
        chosen = np.arange(len(self)) if episodes is None else np.asarray(episodes, np.int64).reshape(-1)
        outside = chosen[(chosen < 0) | (chosen >= len(self))]
        if len(outside):
            raise UserError(f"there is no episode {outside[0]}: the data set holds {len(self)}")
        return chosen

    def annotated_by(self, annotator: str | None) -> "DemoStore":
        """The same data set with the pairs of somebody else, or of several; None: of nobody."""
        return self if annotator == self.annotator else DemoStore(self.path, self.manifest, annotator)

    def success(self) -> NDArray[np.bool_]:
        """`[N]` which episodes solved the task. Only shards that hold failures are read."""
        found = [
            np.ones(entry.episodes, bool) if entry.successes == entry.episodes else self._read(entry).success
            for entry in self._shards
        ]
        return np.concatenate([np.empty(0, bool), *found])

    def verify(self) -> None:
        """Check every shard's checksum and arrays, those after a gap too, and every annotation; a `UserError` names the
        bad file."""
        for entry in self.manifest.shards:
            self._read(entry)
        for path in lost_annotations(self.path):
            raise UserError(f"{path} is {LOST}")
        for annotator in self.annotators():
            read_annotations(self.path, annotator)

    def summary(self) -> dict[str, Any]:
        """Counts and sizes as a JSON value, without reading frames."""
        count, shards = len(self), self._shards
        steps = int(self.lengths.sum())
        people = {name: self._summary_of(name) for name in self.annotators()}
        chosen = people[self._named[0]] if len(self._named) == 1 else _counts(self.read_pairs())
        return {
            "path": str(self.path),
            "task": self.task,
            "settings": self.settings,
            "seed": self.seed,
            "observation": self.observation.to_json(),
            "actions": self.actions.to_json(),
            "episodes": count,
            "complete": self.complete,
            "steps": steps,
            "mean_length": round(steps / count, 4) if count else 0.0,
            "max_length": int(self.lengths.max(initial=0)),
            "success_rate": round(sum(shard.successes for shard in shards) / count, 6) if count else 0.0,
            "annotator": self.annotator,
            "annotated_episodes": chosen["annotated_episodes"],
            "pairs_per_episode": chosen["pairs_per_episode"],
            "annotators": people,
            "shards": len(shards),
            "bytes": sum(shard.bytes for shard in shards),
            "raw_bytes": steps * self.observation.nbytes,
            "versions": self.manifest.versions,
        }

    def _summary_of(self, annotator: str) -> dict[str, Any]:
        found = read_annotations(self.path, annotator).values()
        return {
            **_counts(PairTable.join(annotation.pairs for annotation in found)),
            "flagged_episodes": sum(annotation.flagged for annotation in found),
            "seconds": round(sum(annotation.seconds for annotation in found), 3),
        }

    def missing_files(self) -> list[Path]:
        """The shards and annotations that are not there, though the manifest names them."""
        missing = [path for path in map(self._shard_path, self._shards) if not path.exists()]
        return [*missing, *lost_annotations(self.path)]

    def _shard_path(self, entry: ShardEntry) -> Path:
        return self.path / SHARDS / shard_name(entry.index)

    def _read(self, entry: ShardEntry) -> Shard:
        return read_shard(self._shard_path(entry), self.observation, self.actions, entry)

    def _read_pairs(self, entry: ShardEntry) -> PairTable:
        tables = [read_shard_annotations(self.path, name, entry).pairs for name in self._named]
        if len(tables) == 1:
            return tables[0]
        return PairTable.nothing(entry.lengths).merge(*tables)

    def _load(self, entry: ShardEntry) -> tuple[Shard, PairTable]:
        if entry.index not in self._loaded:
            while len(self._loaded) >= SHARDS_IN_MEMORY:
                self._loaded.popitem(last=False)
            self._loaded[entry.index] = self._read(entry), self._read_pairs(entry)
        self._loaded.move_to_end(entry.index)
        return self._loaded[entry.index]


def _counts(pairs: PairTable) -> dict[str, Any]:
    annotated = int(pairs.annotated.sum())
    return {
        "annotated_episodes": annotated,
        "pairs_per_episode": round(len(pairs) / annotated, 4) if annotated else 0.0,
    }
