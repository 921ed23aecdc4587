"""Pairs as text, by the deciding step.

`"24": "1,5x2,8-11"` says that at step 24 step 1, step 5 twice, and steps 8 to 11 were recalled.

What is less usual is written only where it is needed: `8~11` is one step somewhere between 8 and 11 (`"20~24"`: decided
somewhere between steps 20 and 24), `5x2@0.5` counts with half the weight of others.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.wording import counted
from attentiontuner.demos.pair_rules import LARGEST, PairError, name_of
from attentiontuner.demos.pairs import PairTable, spans

HEAVIEST = float(np.finfo(np.float32).max)

Recalled = tuple[int, int, int, float]
"""p, p_last, multiplicity, weight."""


def format_pairs(pairs: PairTable) -> dict[str, str]:
    """The pairs of a table of one episode."""
    by_query: dict[str, list[Recalled]] = {}
    columns = (pairs.q, pairs.q_last, pairs.p, pairs.p_last, pairs.multiplicity, pairs.weight)
    for q, q_last, *recalled in zip(*(column.tolist() for column in columns), strict=True):
        by_query.setdefault(_interval(q, q_last), []).append(tuple(recalled))
    return {query: ",".join(_runs(recalled)) for query, recalled in by_query.items()}


def _interval(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}~{last}"


def _runs(recalled: Sequence[Recalled]) -> Iterator[str]:
    start = 0
    while start < len(recalled):
        end = start
        p, p_last, multiplicity, weight = recalled[start]
        while p == p_last and end + 1 < len(recalled):
            following = recalled[end][0] + 1
            if recalled[end + 1] != (following, following, multiplicity, weight):
                break
            end += 1
        steps = _interval(p, p_last) if end == start else f"{p}-{recalled[end][0]}"
        times = "" if multiplicity == 1 else f"x{multiplicity}"
        yield steps + times + ("" if weight == 1 else f"@{np.float32(weight)}")
        start = end + 1


def parse_pairs(pairs: Mapping[str, str], length: int, episode: object = None) -> PairTable:
    """The table of one episode of `length` steps; errors call it number `episode`."""
    try:
        reader = PairReader([length])
        reader.add(0, pairs)
        return reader.table()
    except PairError as error:
        raise PairError(error.problem, 0, name_of(episode)) from None


class PairReader:
    """Reads the text of many episodes into flat lists, which become one table at the end.

    Steps are compared with the episode's length as they are read, so a few bytes of text cannot ask for more pairs than
    an episode has.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._p: list[int] = []
        self._q: list[int] = []
        self._rows: list[int] = []  # the episodes that were added
        self._ends: list[int] = []  # how many pairs there were after each of them
        self._times: list[int] = []  # place, how many pairs from there, their multiplicity; one after another
        self._uncertain: list[float] = []  # place, how many pairs from there, last p (-1: p), last q, weight

    def add(self, row: int, pairs: Mapping[str, str]) -> None:
        """The pairs of episode `row`; errors name the pair."""
        length = self._lengths[row]
        for query, text in pairs.items():
            if text.isdecimal() and query.isdecimal():  # nearly all
                p, q = int(text), int(query)
                if p < q < length:
                    self._p.append(p)
                    self._q.append(q)
                    continue
            first, _, last = query.partition("~")
            q, q_last = int(first), int(last or first)
            if not 0 <= q <= q_last < length:
                problem = f"q is outside the episode of {counted(length, 'step')}"
                raise PairError(f"pair ({text.partition(',')[0]}, {query}): {problem}", row)
            for part in text.split(","):
                if part.isdecimal() and q == q_last and int(part) < q:
                    self._p.append(int(part))
                    self._q.append(q)
                else:
                    self._add_part(row, q, q_last, part)
        self._rows.append(row)
        self._ends.append(len(self._p))

    def _add_part(self, row: int, q: int, q_last: int, part: str) -> None:
        """One entry of a text: steps, then `x` and the multiplicity, then `@` and the weight."""
        counts, _, weight = part.partition("@")
        steps, _, times = counts.partition("x")
        first, dash, last = (steps, "", "") if steps.isdecimal() else steps.partition("-" if "-" in steps else "~")
        p, p_last = int(first), int(last) if dash else int(first)
        if p_last < p:
            raise PairError(f"steps {steps} at step {q} end before they begin", row)
        if not (p < q and p_last < (q_last if dash == "~" else q)):
            raise PairError(f"pair ({p_last}, {q}): p must be before q", row)
        recalled = range(p, p_last + 1) if dash == "-" else (p,)
        if times:
            if not 1 <= int(times) <= LARGEST:
                wrong = "below 1" if int(times) < 1 else f"above {LARGEST}"
                raise PairError(f"pair ({p}, {q}): the multiplicity is {wrong}", row)
            self._times += (len(self._p), len(recalled), int(times))
        if weight or dash == "~" or q != q_last:
            share = float(weight or 1)
            if not 0 <= share <= HEAVIEST:
                raise PairError(f"pair ({p}, {q}): the weight is no number from 0", row)
            self._uncertain += (len(self._p), len(recalled), p_last if dash == "~" else -1, q_last, share)
        self._p += recalled
        self._q += [q] * len(recalled)

    def table(self) -> PairTable:
        """Everything that was added; episodes that were not are not annotated."""
        annotated = np.zeros(len(self._lengths), np.bool_)
        annotated[self._rows] = True
        counts = [end - start for start, end in zip([0, *self._ends], self._ends, strict=False)]
        episode = np.repeat(np.array(self._rows, np.int32), counts)
        p, q = np.array(self._p, np.int32), np.array(self._q, np.int32)
        columns: dict[str, NDArray[Any]] = {}
        if self._times:
            places, (times,) = _spread(self._times, 3)
            columns["multiplicity"] = np.ones(len(p), np.int32)
            columns["multiplicity"][places] = times
        if self._uncertain:
            places, (last, q_last, weight) = _spread(self._uncertain, 5)
            columns |= {"p_last": p.copy(), "q_last": q.copy(), "weight": np.ones(len(p), np.float32)}
            columns["p_last"][places] = np.where(last < 0, p[places], last)
            columns["q_last"][places], columns["weight"][places] = q_last, weight
        return PairTable(np.array(self._lengths), annotated, episode, p, q, **columns)


def _spread(flat: Sequence[float], size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of groups (first place, how many, values …) of `size` numbers: every place, and each value at every place."""
    groups = np.array(flat, np.float64).reshape(-1, size)
    start, count = groups[:, :2].astype(np.int64).T
    return spans(start, count), np.repeat(groups[:, 2:], count, axis=0).T
