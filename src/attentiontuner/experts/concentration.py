"""The expert of POPGym's Concentration."""

from typing import Any

from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision


class ConcentrationExpert:
    """Turns new cards in order, and a partner that it knows when the first card of a turn has one.

    A turn begins with the next new card, as long as there is one: pairs that are known already wait until the end,
    since a known card of a kind is a partner for new ones of its kind. Without a known partner the second card is new
    as well. A new card is the one after the last one turned: it recalls the step that showed that. For a partner it
    recalls the step that first showed it, for the first card of a known pair both. It sees only the observations, and
    remembers what it turned; `env` is read for the number of cards, which the rules say.
    """

    def __init__(self, env: Any) -> None:
        self._cards = env.action_space.n
        self._step = -1
        self._shown: list[int] = []  # by card, in order: the step that first showed it
        self._face: list[int] = []
        self._known: dict[int, list[int]] = {}  # face → cards that were turned and have no partner yet
        self._first: int | None = None  # of this turn
        self._last: int | None = None  # the card just turned

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        faces = observation.reshape(self._cards, -1).argmax(1)
        if self._last is not None and self._last == len(self._shown):
            self._shown.append(self._step)
            self._face.append(int(faces[self._last]))
            self._known.setdefault(self._face[-1], []).append(self._last)
        self._settle()
        card, used = self._second() if self._first is not None else self._begin()
        self._last = card
        return Decision(card, sorted({p for p in map(self._seen_at, used) if p < self._step}))

    def _settle(self) -> None:
        """After the second card of a turn: a pair goes; after the first: it waits for its partner."""
        if self._first is None or self._last is None:
            return
        if self._last != self._first:
            if self._face[self._first] == self._face[self._last]:
                known = self._known[self._face[self._first]]
                known.remove(self._first)
                known.remove(self._last)
            self._first = None

    def _begin(self) -> tuple[int, list[int]]:
        """The first card of a turn, and the cards it was chosen by."""
        new = len(self._shown)
        if new < self._cards:
            self._first = new
            return new, [new - 1] if new else []
        pair = next(known for known in self._known.values() if len(known) > 1)[:2]
        self._first = pair[0]
        return pair[0], pair

    def _second(self) -> tuple[int, list[int]]:
        """The partner of the first card, else a new card, and the cards it was chosen by."""
        assert self._first is not None
        partner = next((card for card in self._known[self._face[self._first]] if card != self._first), None)
        if partner is not None:
            return partner, [partner]
        return len(self._shown), [len(self._shown) - 1]

    def _seen_at(self, card: int) -> int:
        return self._shown[card]
