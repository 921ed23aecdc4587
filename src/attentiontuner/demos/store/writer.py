"""Writing a data set: whole shards, each atomically, listed in the manifest once they are safely there."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked, make_folder, read_bytes, remove_leftovers, write_bytes
from attentiontuner.core.versions import installed_versions
from attentiontuner.core.wording import counted
from attentiontuner.demos.annotations import FOLDER as ANNOTATIONS
from attentiontuner.demos.annotations import (
    Annotation,
    annotation_path,
    lost_annotations,
    read_shard_annotations,
    with_their_annotations,
    write_lines,
)
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import (
    FILE,
    LOCK,
    SHARDS,
    Manifest,
    ShardEntry,
    read_manifest,
    shard_name,
    write_manifest,
)
from attentiontuner.demos.store.shards import build_shard, encode_shard
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec

PairsByAnnotator = Mapping[str, Sequence[PairTable | None]]
"""annotator → the pairs of each episode of a shard (None: that annotator has not annotated it)."""

STEP_BYTES = 16
"""Of a step beside its observation: which one it is, action and reward."""

COLLECT_LOCK = ".collect.lock"
"""Held by whoever collects into the folder, from before the first shard to after the last."""


def default_shard_episodes(observation: ObservationSpec, longest: int | None = None) -> int:
    """How many episodes a shard holds, of at most `longest` steps where that is known: few enough that one is easily
    kept in memory."""
    usual, most = (50, 2**29) if "image" in observation.kinds else (250, 2**26)
    if longest is None:
        return usual
    return max(1, min(usual, most // (longest * (observation.nbytes + STEP_BYTES))))


class DemoWriter:
    """Creates a data set or goes on with one of the same task, settings, observations and seed; refuses any other.

    A manifest without shards, which a mistake in the task can leave behind, is replaced by the same task's new one.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        task: str,
        observation: ObservationSpec,
        actions: ActionSpec | Sequence[str],
        settings: Mapping[str, Any] | None = None,
        seed: int | None = None,
        episodes: int = 0,
        shard_episodes: int | None = None,
        longest: int | None = None,
    ) -> None:
        """`actions` may be the names of discrete ones. `episodes` is how many the finished data set will hold at least
        (0: as many as will be written). `seed` None goes on with a data set of any seed. A new data set has
        `shard_episodes` in a shard, if not given as many as have room where none has more than `longest` steps.
        """
        if not isinstance(task, str) or not task.strip():
            raise UserError(f"task {task!r}: say what was done, in a word, such as task='arm'")
        self.path = Path(path)
        wanted = Manifest(
            task=task,
            settings=plain_settings(settings or {}),
            observation=observation,
            actions=ActionSpec.of(actions),
            seed=seed,
            episodes=episodes,
            shard_episodes=shard_episodes or default_shard_episodes(observation, longest),
            versions=installed_versions(),
        )
        make_folder(self.path)
        with locked(self.path / LOCK):
            present = read_manifest(self.path) if (self.path / FILE).exists() else None
            if present is None:
                self._refuse_foreign_folder()
            if present is None or (present.task == task and self._holds_nothing(present)):
                self.manifest = wanted
                write_manifest(self.path, wanted)
                return
            self._refuse_mixture(present, wanted, shard_episodes)
            self.manifest = replace(present, episodes=max(present.episodes, episodes))
            if self.manifest != present:
                write_manifest(self.path, self.manifest)

    def _refuse_foreign_folder(self) -> None:
        foreign = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith("."))
        if foreign:
            raise UserError(
                f"{self.path} is not a data set and holds other things ({foreign[0]}, …): give a new folder"
            )

    def _holds_nothing(self, present: Manifest) -> bool:
        """Whether there is neither a shard nor a file of one, and nobody who is about to write one."""
        folders = (self.path / SHARDS, self.path / ANNOTATIONS)
        if present.shards or any(path.is_file() for folder in folders for path in folder.rglob("*")):
            return False
        if not (self.path / COLLECT_LOCK).exists():
            return True
        try:
            with locked(self.path / COLLECT_LOCK, wait=False):
                return True
        except UserError:
            return False

    def _present(self) -> Manifest:
        """The manifest as it is now; refused where somebody has put another data set's in its place."""
        present = read_manifest(self.path)
        self._refuse_mixture(present, self.manifest, self.manifest.shard_episodes)
        return present

    def _refuse_mixture(self, present: Manifest, wanted: Manifest, shard_episodes: int | None) -> None:
        checks: list[tuple[str, Any, Any]] = [
            ("task", present.task, wanted.task),
            ("settings", present.settings, wanted.settings),
            ("observation", present.observation.to_json(), wanted.observation.to_json()),
            ("actions", present.actions.to_json(), wanted.actions.to_json()),
        ]
        if wanted.seed is not None:
            checks.append(("seed", present.seed, wanted.seed))
        if shard_episodes is not None:
            checks.append(("episodes per shard", present.shard_episodes, shard_episodes))
        for name, there, here in checks:
            if there != here:
                raise UserError(f"{self.path} holds {name} {there}, not {here}: give another folder for a new data set")

    def write_shard(self, index: int, demonstrations: Sequence[Demonstration], annotations: PairsByAnnotator) -> None:
        """Write shard `index` (episodes from `index * shard_episodes`) and list it. Doing it twice changes nothing."""
        self._present()
        first = index * self.manifest.shard_episodes
        self.register(write_shard_files(self.path, self.manifest, index, first, demonstrations, annotations))

    def append(self, demonstrations: Iterable[Demonstration], annotator: str | None = None) -> list[int]:
        """Add a new shard at the end, for recordings of people; their pairs become those of `annotator`.

        Returns the episodes' numbers in the data set: none where there are no demonstrations, and nothing is written.
        Pairs without an annotator are refused.
        """
        demonstrations = _listed(demonstrations)
        if not demonstrations:
            return []
        if annotator is None and any(d.pairs is not None for d in demonstrations):
            raise UserError(
                'append: there are pairs, but not whose: give annotator="expert", or the name of who annotated them'
            )
        with locked(self.path / LOCK):
            manifest = self._present()
            if manifest.count() != manifest.episodes:
                raise UserError(
                    f"{self.path} is an unfinished collection: finish it with the same `collect` command first"
                )
            index, first = len(manifest.shards), manifest.count()
            remove_leftovers(self.path / FILE, self.path / SHARDS / shard_name(index))
            if annotator is not None:
                remove_leftovers(annotation_path(self.path, annotator, index))
            pairs = {} if annotator is None else {annotator: [d.pairs for d in demonstrations]}
            entry = write_shard_files(self.path, manifest, index, first, demonstrations, pairs)
            self.manifest = with_their_annotations(self.path, manifest.with_shard(entry), [index])
            write_manifest(self.path, self.manifest)
        return list(range(first, first + len(demonstrations)))

    def register(self, entry: ShardEntry) -> None:
        """List a shard whose files are written."""
        with locked(self.path / LOCK):
            manifest = self._present()
            for other in manifest.shards:
                before, after = sorted([other, entry], key=lambda shard: shard.index)
                if other.index != entry.index and before.end > after.first:
                    raise UserError(f"shards {before.index} and {after.index} of {self.path} hold the same episodes")
            self.manifest = with_their_annotations(self.path, manifest.with_shard(entry), [entry.index])
            write_manifest(self.path, self.manifest)

    def set_episodes(self, episodes: int) -> None:
        """Say how many episodes the finished data set will hold; annotations of an older version become known."""
        with locked(self.path / LOCK):
            present = self._present()
            wanted = replace(present, episodes=max(present.count(), episodes))
            self.manifest = with_their_annotations(self.path, wanted, [shard.index for shard in present.shards])
            if self.manifest != present:
                write_manifest(self.path, self.manifest)

    def finished_shards(self) -> dict[int, ShardEntry]:
        """The listed shards whose files are there, to the bit, and whose annotations are not lost."""
        lost = {int(path.stem) for path in lost_annotations(self.path, self.manifest)}
        return {
            shard.index: shard
            for shard in self.manifest.shards
            if shard.index not in lost and is_whole(self.path, shard)
        }


