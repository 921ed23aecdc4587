"""The sessions of one data set: opened, edited, and saved at once. No web in here either.

Two windows (or two studios) on the same demonstration are kept apart by the version each has seen: a fingerprint of
what is annotated. A change that was made on an older version is refused and nothing is overwritten.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.annotations import (
    Annotation,
    RevisionConflict,
    check_annotator,
    read_annotation,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.store.manifest import FILE as MANIFEST
from attentiontuner.demos.store.manifest import read_manifest
from attentiontuner.demos.store.reader import EXPERT, DemoStore
from attentiontuner.studio.remarks import Remark, read_remarks, write_remark
from attentiontuner.studio.session import EditState, Session
from attentiontuner.studio.times import check_seconds

DONE_MARKS = 10_000
"""Changes that are known by their marks to be made."""

OPEN_SESSIONS = 256
"""Demonstrations whose undo history is kept; the one untouched for longest is forgotten first."""

Action = Callable[[Session], bool]
"""What a request does to a session; whether anything changed."""


class Outdated(UserError):
    """The change was made on an older version of the annotation than the one that is saved."""


class Unsaved(UserError):
    """The disk did not take the change (it is full, say); the same change may be sent again."""


class Missing(UserError):
    """There is no such demonstration or step."""


@contextmanager
def saving() -> Iterator[None]:
    """What keeps this block from saving, as what a page can do about it."""
    try:
        yield
    except RevisionConflict as error:
        raise Outdated(str(error)) from error
    except UserError as error:
        raise Unsaved(str(error)) from error


class Desk:
    """All annotation of one data set folder goes through here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._store: DemoStore | None = None
        self._lock = threading.RLock()
        self._sessions: OrderedDict[tuple[str, int, str], Session] = OrderedDict()
        self._done: OrderedDict[str, None] = OrderedDict()
        self._waiting_seconds: dict[tuple[str, int], float] = {}

    @property
    def store(self) -> DemoStore:
        """The data set; opened when first needed, because `play` may start without one."""
        with self._lock:
            if self._store is None:
                self._store = DemoStore(self.root, read_manifest(self.root), annotator=None)
            return self._store

    @property
    def begun(self) -> bool:
        """Whether there is a data set yet."""
        return (self.root / MANIFEST).is_file()

    def refresh(self) -> None:
        """Look at the folder anew: episodes were added."""
        with self._lock:
            self._store = None

    def demonstration(self, episode: int) -> Demonstration:
        """Episode number `episode`, without anybody's pairs."""
        with self._lock:
            self.length(episode)
            return self.store[episode]

    def overview(self, annotator: str) -> dict[str, list[int]]:
        """Which episodes `annotator` has annotated, and which are flagged."""
        check_annotator(annotator)
        annotations = read_annotations(self.root, annotator)
        remarks = read_remarks(self.root, annotator)
        flagged = {e for e, a in annotations.items() if a.flagged} | {e for e, r in remarks.items() if r.flagged}
        return {"annotated": sorted(annotations), "flagged": sorted(flagged)}

    def length(self, episode: int) -> int:
        """Steps of episode number `episode`, without reading a frame."""
        with self._lock:
            if not 0 <= episode < len(self.store):
                raise Missing(f"there is no demonstration {episode}: the data set has {len(self.store)}")
            return int(self.store.lengths[episode])

    def open(self, annotator: str, episode: int, window: str = "") -> tuple[Session, str]:
        """The session of this demonstration as it is saved now, and its version. Each window has its own undo."""
        with self._lock:
            session, _ = self._current(annotator, episode, window)
            return session, version(session.state)

    def change(
        self,
        annotator: str,
        episode: int,
        seen: str,
        action: Action,
        seconds: float = 0.0,
        window: str = "",
        mark: str = "",
    ) -> Session:
        """Do `action` and save it at once, if `seen` is the version that is saved now.

        An action that is already done (a request sent again because its answer was lost) is no conflict; one with a
        `mark` is done once.
        """
        if annotator == EXPERT:
            raise UserError(f"the labels of {EXPERT!r} belong to the scripted expert: use another name")
        with self._lock:
            session, stored = self._current(annotator, episode, window)
            if mark and mark in self._done:
                return session
            trial = session.copy()
            changed = action(trial)
            if changed and seen != version(session.state):
                raise Outdated(
                    f"demonstration {episode} was changed elsewhere in the meantime; your last change was not saved"
                )
            self.spend(annotator, episode, seconds)
            if changed:
                self._save(annotator, episode, trial, stored)
                self._sessions[annotator, episode, window] = trial
            self._done[mark] = None
            while len(self._done) > DONE_MARKS:
                self._done.popitem(last=False)
            return trial if changed else session

    def spend(self, annotator: str, episode: int, seconds: float) -> None:
        """Add active seconds; they are written with the next change, or by `settle`. A script's labels take none."""
        check_annotator(annotator)
        if annotator == EXPERT:
            return
        with self._lock:
            key = annotator, episode
            self._waiting_seconds[key] = self._waiting_seconds.get(key, 0.0) + check_seconds(seconds)

    def settle(self, annotator: str, episode: int) -> None:
        """Write waiting seconds into the annotation, if there is one: the person is leaving this demonstration."""
        with self._lock:
            session, stored = self._current(annotator, episode)
            if stored is not None and self._waiting_seconds.get((annotator, episode)):
                self._save(annotator, episode, session, stored)

    def _current(self, annotator: str, episode: int, window: str = "") -> tuple[Session, Annotation | None]:
        check_annotator(annotator)
        length, key = self.length(episode), (annotator, episode, window)
        stored = read_annotation(self.root, annotator, episode)
        state = state_of(stored, read_remarks(self.root, annotator).get(episode, Remark()))
        session = self._sessions.get(key)
        # What another window has changed since is not this one's to undo: its history begins anew.
        if session is None or version(session.state) != version(state):
            session = self._sessions[key] = Session(length, state)
        self._sessions.move_to_end(key)
        while len(self._sessions) > OPEN_SESSIONS:
            self._sessions.popitem(last=False)
        return session, stored

    def _save(self, annotator: str, episode: int, session: Session, stored: Annotation | None) -> None:
        state, key = session.state, (annotator, episode)
        seconds = self._waiting_seconds.get(key, 0.0) + (stored.seconds if stored else 0.0)
        revision = stored.revision if stored else 0
        remark = Remark() if state.annotated else Remark(state.note, state.flagged)
        with saving():
            if remark != Remark():
                write_remark(self.root, annotator, episode, remark)
            if state.annotated or stored is not None:
                annotation = annotation_of(state, session.length, seconds) if state.annotated else None
                write_annotation(self.root, annotator, episode, annotation, expected_revision=revision)
            if remark == Remark():
                write_remark(self.root, annotator, episode, remark)
        self._waiting_seconds[key] = 0.0 if state.annotated else seconds


