"""How far two annotators agree on one episode."""

from collections import deque
from dataclasses import dataclass

from attentiontuner.demos.pairs import PairTable

Pair = tuple[int, int]


@dataclass(frozen=True)
class PairAgreement:
    """`precision` is the share of the first annotator's pairs that the second has too, `recall` the other way round.

    A pair counts as often as it matters: of one that is marked twice here and once there, one half is agreed on. Two
    empty annotations agree fully (all three are 1).

    Attributes:
        matched: how often the matched pairs count for both.
        only_first: pairs without a match, and `only_second` those of the other.
        counts: (p, q, times here, times there) of the first's matched pairs that count more often for one of the two.
    """

    precision: float
    recall: float
    f1: float
    matched: int
    only_first: tuple[Pair, ...]
    only_second: tuple[Pair, ...]
    counts: tuple[tuple[int, int, int, int], ...] = ()


def agreement(a: PairTable, b: PairTable, tolerance: int = 0) -> PairAgreement:
    """Match pairs one to one, as many as can be; a pair matches one whose p and q are each at most `tolerance` away."""
    first, second = ({(p, q): times for p, q, times in table} for table in (a, b))
    partner = _matching(list(first), list(second), tolerance)
    taken = set(partner.values())
    matched = sum(min(first[here], second[there]) for here, there in partner.items())
    whole_first, whole_second = sum(first.values()), sum(second.values())
    return PairAgreement(
        precision=matched / whole_first if first else float(not second),
        recall=matched / whole_second if second else float(not first),
        f1=2 * matched / (whole_first + whole_second) if first or second else 1.0,
        matched=matched,
        only_first=tuple(pair for pair in first if pair not in partner),
        only_second=tuple(pair for pair in second if pair not in taken),
        counts=tuple(
            (*pair, first[pair], second[partner[pair]])
            for pair in first
            if pair in partner and first[pair] != second[partner[pair]]
        ),
    )


def _matching(first: list[Pair], second: list[Pair], tolerance: int) -> dict[Pair, Pair]:
    """A largest one-to-one matching first → second: exact ones at once, the rest along augmenting paths."""
    there = set(second)
    partner = {pair: pair for pair in first if pair in there}
    holder = dict(partner)  # second -> first
    if tolerance == 0:
        return partner
    for root in first:
        if root in partner:
            continue
        came_from: dict[Pair, Pair] = {}  # second -> the first it was reached from
        queue = deque([root])
        while queue:
            here = queue.popleft()
            fresh = [pair for pair in _near(here, second, there, tolerance) if pair not in came_from]
            came_from.update((pair, here) for pair in fresh)
            free = next((pair for pair in fresh if pair not in holder), None)
            if free is not None:
                _flip(free, root, came_from, partner, holder)
                break
            queue.extend(holder[pair] for pair in fresh)
    return partner


def _near(here: Pair, second: list[Pair], there: set[Pair], tolerance: int) -> list[Pair]:
    """The pairs of `second` (as a set: `there`) within reach of `here`, by the shorter way of finding them."""
    reach = range(-tolerance, tolerance + 1)
    if len(reach) ** 2 > len(second):
        return [(p, q) for p, q in second if abs(p - here[0]) <= tolerance and abs(q - here[1]) <= tolerance]
    near = ((here[0] + dp, here[1] + dq) for dq in reach for dp in reach)
    return [pair for pair in near if pair in there]


def _flip(
    end: Pair, root: Pair, came_from: dict[Pair, Pair], partner: dict[Pair, Pair], holder: dict[Pair, Pair]
) -> None:
    while True:
        giver = came_from[end]
        before = partner.get(giver)
        partner[giver], holder[end] = end, giver
        if giver == root or before is None:
            return
        end = before
