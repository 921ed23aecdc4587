"""The edit state of one demonstration: pairs, remarks, undo and redo. Nothing of the web and no file is known here.

A state is a frozen value; an edit is a function state → state. Every state that edits can reach is valid: each pair
has 0 <= p < q < T, each origin belongs to a pair that is there. So whatever a person does, the result can be saved.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

Pair: TypeAlias = tuple[int, int]
"""(p, q): the observation at step p was recalled for the decision at step q."""

MAX_MULTIPLICITY = 99
MAX_NOTE = 4000
MAX_SOURCE = 200
ODD_LINE_ENDS = dict.fromkeys(map(ord, "\x85\u2028\u2029"), "\n")
MAX_UNDO = 1000
"""Edits that can be taken back; older ones stay as they are."""


@dataclass(frozen=True)
class EditState:
    """What is known about one demonstration.

    Attributes:
        pairs: (p, q) → multiplicity. None: not annotated; empty: annotated with nothing to remember.
        origins: (p, q) → where an accepted suggestion came from; pairs made by hand are not in it.
        note: free text.
        flagged: somebody should look at this demonstration again.
        rejected: suggestions (source, p, q) that were turned down.
        uncertain: (p, q) → (first p, last p, first q, last q, weight) of pairs that are known less, or count less, than
            others; the page shows them at the middle of their intervals and edits leave them as they are.
    """

    pairs: Mapping[Pair, int] | None = None
    origins: Mapping[Pair, str] = field(default_factory=dict)
    note: str = ""
    flagged: bool = False
    rejected: frozenset[tuple[str, int, int]] = frozenset()
    uncertain: Mapping[Pair, tuple[int, int, int, int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pairs is not None:
            object.__setattr__(self, "pairs", MappingProxyType(dict(self.pairs)))
        for name in ("origins", "uncertain"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def annotated(self) -> bool:
        return self.pairs is not None

    def rows(self) -> list[tuple[int, int, int]]:
        """(p, q, multiplicity) in order of (q, p); nothing where the demonstration is not annotated."""
        ordered = sorted((self.pairs or {}).items(), key=lambda item: (item[0][1], item[0][0]))
        return [(p, q, multiplicity) for (p, q), multiplicity in ordered]


Edit: TypeAlias = Callable[[EditState, int], EditState]
"""(state, number of steps T) → state; a `UserError` where the edit makes no sense for T steps."""


def add(pairs: Iterable[Pair], source: str | None = None) -> Edit:
    """Add pairs that are not there yet; with a `source` they are accepted suggestions and keep its name."""
    wanted = list(pairs)

    def edit(state: EditState, length: int) -> EditState:
        _check_source(source)
        new = [pair for pair in dict.fromkeys(_checked(wanted, length)) if pair not in (state.pairs or {})]
        if not new:
            return state
        origins = dict(state.origins)
        if source is not None:
            origins.update(dict.fromkeys(new, source))
        rejected = frozenset(entry for entry in state.rejected if entry[1:] not in set(new))
        return replace(
            state, pairs={**(state.pairs or {}), **dict.fromkeys(new, 1)}, origins=origins, rejected=rejected
        )

    return edit


def remove(pairs: Iterable[Pair]) -> Edit:
    """Remove pairs; those that are not there are no error. Without any pair left, nothing is to be remembered.

    A suggestion that was accepted and is removed again counts as turned down.
    """
    unwanted = list(pairs)

    def edit(state: EditState, length: int) -> EditState:
        gone = set(_checked(unwanted, length)) & set(state.pairs or {})
        if not gone or state.pairs is None:
            return state
        kept = {pair: count for pair, count in state.pairs.items() if pair not in gone}
        turned_down = {(state.origins[pair], *pair) for pair in gone if pair in state.origins}
        origins = {pair: source for pair, source in state.origins.items() if pair not in gone}
        uncertain = {pair: about for pair, about in state.uncertain.items() if pair not in gone}
        rejected = state.rejected | turned_down
        return replace(state, pairs=kept, origins=origins, uncertain=uncertain, rejected=rejected)

    return edit


def count(pair: Pair, multiplicity: int) -> Edit:
    """Say how often o_p matters at q (two equal objects in one room: 2)."""

    def edit(state: EditState, length: int) -> EditState:
        (checked,) = _checked([pair], length)
        if not 1 <= multiplicity <= MAX_MULTIPLICITY:
            raise UserError(f"pair {checked}: the multiplicity must lie between 1 and {MAX_MULTIPLICITY}")
        if state.pairs is None or checked not in state.pairs:
            raise UserError(f"pair {checked} is not marked, so it cannot count {counted(multiplicity, 'time')}")
        return replace(state, pairs={**state.pairs, checked: multiplicity})

    return edit


def nothing() -> Edit:
    """Nothing is to be remembered here: an annotation of its own."""
    return lambda state, length: replace(state, pairs={}, origins={}, uncertain={})


def clear() -> Edit:
    """Take the annotation away: the demonstration is not annotated any more. Note and flag stay."""
    return lambda state, length: replace(state, pairs=None, origins={}, uncertain={}, rejected=frozenset())


def note(text: str) -> Edit:
    """Replace the note. Line ends that only Unicode knows become ordinary ones: notes live in line-based files."""

    def edit(state: EditState, length: int) -> EditState:
        if len(text) > MAX_NOTE:
            raise UserError(f"the note has {len(text)} characters; at most {MAX_NOTE} fit")
        return replace(state, note=text.translate(ODD_LINE_ENDS))

    return edit


def flag(flagged: bool) -> Edit:
    """Set or take away the flag."""
    return lambda state, length: replace(state, flagged=flagged)


def reject(pairs: Iterable[Pair], source: str) -> Edit:
    """Turn suggestions down: they are not shown again. Pairs that are already marked stay."""
    unwanted = list(pairs)

    def edit(state: EditState, length: int) -> EditState:
        _check_source(source)
        turned_down = {(source, p, q) for p, q in _checked(unwanted, length)}
        return replace(state, rejected=state.rejected | turned_down)

    return edit


class Session:
    """One demonstration under edit: the present state, and the states before and after it."""

    def __init__(self, length: int, state: EditState | None = None) -> None:
        self.length = length
        self.state = state or EditState()
        _checked(self.state.pairs or {}, length)
        self._undo: list[EditState] = []
        self._redo: list[EditState] = []

    @property
    def can_undo(self) -> bool:
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        return bool(self._redo)

    def apply(self, edit: Edit) -> bool:
        """Apply one edit; whether it changed anything. An edit that changes nothing leaves undo and redo alone."""
        changed = edit(self.state, self.length)
        if changed == self.state:
            return False
        self._undo = [*self._undo, self.state][-MAX_UNDO:]
        self._redo = []
        self.state = changed
        return True

    def undo(self) -> bool:
        """Go back by one edit; whether there was one."""
        if not self._undo:
            return False
        self._redo.append(self.state)
        self.state = self._undo.pop()
        return True

    def redo(self) -> bool:
        """Go forward by one undone edit; whether there was one."""
        if not self._redo:
            return False
        self._undo.append(self.state)
        self.state = self._redo.pop()
        return True

    def copy(self) -> "Session":
        """An independent session with the same state and history, to try an edit on before it is saved."""
        twin = Session(self.length, self.state)
        twin._undo, twin._redo = list(self._undo), list(self._redo)
        return twin


def _checked(pairs: Iterable[Pair], length: int) -> list[Pair]:
    """The pairs as whole numbers, or a `UserError` that names the first bad one and the limit it breaks."""
    checked = []
    for p, q in pairs:
        if p < 0:
            raise UserError(f"pair ({p}, {q}): p is negative")
        if p >= q:
            raise UserError(f"pair ({p}, {q}): p must be before q")
        if q >= length:
            raise UserError(f"pair ({p}, {q}): q is outside the episode of {counted(length, 'step')}")
        checked.append((int(p), int(q)))
    return checked


def _check_source(source: str | None) -> None:
    if source is not None and not (0 < len(source) <= MAX_SOURCE and source.isprintable()):
        raise UserError(f"the source of a suggestion needs a name of 1 to {MAX_SOURCE} printable characters")
