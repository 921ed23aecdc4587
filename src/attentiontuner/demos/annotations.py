"""Annotations: who says which steps were recalled. One folder per annotator, one line of JSON per annotated episode.

A line writes pairs as `demos.pair_text` does. Labels can be compared and rewritten without touching the frames.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import (
    MOST_LINES,
    WRONG_CONTENT,
    content_of,
    locked,
    remove_leftovers,
    shortened,
    write_text,
)
from attentiontuner.demos.pair_rules import PairError
from attentiontuner.demos.pair_text import PairReader, format_pairs
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import FILE as MANIFEST
from attentiontuner.demos.store.manifest import LOCK, Manifest, ShardEntry, read_manifest, write_manifest

FOLDER = "annotations"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
LOST = (
    "gone or empty, though there were annotations: restore it from a copy; what the expert recalled is "
    "made again by the same `collect` command"
)
SHORTEST_LINE = '{"episode":0,"pairs":{}}'


class RevisionConflict(UserError):
    """Somebody else has changed the annotation since it was read. `expected` and `found` are the two revisions."""

    def __init__(self, annotator: str, episode: int, expected: int, found: int) -> None:
        super().__init__(
            f"episode {episode} of annotator {annotator!r} is at revision {found}, not {expected}: "
            "somebody else has changed it; read it again"
        )
        self.expected, self.found = expected, found


@dataclass(frozen=True)
class Annotation:
    """What one annotator says about one episode.

    Attributes:
        pairs: a table of one episode; without a pair there is nothing to remember.
        origins: who first proposed a pair, as name → {(p, q)}, where it was not the annotator.
        note: the annotator's words.
        flagged: the annotator wants somebody to look at it again.
        seconds: time spent on it.
        revision: how often it has been written; 0 before the first time.
    """

    pairs: PairTable
    origins: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    note: str = ""
    flagged: bool = False
    seconds: float = 0.0
    revision: int = 0

    @property
    def as_proposed(self) -> bool:
        """Whether its pairs are those that were proposed, no more and no fewer."""
        return {(p, q) for p, q, _ in self.pairs} == {pair for pairs in self.origins.values() for pair in pairs}


def annotators(root: Path) -> list[str]:
    """The names of those who annotated the data set in `root`, in alphabetical order."""
    folder = root / FOLDER
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and NAME.fullmatch(entry.name))


def check_annotator(name: str) -> str:
    """`name`, if it can be an annotator's: it is that of a folder too."""
    if not NAME.fullmatch(name):
        raise UserError(f"annotator {name[:80]!r}: use letters, digits, '.', '_' and '-', not '.' first, at most 64")
    return name


def named(annotator: str | None) -> tuple[str, ...]:
    """The names in `anna,bob`, in alphabetical order; nobody where it is None."""
    if annotator is None:
        return ()
    names = sorted(check_annotator(name.strip()) for name in annotator.split(","))
    for name, following in pairwise(names):
        if name == following:
            raise UserError(f"annotator {name!r} is named twice in {annotator!r}: once is enough")
    return tuple(names)


def annotators_of(root: Path, annotator: str) -> tuple[str, ...]:
    """The names in `anna,bob`; one who did not annotate the data set in `root` is a `UserError`."""
    names, there = named(annotator), annotators(root)
    for name in names:
        if name not in there:
            raise UserError(f"{root} has no annotator {name!r}: there are {', '.join(there) or 'none'}")
    return names


def read_annotations(root: Path | str, annotator: str) -> dict[int, Annotation]:
    """Every annotation of `annotator`, by episode. Nobody of that name: nothing."""
    root = Path(root)
    manifest = read_manifest(root)
    found: dict[int, Annotation] = {}
    for shard in manifest.readable_shards():
        found.update(read_shard_annotations(root, annotator, shard).annotations())
    return found


