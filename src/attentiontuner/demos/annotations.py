"""Annotations: who says which steps were recalled. One folder per annotator, one line of JSON per annotated episode.

A line writes pairs by the deciding step: `"24": "1,5x2,8-11"` says that at step 24 step 1, step 5 twice, and steps 8 to
11 were recalled. Labels can be compared and rewritten without touching the frames.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from attentiontuner.demos.agreement import PairAgreement, agreement
from attentiontuner.demos.manifest import LOCK, Manifest, ShardEntry, read_manifest
from attentiontuner.demos.pairs import PairArray, as_pairs
from attentiontuner.errors import UserError
from attentiontuner.files import locked, write_text

__all__ = [
    "Annotation",
    "PairAgreement",
    "RevisionConflict",
    "agreement",
    "annotators",
    "read_annotation",
    "read_annotations",
    "write_annotation",
]

FOLDER = "annotations"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


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
        pairs: `[K, 3]` rows (p, q, multiplicity); empty means nothing to remember.
        origins: who first proposed a pair, as name → {(p, q)}, where it was not the annotator.
        note: the annotator's words.
        flagged: the annotator wants somebody to look at it again.
        seconds: time spent on it.
        revision: how often it has been written; 0 before the first time.
    """

    pairs: PairArray
    origins: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    note: str = ""
    flagged: bool = False
    seconds: float = 0.0
    revision: int = 0


def annotators(root: Path) -> list[str]:
    """The names of those who annotated the data set in `root`, in alphabetical order."""
    folder = root / FOLDER
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and NAME.fullmatch(entry.name))


def read_annotations(root: Path, annotator: str) -> dict[int, Annotation]:
    """Every annotation of `annotator`, by episode. Nobody of that name: nothing."""
    manifest = read_manifest(root)
    found: dict[int, Annotation] = {}
    for shard in manifest.readable_shards():
        found.update(read_shard_annotations(root, annotator, shard))
    return found


def read_annotation(root: Path, annotator: str, episode: int) -> Annotation | None:
    """The annotation of one episode; None where `annotator` has not annotated it."""
    return read_shard_annotations(root, annotator, read_manifest(root).shard_of(episode)).get(episode)


@overload
def write_annotation(
    root: Path, annotator: str, episode: int, annotation: Annotation, expected_revision: int | None = None
) -> Annotation: ...


@overload
def write_annotation(
    root: Path, annotator: str, episode: int, annotation: None, expected_revision: int | None = None
) -> None: ...


def write_annotation(
    root: Path, annotator: str, episode: int, annotation: Annotation | None, expected_revision: int | None = None
) -> Annotation | None:
    """Store `annotation` as the next revision and return it as stored; None removes it (not annotated any more).

    With `expected_revision` (0: not annotated yet) a stored revision that differs raises `RevisionConflict`.
    """
    read_manifest(root)  # a folder that is no data set is refused before a lock file is put there
    with locked(root / LOCK):
        shard = read_manifest(root).shard_of(episode)
        present = read_shard_annotations(root, annotator, shard)
        revision = present[episode].revision if episode in present else 0
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflict(annotator, episode, expected_revision, revision)
        stored = None
        if annotation is None:
            present.pop(episode, None)
        else:
            pairs = as_pairs(annotation.pairs, shard.lengths[episode - shard.first], episode)
            stored = present[episode] = replace(annotation, pairs=pairs, revision=revision + 1)
        write_shard_annotations(root, annotator, shard.index, present)
        return stored


def annotation_path(root: Path, annotator: str, index: int) -> Path:
    """Where `annotator`'s lines for shard `index` are."""
    if not NAME.fullmatch(annotator):
        raise UserError(
            f"annotator name {annotator!r}: use letters, digits, '.', '_' and '-', not '.' first, at most 64"
        )
    return root / FOLDER / annotator / f"{index:05d}.jsonl"


def write_shard_annotations(root: Path, annotator: str, index: int, annotations: Mapping[int, Annotation]) -> None:
    """Replace all of `annotator`'s lines for one shard atomically."""
    path = annotation_path(root, annotator, index)
    write_text(path, "".join(format_line(episode, annotations[episode]) for episode in sorted(annotations)))


