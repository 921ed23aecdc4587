"""The data set as a table: of each demonstration its length, who annotated it, with what, and how far they agree.

The page gets it as columns in one small JSON value. What was read of a file is kept until the file is another, so that
a table of ten thousand demonstrations is soon there again after one of them was annotated.
"""

import hashlib
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attentiontuner.demos.agreement import agreement
from attentiontuner.demos.annotations import annotation_path, read_shard_annotations
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import ShardEntry
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.ranges import format_ranges
from attentiontuner.studio.remarks import read_remarks, remarking
from attentiontuner.studio.review import Review, read_review, review_file

PATIENCE = 0.5
"""Seconds to wait for what only the shards themselves tell (who failed); the page asks again."""

Made = TypeVar("Made")
Signature = tuple[int, int, int]


@dataclass(frozen=True)
class Marked:
    """What one annotator says about one shard. `pairs` has a row for each of its episodes."""

    pairs: PairTable
    episodes: list[int]
    counts: list[int]
    seconds: list[float]
    flagged: list[int]
    notes: dict[int, str]


class Catalogue:
    """The table of one desk's demonstrations."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._kept: dict[Any, tuple[Any, Any]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="who failed")
        self._failures: tuple[DemoStore, Future[list[int]]] | None = None

    def stamp(self, tolerance: int = 0) -> str:
        """Changes whenever the table does."""
        with self._lock:
            return self._stamp(tolerance)

    def table(self, tolerance: int = 0, patience: float | None = PATIENCE) -> dict[str, Any]:
        """Everything but the pictures, in columns. `failed` is None where it is not known within `patience` seconds."""
        with self._lock:
            store = self._desk.store
            failed = self._failed(store, patience)
            stamp = self._stamp(tolerance)  # before anything is read that may change meanwhile
            people = {name: self._person(store, name) for name in self._names(store)}
            lowest = self._lowest_agreement(store, tolerance)
            review = read_review(self._desk.root)
            return {
                "stamp": stamp,
                "lengths": store.lengths.tolist(),
                "failed": failed,
                "people": people,
                "agreement": [None if np.isnan(value) else round(value, 3) for value in lowest.tolist()],
                "assigned": {name: format_ranges(numbers) for name, numbers in review.assigned.items()},
                "states": _states(review, self._fingerprints(store, review.states)),
            }

    def fingerprints(self, episodes: Iterable[int]) -> dict[int, str]:
        """What everybody says about some demonstrations, in eight characters each."""
        with self._lock:
            return self._fingerprints(self._desk.store, episodes)

    def _names(self, store: DemoStore) -> list[str]:
        """Everybody who annotated or remarked something."""
        return sorted({*store.annotators(), *remarking(self._desk.root)})

    def _stamp(self, tolerance: int) -> str:
        root, store = self._desk.root, self._desk.store
        files = [
            (name, signature_of(annotation_path(root, name, shard.index)))
            for name in store.annotators()
            for shard in store.manifest.readable_shards()
        ]
        remarks = [(path.name, signature_of(path)) for path in sorted((root / "studio" / "remarks").glob("*.json"))]
        known = self._failures is not None and self._failures[0] is store and self._failures[1].done()
        content = repr((files, remarks, signature_of(review_file(root)), len(store), known, tolerance))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _keep(self, key: Any, signature: Any, make: Callable[[], Made]) -> Made:
        """What `make` makes, or made when the signature was the same."""
        kept = self._kept.get(key)
        if kept is None or kept[0] != signature:
            kept = self._kept[key] = signature, make()
        made: Made = kept[1]
        return made

    def _marked(self, name: str, shard: ShardEntry) -> tuple[Any, Marked]:
        root = self._desk.root
        signature = signature_of(annotation_path(root, name, shard.index)), shard.episodes
        return signature, self._keep((name, shard.index), signature, lambda: _read(root, name, shard))

    def _person(self, store: DemoStore, name: str) -> dict[str, Any]:
        parts = [self._marked(name, shard)[1] for shard in store.manifest.readable_shards()]
        remarks = read_remarks(self._desk.root, name)
        flagged = {episode for part in parts for episode in part.flagged}
        notes = {episode: note for part in parts for episode, note in part.notes.items()}
        return {
            "episodes": [episode for part in parts for episode in part.episodes],
            "pairs": [count for part in parts for count in part.counts],
            "seconds": [seconds for part in parts for seconds in part.seconds],
            "flagged": sorted(flagged | {episode for episode, remark in remarks.items() if remark.flagged}),
            "notes": {**{episode: remark.note for episode, remark in remarks.items() if remark.note}, **notes},
        }

    def _lowest_agreement(self, store: DemoStore, tolerance: int) -> NDArray[np.float64]:
        """`[N]` the lowest F1 of two annotators of a demonstration; NaN where fewer than two annotated it."""
        lowest = np.full(len(store), np.nan)
        for shard in store.manifest.readable_shards():
            part = lowest[shard.first : shard.end]
            for one, other in combinations(store.annotators(), 2):
                (first_signature, first), (second_signature, second) = (
                    self._marked(name, shard) for name in (one, other)
                )
                signature = first_signature, second_signature, tolerance
                key = (one, other, shard.index)
                found = self._keep(key, signature, lambda: _agreements(first.pairs, second.pairs, tolerance))  # noqa: B023
                np.fmin(part, found, out=part)
        return lowest

    def _fingerprints(self, store: DemoStore, episodes: Iterable[int]) -> dict[int, str]:
        wanted, found = sorted(episodes), dict[int, str]()
        for shard in store.manifest.readable_shards():
            inside = [episode for episode in wanted if shard.first <= episode < shard.end]
            if not inside:
                continue
            tables = [(name, self._marked(name, shard)[1].pairs) for name in store.annotators()]
            for episode in inside:
                check = 0
                for name, table in tables:
                    row = episode - shard.first
                    if table.annotated[row]:
                        start, end = np.searchsorted(table.episode, (row, row + 1))
                        columns = (table.p, table.p_last, table.q, table.q_last, table.multiplicity, table.weight)
                        check = zlib.crc32(name.encode(), check)
                        for column in columns:
                            check = zlib.crc32(np.ascontiguousarray(column[start:end]).tobytes(), check)
                found[episode] = f"{check:08x}"
        return found

    def _failed(self, store: DemoStore, patience: float | None) -> list[int] | None:
        """The demonstrations that did not solve their task: shards that hold some are read, which may take a while."""
        if self._failures is None or self._failures[0] is not store:
            # A store of its own: reading must not push out the shards that are being annotated.
            own = DemoStore(store.path, store.manifest, None)
            self._failures = store, self._reader.submit(lambda: np.flatnonzero(~own.success()).tolist())
        try:
            return self._failures[1].result(patience)
        except TimeoutError:
            return None


def signature_of(path: Path) -> Signature | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(root: Path, name: str, shard: ShardEntry) -> Marked:
    found = read_shard_annotations(root, name, shard)
    counts = np.bincount(found.pairs.episode, minlength=shard.episodes)
    episodes = sorted(found.lines)
    seconds, flagged, notes = [], [], {}
    for episode in episodes:
        _, line = found.lines[episode]
        note, flag, spent = line.get("note", ""), line.get("flagged", False), line.get("seconds", 0.0)
        if not (isinstance(note, str) and isinstance(flag, bool) and isinstance(spent, int | float)):
            said = found.annotation(episode)  # which takes it, or says what is wrong in which line
            assert said is not None
            note, flag, spent = said.note, said.flagged, said.seconds
        seconds.append(round(spent, 1))
        if note:
            notes[episode] = note
        if flag:
            flagged.append(episode)
    return Marked(
        found.pairs, episodes, [int(counts[episode - shard.first]) for episode in episodes], seconds, flagged, notes
    )


def _agreements(first: PairTable, second: PairTable, tolerance: int) -> NDArray[np.float64]:
    """`[n]` the F1 of two annotators for each episode of a shard; NaN where they have not both annotated it."""
    found = np.full(len(first.lengths), np.nan)
    bounds = [np.searchsorted(table.episode, np.arange(len(found) + 1)) for table in (first, second)]
    for row in np.flatnonzero(first.annotated & second.annotated).tolist():
        spans = [slice(ends[row], ends[row + 1]) for ends in bounds]
        same = all(
            np.array_equal(getattr(first, column)[spans[0]], getattr(second, column)[spans[1]])
            for column in ("p", "q", "p_last", "q_last", "multiplicity")
        )
        found[row] = 1.0 if same else agreement(first.select([row]), second.select([row]), tolerance).f1
    return found


def _states(review: Review, labels: dict[int, str]) -> dict[str, str]:
    """Ranges of demonstrations by state; `changed` has those whose labels are others than those accepted."""
    groups: dict[str, list[int]] = {"to review": [], "accepted": [], "changed": []}
    for episode, reviewed in review.states.items():
        groups[reviewed.state].append(episode)
        if reviewed.state == "accepted" and reviewed.labels != labels.get(episode):
            groups["changed"].append(episode)
    return {state: format_ranges(numbers) for state, numbers in groups.items()}
