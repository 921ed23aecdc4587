"""The edit state of one demonstration: pairs, remarks, undo and redo. Nothing of the web and no file is known here.

A state is a frozen value; an edit is a function state → state. Every state that edits can reach is valid: each pair
has 0 <= p < q < T, each origin belongs to a pair that is there. So whatever a person does, the result can be saved.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

Pair: TypeAlias = tuple[int, int]
"""(p, q): the observation at step p was recalled for the decision at step q."""

Block: TypeAlias = tuple[int, int, int, int]
"""(first p, last p, first q, last q): every pair p < q of these steps."""

About: TypeAlias = tuple[int, int, int, int, float]
"""(first p, last p, first q, last q, weight) of a pair that is one step somewhere in each interval, or counts less."""

MAX_MULTIPLICITY = 99
MAX_BLOCK_PAIRS = 250_000
"""Pairs that one edit can add or remove: everything before every step of an episode of 700."""

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
        uncertain: (p, q) → `About` of pairs that are known less, or count less, than others; (p, q) is the middle of
            their intervals.
    """

    pairs: Mapping[Pair, int] | None = None
    origins: Mapping[Pair, str] = field(default_factory=dict)
    note: str = ""
    flagged: bool = False
    rejected: frozenset[tuple[str, int, int]] = frozenset()
    uncertain: Mapping[Pair, About] = field(default_factory=dict)

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


def add(
    pairs: Iterable[Pair],
    source: str | None = None,
    counts: Sequence[int] = (),
    about: Sequence[About | None] = (),
    blocks: Iterable[Block] = (),
) -> Edit:
    """Add pairs that are not there yet; with a `source` they are accepted suggestions and keep its name.

    `counts` and `about` have an entry for each of `pairs`, or none at all: every pair counts once and its steps are
    known. `blocks` are added too.
    """
    wanted = list(pairs)
    if len(counts) not in (0, len(wanted)) or len(about) not in (0, len(wanted)):
        raise UserError("counts and intervals must be given for every pair, or for none")
    details: dict[Pair, tuple[int, About | None]] = {}
    for place, pair in enumerate(wanted):  # of a pair that is given twice, the first counts
        details.setdefault(pair, (counts[place] if counts else 1, about[place] if about else None))

    def edit(state: EditState, length: int) -> EditState:
        _check_source(source)
        asked = dict.fromkeys([*_checked(wanted, length), *_inside(blocks, length)])
        new = {pair: details.get(pair, (1, None)) for pair in asked if pair not in (state.pairs or {})}
        if not new:
            return state
        for pair, (times, uncertain) in new.items():
            _check_count(pair, times)
            _check_about(pair, uncertain, length)
        origins = dict(state.origins) | (dict.fromkeys(new, source) if source is not None else {})
        return replace(
            state,
            pairs={**(state.pairs or {}), **{pair: times for pair, (times, _) in new.items()}},
            origins=origins,
            rejected=frozenset(entry for entry in state.rejected if entry[1:] not in new),
            uncertain={**state.uncertain, **{pair: known for pair, (_, known) in new.items() if known is not None}},
        )

    return edit


def remove(pairs: Iterable[Pair], blocks: Iterable[Block] = ()) -> Edit:
    """Remove pairs; those that are not there are no error. Without any pair left, nothing is to be remembered.

    A suggestion that was accepted and is removed again counts as turned down.
    """
    unwanted = list(pairs)

    def edit(state: EditState, length: int) -> EditState:
        gone = {*_checked(unwanted, length), *_inside(blocks, length)} & set(state.pairs or {})
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
        _check_count(checked, multiplicity)
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


def _inside(blocks: Iterable[Block], length: int) -> Iterator[Pair]:
    """Every pair p < q of the blocks, which must lie in the episode and not be too many."""
    room = MAX_BLOCK_PAIRS
    for p, p_last, q, q_last in blocks:
        if not (0 <= p <= p_last < length and 0 <= q <= q_last < length):
            raise UserError(f"steps {p} to {p_last} and {q} to {q_last} are not all in the episode of {length}")
        room -= sum(max(0, min(p_last, later - 1) - p + 1) for later in range(q, q_last + 1))
        if room < 0:
            raise UserError(f"more than {MAX_BLOCK_PAIRS:,} pairs at once: mark fewer steps")
        yield from ((early, later) for later in range(q, q_last + 1) for early in range(p, min(p_last, later - 1) + 1))


def _check_count(pair: Pair, multiplicity: int) -> None:
    if not 1 <= multiplicity <= MAX_MULTIPLICITY:
        raise UserError(f"pair {pair}: the multiplicity must lie between 1 and {MAX_MULTIPLICITY}")


def _check_about(pair: Pair, about: About | None, length: int) -> None:
    """An interval holds its pair in the middle and lies in the episode, as the files want it."""
    if about is None:
        return
    p, p_last, q, q_last, weight = about
    if not (0 <= p <= p_last and p < q <= q_last < length and p_last < q_last and 0 <= weight < math.inf):
        raise UserError(f"{p}~{p_last} at {q}~{q_last}: p must begin and end before q, in the episode of {length}")
    if pair != ((p + p_last) // 2, (q + q_last) // 2):
        raise UserError(f"pair {pair} is not the middle of {p}~{p_last} at {q}~{q_last}")


def _check_source(source: str | None) -> None:
    if source is not None and not (0 < len(source) <= MAX_SOURCE and source.isprintable()):
        raise UserError(f"the source of a suggestion needs a name of 1 to {MAX_SOURCE} printable characters")
