"""Suggestions accepted for many demonstrations at once, unseen, by an annotator of their own.

What was accepted when is in `DIR/studio/accepted/<annotator>.json`, so that it can be taken back:

    [{"batch": "5f0c92b1", "by": "ada", "source": "labels:expert", "episodes": "0-249"}]

Only demonstrations that this annotator has not annotated get labels, and a name that is a person's is refused. Taking a
batch back removes what nobody has changed since.
"""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from attentiontuner.core import files
from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import (
    Annotation,
    check_annotator,
    read_shard_annotations,
    write_shard_annotations,
)
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import LOCK, ShardEntry, read_manifest
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.studio.desk import saving
from attentiontuner.studio.ranges import format_ranges, parse_ranges
from attentiontuner.studio.remarks import read_remarks
from attentiontuner.studio.review import read_review
from attentiontuner.studio.suggest import LABELS, REPORT, RUN, Suggester, SuggestionSource

AT_ONCE = 2.0
"""Seconds one call looks for suggestions; it says how far it came, and is asked again for the rest."""

UNSEEN = "accepted unseen from "
"""How the note of such an annotation begins."""


class Accepted(NamedTuple):
    """How many demonstrations were looked at, in order of their numbers; how many of these got labels, with how many
    pairs; how many this annotator had labelled before, and for how many nothing is suggested."""

    done: int
    labelled: int
    pairs: int
    before: int
    nothing: int


class TakenBack(NamedTuple):
    """How many annotations were removed, and how many stay because somebody has changed them."""

    removed: int
    changed: int


def sources_for_many(suggester: Suggester, by: str) -> list[SuggestionSource]:
    """Those that know every demonstration by itself: a memory report, a run, and labels."""
    known = suggester.sources(by)
    return [source for source in known if source.name in (REPORT, RUN) or source.name.startswith(LABELS)]


def accept_many(
    suggester: Suggester, name: str, by: str, source: str, episodes: Collection[int], batch: str
) -> Accepted:
    """Annotate demonstrations as `name` with what `source` suggests to `by`, as many as `AT_ONCE` allows.

    Calls with the same `batch` are one: they are taken back together.
    """
    root = suggester.desk.root
    _check_name(suggester, name, by)
    if source not in {known.name for known in sources_for_many(suggester, by)} or source == LABELS + name:
        raise UserError(f"suggestions of {source[:80]!r} cannot be accepted for many demonstrations at once")
    found: dict[int, Annotation] = {}
    done = before = nothing = 0
    end = time.monotonic() + AT_ONCE
    for shard in _shards_of(root, episodes):
        there = read_shard_annotations(root, name, shard).lines
        suggested = _suggestions(suggester, by, source, shard)
        for episode in sorted(number for number in episodes if shard.first <= number < shard.end):
            if done and time.monotonic() > end:
                break
            done += 1
            annotation = None if episode in there else suggested(episode)
            before += episode in there
            nothing += episode not in there and annotation is None
            if annotation is not None:
                found[episode] = annotation
    written = _write(root, name, {"batch": batch, "by": by, "source": source}, found)
    pairs = sum(len(found[episode].pairs) for episode in written)
    return Accepted(done, len(written), pairs, before + len(found) - len(written), nothing)


def take_back(root: Path, name: str, batch: str) -> TakenBack:
    """Remove the annotations of a batch that nobody has changed since."""
    with files.locked(root / LOCK):
        batches = read_batches(root, name)
        mine = [entry for entry in batches if entry["batch"] == batch]
        if not mine:
            raise UserError(f"annotator {name!r} has accepted nothing as {batch[:40]!r}: it may be taken back already")
        count = read_manifest(root).count()
        episodes = {number for entry in mine for number in parse_ranges(entry["episodes"], count)}
        removed = changed = 0
        for shard in _shards_of(root, episodes):
            present = read_shard_annotations(root, name, shard).annotations()
            inside = episodes & present.keys()
            gone = {episode for episode in inside if _untouched(present[episode])}
            removed, changed = removed + len(gone), changed + len(inside) - len(gone)
            _write_lines(root, name, shard, {episode: present[episode] for episode in present.keys() - gone})
        _write_batches(root, name, [entry for entry in batches if entry["batch"] != batch])
    return TakenBack(removed, changed)