def version(state: EditState) -> str:
    """A fingerprint of everything that is saved of a state, times left out."""
    pairs = state.rows() if state.annotated else None
    origins = sorted((p, q, source) for (p, q), source in state.origins.items())
    uncertain = [sorted(state.uncertain.items())] if state.uncertain else []
    content = json.dumps([pairs, origins, state.note, state.flagged, *uncertain])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def state_of(annotation: Annotation | None, remark: Remark) -> EditState:
    """The edit state of what is saved."""
    if annotation is None:
        return EditState(note=remark.note, flagged=remark.flagged)
    table = annotation.pairs
    pairs = {(p, q): count for p, q, count in table}
    columns = (table.p, table.p_last, table.q, table.q_last, table.weight)
    uncertain = {
        ((about[0] + about[1]) // 2, (about[2] + about[3]) // 2): about
        for about in zip(*(column.tolist() for column in columns), strict=True)
        if about[0] != about[1] or about[2] != about[3] or about[4] != 1
    }
    origins = {(p, q): source for source, marked in annotation.origins.items() for p, q in marked if (p, q) in pairs}
    return EditState(pairs, origins, annotation.note, annotation.flagged, uncertain=uncertain)


def annotation_of(state: EditState, length: int, seconds: float) -> Annotation:
    """What is saved of an annotated state."""
    origins: dict[str, set[tuple[int, int]]] = {}
    for pair, source in state.origins.items():
        origins.setdefault(source, set()).add(pair)
    rows = [(*state.uncertain.get((p, q), (p, p, q, q, 1.0)), count) for p, q, count in state.rows()]
    columns = np.array(rows, np.float64).reshape(-1, 6).T
    p, p_last, q, q_last, _, multiplicity = columns.astype(np.int64)
    row = np.zeros(len(rows), np.int32)
    return Annotation(
        pairs=PairTable(np.array([length]), np.array([True]), row, p, q, multiplicity, p_last, q_last, columns[4]),
        origins={source: frozenset(marked) for source, marked in sorted(origins.items())},
        note=state.note,
        flagged=state.flagged,
        seconds=round(seconds, 2),
    )


def changes_as_json(session: Session) -> dict[str, Any]:
    """What a page needs to know of a session."""
    state = session.state
    return {
        "version": version(state),
        "annotated": state.annotated,
        "pairs": state.rows(),
        "about": [[p, q, *known] for (p, q), known in sorted(state.uncertain.items())],
        "origins": [[p, q, source] for (p, q), source in sorted(state.origins.items())],
        "rejected": sorted(state.rejected),
        "note": state.note,
        "flagged": state.flagged,
        "canUndo": session.can_undo,
        "canRedo": session.can_redo,
    }