def read_annotation(root: Path | str, annotator: str, episode: int) -> Annotation | None:
    """The annotation of one episode; None where `annotator` has not annotated it."""
    root = Path(root)
    return read_shard_annotations(root, annotator, read_manifest(root).shard_of(episode)).annotation(episode)


def write_annotation(
    root: Path | str, annotator: str, episode: int, annotation: Annotation | None, expected_revision: int | None = None
) -> Annotation | None:
    """Store `annotation` as the next revision and return it as stored; None removes it (not annotated any more).

    With `expected_revision` (0: not annotated yet) a stored revision that differs raises `RevisionConflict`.
    """
    root = Path(root)
    read_manifest(root)  # a folder that is no data set is refused before a lock file is put there
    with locked(root / LOCK):
        shard = read_manifest(root).shard_of(episode)
        present = read_shard_annotations(root, annotator, shard).annotations()
        revision = present[episode].revision if episode in present else 0
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflict(annotator, episode, expected_revision, revision)
        stored = None
        if annotation is None:
            present.pop(episode, None)
        else:
            pairs = PairTable.of(annotation.pairs, shard.lengths[episode - shard.first], episode)
            stored = present[episode] = replace(annotation, pairs=pairs, revision=revision + 1)
        write_shard_annotations(root, annotator, shard.index, present)
        return stored


def annotation_path(root: Path, annotator: str, index: int) -> Path:
    """Where `annotator`'s lines for shard `index` are."""
    return root / FOLDER / check_annotator(annotator) / f"{index:05d}.jsonl"


def write_shard_annotations(root: Path, annotator: str, index: int, annotations: Mapping[int, Annotation]) -> None:
    """Replace all of `annotator`'s lines for one shard atomically, and let the manifest know of them.

    The data set's lock must be held. The manifest never lists lines that are not there yet, or not any more.
    """
    remove_leftovers(root / MANIFEST, annotation_path(root, annotator, index))
    manifest = read_manifest(root)
    if not annotations:
        unlisted = manifest.with_annotations(annotator, index, False)
        if unlisted != manifest:
            write_manifest(root, unlisted)
        write_lines(root, annotator, index, annotations)
        return
    write_lines(root, annotator, index, annotations)
    # All of them: a process may have been killed between the two.
    listed = with_their_annotations(root, manifest, [shard.index for shard in manifest.shards])
    if listed != manifest:
        write_manifest(root, listed)


def write_lines(root: Path, annotator: str, index: int, annotations: Mapping[int, Annotation]) -> None:
    """Replace all of `annotator`'s lines for one shard atomically; the manifest is told by somebody else."""
    path = annotation_path(root, annotator, index)
    write_text(path, "".join(format_line(episode, annotations[episode]) for episode in sorted(annotations)))


def with_their_annotations(root: Path, manifest: Manifest, indices: Iterable[int]) -> Manifest:
    """The manifest that knows of everybody's lines for these shards; those it knew of and that are lost it keeps."""
    names = annotators(root)
    for name, index in product(names, indices):
        if not _is_lost(annotation_path(root, name, index)):
            manifest = manifest.with_annotations(name, index, True)
    return manifest


def lost_annotations(root: Path, manifest: Manifest | None = None) -> list[Path]:
    """The files of annotations that are gone or empty, though the manifest (as it is now, if None) knows of lines."""
    known = (read_manifest(root) if manifest is None else manifest).annotations
    paths = [annotation_path(root, name, index) for name, of in known.items() for index in of]
    return [path for path in paths if _is_lost(path)]


def _is_lost(path: Path) -> bool:
    return not path.exists() or path.stat().st_size < len(SHORTEST_LINE)