def read_batches(root: Path, name: str) -> list[dict[str, str]]:
    """What was accepted as `name`, the latest last."""
    path = _file(root, check_annotator(name))
    if not path.exists():
        return []
    value = files.read_json(path)
    try:
        return [{key: str(entry[key]) for key in ("batch", "by", "source", "episodes")} for entry in value]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error!r}; without it nothing can be taken back") from error


def accepting(root: Path) -> list[str]:
    """The annotators whose labels were accepted unseen, in alphabetical order."""
    return sorted(path.stem for path in _file(root, "").parent.glob("*.json"))


def _check_name(suggester: Suggester, name: str, by: str) -> None:
    """Refuse a name that belongs to somebody."""
    root = suggester.desk.root
    check_annotator(by)
    if check_annotator(name) == EXPERT:
        raise UserError(f"the labels of {EXPERT!r} belong to the scripted expert: use another name")
    people = {*suggester.desk.store.annotators(), *read_review(root).assigned} - set(accepting(root))
    if name == by or name in people or read_remarks(root, name):
        raise UserError(f"{name!r} is somebody who annotates here: accept suggestions under a name of its own")


def _suggestions(suggester: Suggester, by: str, source: str, shard: ShardEntry) -> Callable[[int], Annotation | None]:
    """What `source` says about a demonstration of a shard, as an annotation; None where it says nothing."""

    def unseen(table: PairTable) -> Annotation:
        steps = frozenset((p, q) for p, q, _ in table)
        return Annotation(table, {source: steps} if steps else {}, note=UNSEEN + source, revision=1)

    if source.startswith(LABELS):  # as they are, with all that only labels know; nothing to remember is an answer too
        labels = read_shard_annotations(suggester.desk.root, source.removeprefix(LABELS), shard).pairs

        def of_labels(episode: int) -> Annotation | None:
            table = labels.one(episode - shard.first)
            return None if table is None else unseen(table)

        return of_labels

    def of_machine(episode: int) -> Annotation | None:
        found = suggester.suggest(by, episode, source)
        pairs, length = [(pair.p, pair.q, pair.times) for pair in found], shard.lengths[episode - shard.first]
        return unseen(PairTable.of(pairs, length)) if pairs else None

    return of_machine


def _write(root: Path, name: str, batch: Mapping[str, str], found: Mapping[int, Annotation]) -> set[int]:
    """Write annotations where there is none yet; the demonstrations that got one."""
    with files.locked(root / LOCK):
        shards = _shards_of(root, found)
        present = {shard: read_shard_annotations(root, name, shard).annotations() for shard in shards}
        new = found.keys() - {episode for lines in present.values() for episode in lines}
        if new:
            # The list first: a kill after it leaves it naming demonstrations without such a label, which do no harm.
            entry = {**batch, "episodes": format_ranges(new)}
            _write_batches(root, name, [*read_batches(root, name), entry])
            for shard, lines in present.items():
                inside = {episode: found[episode] for episode in new if shard.first <= episode < shard.end}
                if inside:
                    _write_lines(root, name, shard, {**lines, **inside})
        return set(new)


def _untouched(annotation: Annotation) -> bool:
    """Whether an annotation is as it was accepted."""
    return annotation.revision == 1 and annotation.note.startswith(UNSEEN) and annotation.as_proposed


def _shards_of(root: Path, episodes: Collection[int]) -> list[ShardEntry]:
    shards = read_manifest(root).readable_shards()
    return [shard for shard in shards if any(shard.first <= episode < shard.end for episode in episodes)]


def _write_lines(root: Path, name: str, shard: ShardEntry, lines: Mapping[int, Annotation]) -> None:
    with saving():
        write_shard_annotations(root, name, shard.index, lines)


def _write_batches(root: Path, name: str, batches: list[dict[str, str]]) -> None:
    with saving():
        files.write_json(_file(root, name), batches)


def _file(root: Path, name: str) -> Path:
    return root / "studio" / "accepted" / f"{name}.json"