def is_whole(root: Path, shard: ShardEntry) -> bool:
    """Whether the file of a shard is there, to the bit."""
    path = root / SHARDS / shard_name(shard.index)
    return path.is_file() and hashlib.sha256(read_bytes(path)).hexdigest() == shard.sha256


def _listed(demonstrations: Iterable[Demonstration]) -> list[Demonstration]:
    if isinstance(demonstrations, Demonstration):
        raise UserError("append: give a list of Demonstrations, not one alone: append([demonstration])")
    if isinstance(demonstrations, Mapping) or not isinstance(demonstrations, Iterable):
        raise UserError(f"append: give a list of Demonstrations, not a {type(demonstrations).__name__}")
    listed = list(demonstrations)
    for number, item in enumerate(listed):
        if not isinstance(item, Demonstration):
            raise UserError(f"append: item {number} is no Demonstration, but of type {type(item).__name__}")
    return listed


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON gives them back: tuples become lists, NumPy's numbers and arrays Python's."""
    plain = {}
    for name, value in settings.items():
        try:
            plain[str(name)] = json.loads(json.dumps(value, default=_python_value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise UserError(
                f"setting {name!r} cannot be stored ({error}): give finite numbers, texts, lists or None"
            ) from error
    return plain


def _python_value(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def write_shard_files(
    root: Path,
    manifest: Manifest,
    index: int,
    first: int,
    demonstrations: Sequence[Demonstration],
    annotations: PairsByAnnotator,
    keep: bool = False,
) -> ShardEntry:
    """Write the files of one shard, frames last; it belongs to the data set once its entry is in the manifest.

    With `keep`, a whole shard of that index is never replaced by other frames.
    """
    numbered = [replace(d, episode=first + i, pairs=None) for i, d in enumerate(demonstrations)]
    shard = build_shard(numbered, manifest.observation, manifest.actions)
    content = encode_shard(shard, manifest.observation)
    entry = ShardEntry(
        index=index,
        first=first,
        episodes=len(demonstrations),
        successes=int(shard.success.sum()),
        distinct_frames=len(shard.frames),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        lengths=tuple(int(length) for length in shard.lengths),
    )
    for other in manifest.shards:
        if keep and other.index == index and other.sha256 != entry.sha256 and is_whole(root, other):
            raise UserError(
                f"{root}: shard {index} is whole, but recorded now it would be another, with other code or versions: "
                "lost annotations of it cannot be made again; restore them from a copy"
            )
        if other.sha256 == entry.sha256 and other.index != index:
            raise UserError(
                f"{root} holds {counted(entry.episodes, 'such episode')} already, {other.first} to {other.end - 1}, "
                "the same to the last bit: nothing was added"
            )
    for annotator, of_episodes in annotations.items():
        if len(of_episodes) != len(demonstrations):
            annotated = counted(len(of_episodes), "episode")
            raise UserError(f"annotator {annotator!r}: pairs of {annotated}, but {len(demonstrations)} to write")
        lines = {
            first + i: Annotation(PairTable.of(pairs, len(numbered[i]), first + i))
            for i, pairs in enumerate(of_episodes)
            if pairs is not None
        }
        # Lines that somebody has revised since are theirs: writing a lost shard anew must not undo them.
        kept = read_shard_annotations(root, annotator, entry).annotations()
        lines.update({episode: annotation for episode, annotation in kept.items() if annotation.revision})
        if lines or kept:
            write_lines(root, annotator, index, lines)
    write_bytes(root / SHARDS / shard_name(index), content)
    return entry