@dataclass(frozen=True)
class ShardAnnotations:
    """One annotator's lines for one shard.

    Attributes:
        pairs: the pairs of every episode of the shard.
        lines: the number and the content of an episode's line, by episode.
    """

    path: Path
    first: int
    pairs: PairTable
    lines: Mapping[int, tuple[int, Mapping[str, Any]]]

    def annotations(self) -> dict[int, Annotation]:
        """All of them, by episode."""
        return {episode: self._made(episode) for episode in self.lines}

    def annotation(self, episode: int) -> Annotation | None:
        """What is said about one episode; None where it is not annotated."""
        return self._made(episode) if episode in self.lines else None

    def _made(self, episode: int) -> Annotation:
        number, value = self.lines[episode]
        try:
            return Annotation(
                pairs=self.pairs.select([episode - self.first]),
                origins={name: frozenset(map(_origin, pairs)) for name, pairs in value.get("origins", {}).items()},
                note=str(value.get("note", "")),
                flagged=bool(value.get("flagged", False)),
                seconds=float(value.get("seconds", 0.0)),
                revision=int(value.get("revision", 0)),
            )
        except WRONG_CONTENT as error:
            raise UserError(f"{self.path}, line {number}: {_reason(error)}") from error


def read_shard_annotations(root: Path, annotator: str, shard: ShardEntry) -> ShardAnnotations:
    """`annotator`'s annotations of one shard; the first bad line is a `UserError` naming file and line."""
    path = annotation_path(root, annotator, shard.index)
    lines: dict[int, tuple[int, Mapping[str, Any]]] = {}
    reader = PairReader(shard.lengths)
    try:
        for number, line in enumerate(_lines(path), start=1):
            try:
                value = json.loads(line)
                episode = int(value["episode"])
                if not shard.first <= episode < shard.end:
                    raise UserError(f"episode {episode} is not in shard {shard.index}")
                if episode in lines:
                    raise UserError(f"episode {episode} has line {lines[episode][0]} already: delete one of the two")
                lines[episode] = number, value
                reader.add(episode - shard.first, value["pairs"])
            except PairError:
                raise
            except WRONG_CONTENT as error:
                raise UserError(f"{path}, line {number}: {_badly_written(line) or _reason(error)}") from error
        pairs = reader.table()
    except PairError as error:
        episode = shard.first + error.episode
        raise UserError(f"{path}, line {lines[episode][0]}: episode {episode}, {error.problem}") from error
    return ShardAnnotations(path, shard.first, pairs, lines)


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in content_of(path, MOST_LINES).decode().split("\n") if line.strip()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is damaged: it is no UTF-8 ({error})") from error


def _badly_written(line: str) -> str:
    """How the pairs of a line should have been written, where they are of the right kind and in another form."""
    try:
        pairs = json.loads(line)["pairs"]
        if isinstance(pairs, dict):
            q, steps = next((q, steps) for q, steps in pairs.items() if not isinstance(steps, str))
            text = ",".join(str(int(step)) for step in (steps if isinstance(steps, list) else [steps]))
            return shortened(f'steps are text: "{q}": "{text}"') if text else ""
        p, q = map(int, pairs[0])
    except (*WRONG_CONTENT, StopIteration):
        return ""
    return shortened(f'pairs stand under the step that recalls: {{"{q}": "{p}"}}')


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, TypeError | AttributeError):
        return 'not an annotation: write it as {"episode": 7, "pairs": {"20": "1"}}'
    return shortened(f"{'no key' if isinstance(error, KeyError) else 'not an annotation:'} {error}")


def format_line(episode: int, annotation: Annotation) -> str:
    """The line of one episode, newline included. Keys that say nothing are left out."""
    value: dict[str, Any] = {"episode": episode, "pairs": format_pairs(annotation.pairs)}
    if annotation.origins:
        value["origins"] = {
            name: [f"{q}:{p}" for q, p in sorted((q, p) for p, q in pairs)]
            for name, pairs in sorted(annotation.origins.items())
        }
    for key, empty in (("note", ""), ("flagged", False), ("seconds", 0.0)):
        if getattr(annotation, key) != empty:
            value[key] = getattr(annotation, key)
    if annotation.revision:
        value["revision"] = annotation.revision
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _origin(text: str) -> tuple[int, int]:
    q, _, p = text.partition(":")
    return int(p), int(q)