def read_shard_annotations(root: Path, annotator: str, shard: ShardEntry) -> dict[int, Annotation]:
    """`annotator`'s annotations of one shard, by episode; a bad line is a `UserError` naming file and line."""
    path = annotation_path(root, annotator, shard.index)
    found: dict[int, Annotation] = {}
    for number, line in enumerate(_lines(path), start=1):
        try:
            value = json.loads(line)
            episode = int(value["episode"])
            if not shard.first <= episode < shard.end:
                raise UserError(f"episode {episode} is not in shard {shard.index}")
            rows = parse_pairs(value["pairs"])
            found[episode] = Annotation(
                pairs=as_pairs(rows, shard.lengths[episode - shard.first], episode),
                origins={name: frozenset(map(_origin, pairs)) for name, pairs in value.get("origins", {}).items()},
                note=str(value.get("note", "")),
                flagged=bool(value.get("flagged", False)),
                seconds=float(value.get("seconds", 0.0)),
                revision=int(value.get("revision", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}, line {number}: {_reason(error)}") from error
    return found


def read_shard_pairs(root: Path, annotator: str, shard: ShardEntry) -> dict[int, PairArray]:
    """Only the pairs, by episode: what training needs. Checked for the whole shard at once, which is much quicker."""
    try:
        values = [json.loads(line) for line in _lines(annotation_path(root, annotator, shard.index))]
        rows = [_pair_rows(value["pairs"]) for value in values]
        episodes = np.array([value["episode"] for value in values], np.int64)
        counts = np.array(list(map(len, rows)), np.int64)
        table = np.array([row for of_episode in rows for row in of_episode], np.int32).reshape(-1, 3)
        owner = np.repeat(episodes - shard.first, counts)
        length = np.array(shard.lengths, np.int64)[owner]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        table = None
    if table is None or not _in_order(episodes - shard.first, owner, length, table, shard.episodes):
        # The slow way says what is wrong with which line, and puts pairs in order that somebody wrote by hand.
        return {episode: found.pairs for episode, found in read_shard_annotations(root, annotator, shard).items()}
    table.setflags(write=False)
    ends = np.cumsum(counts)
    return {int(e): table[end - n : end] for e, end, n in zip(episodes, ends, counts, strict=True)}


def _in_order(
    rows: NDArray[np.int64], owner: NDArray[np.int64], length: NDArray[np.int64], table: PairArray, count: int
) -> bool:
    """Whether every episode comes once and every pair is valid and in order of (q, p)."""
    p, q, multiplicity = table.astype(np.int64).T
    valid = (owner >= 0) & (p >= 0) & (p < q) & (q < length) & (multiplicity >= 1)
    order = np.where(valid, q * length + p, -1)
    rising = (np.diff(order) > 0) | (np.diff(owner) != 0)
    return bool(valid.all() and rising.all() and ((rows >= 0) & (rows < count)).all() and (np.diff(rows) > 0).all())


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    return f"{'no key' if isinstance(error, KeyError) else 'not an annotation:'} {error}"


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


def format_pairs(pairs: PairArray) -> dict[str, str]:
    """Pairs in order of (q, p) as q → the recalled steps: `"1,5x2,8-11"`."""
    by_query: dict[int, list[tuple[int, int]]] = {}
    for p, q, multiplicity in pairs.tolist():
        by_query.setdefault(q, []).append((p, multiplicity))
    return {str(q): ",".join(_runs(recalled)) for q, recalled in by_query.items()}


def _runs(recalled: Sequence[tuple[int, int]]) -> Iterable[str]:
    start = 0
    while start < len(recalled):
        end = start
        first, multiplicity = recalled[start]
        while end + 1 < len(recalled) and recalled[end + 1] == (recalled[end][0] + 1, multiplicity):
            end += 1
        steps = str(first) if end == start else f"{first}-{recalled[end][0]}"
        yield steps if multiplicity == 1 else f"{steps}x{multiplicity}"
        start = end + 1


def parse_pairs(pairs: Mapping[str, str]) -> NDArray[np.int64]:
    """`[K, 3]` rows (p, q, multiplicity) of the mapping `format_pairs` makes; not yet validated."""
    return np.array(_pair_rows(pairs), np.int64).reshape(-1, 3)


def _pair_rows(pairs: Mapping[str, str]) -> list[tuple[int, int, int]]:
    rows: list[tuple[int, int, int]] = []
    for query, text in pairs.items():
        q = int(query)
        for part in text.split(","):
            if part.isdecimal():
                rows.append((int(part), q, 1))
                continue
            steps, _, times = part.partition("x")
            multiplicity = int(times) if times else 1
            first, dash, last = steps.partition("-")
            if dash:
                if int(last) >= q:
                    raise UserError(f"pair ({last}, {q}): p must be before q")
                rows.extend((p, q, multiplicity) for p in range(int(first), int(last) + 1))
            else:
                rows.append((int(first), q, multiplicity))
    return rows


def _origin(text: str) -> tuple[int, int]:
    q, _, p = text.partition(":")
    return int(p), int(q)


def lengths_of(manifest: Manifest) -> NDArray[np.int64]:
    """`[N]` episode lengths, from the manifest alone."""
    return np.array([length for shard in manifest.readable_shards() for length in shard.lengths], np.int64)
