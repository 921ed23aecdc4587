"""Memory dependency pairs: (p, q) says that the observation at step p was recalled for the decision at step q.

All pairs of one or many episodes stand in one table of named columns. Whatever is done to pairs (selecting, moving,
joining, drawing others) is a method of it that returns a new table.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.frozen import frozen
from attentiontuner.demos.pair_rules import LARGEST, Integers, MemoryPair, PairError, check_pairs, name_of, pair_rows

MergeRule = Literal["union", "majority", "all"]


@dataclass(frozen=True, eq=False, repr=False)
class PairTable:
    """Memory pairs of N episodes, K in all, in order of (episode, q, p). Validated when made; its arrays are read-only.

    Pairs given in another order are put in order; of equal ones the multiplicities are added and the largest weight is
    kept. Where a step is only known to lie in an interval, the interval's first step is in `p` (`q`) and its last in
    `p_last` (`q_last`); both columns are one and the same array where every step is known.
    """

    lengths: Integers  # [N] int64, steps of each episode
    annotated: NDArray[np.bool_]  # [N] False: not annotated, which is not the same as no pairs
    episode: Integers  # [K] int32, row of the episode, from 0
    p: Integers  # [K] int32, the recalled step
    q: Integers  # [K] int32, the deciding step, p < q < length
    multiplicity: Integers = None  # type: ignore[assignment]  # [K] int32, how often o_p matters at q; 1 by default
    p_last: Integers = None  # type: ignore[assignment]  # [K] int32, p by default
    q_last: Integers = None  # type: ignore[assignment]  # [K] int32, q by default
    weight: NDArray[np.floating[Any]] = None  # type: ignore[assignment]  # [K] float32, how much it counts; 1 by default

    def __post_init__(self) -> None:
        for name, default in (("multiplicity", ONCE), ("weight", FULLY)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.broadcast_to(default, np.shape(self.p)))
        for first, last in (("p", "p_last"), ("q", "q_last")):
            if getattr(self, last) is None or np.array_equal(getattr(self, last), getattr(self, first)):
                object.__setattr__(self, last, getattr(self, first))
        check_pairs(*(np.asarray(getattr(self, field.name)) for field in fields(self)))
        exact = self.exact
        for field in fields(self):
            object.__setattr__(self, field.name, frozen(getattr(self, field.name), KINDS.get(field.name, np.int32)))
        self._share_steps(exact)
        if not self._in_order():
            columns = _grouped({name: getattr(self, name) for name in PAIR_COLUMNS})
            for name, column in columns.items():
                column.setflags(write=False)
                object.__setattr__(self, name, column)
            self._share_steps(exact)

    def _share_steps(self, exact: bool) -> None:
        if exact:
            object.__setattr__(self, "p_last", self.p)
            object.__setattr__(self, "q_last", self.q)

    def _in_order(self) -> bool:
        """Whether every pair is there once, in order."""
        if len(self.p) < 2:
            return True
        span = int(self.lengths.max())
        key = (self.episode.astype(np.int64) * span + self.q) * span + self.p
        return bool((key[1:] > key[:-1]).all())

    @classmethod
    def _sound(cls, lengths: Any, annotated: Any, columns: dict[str, Any], exact: bool) -> "PairTable":
        """A table of fresh arrays that are known to be right and in order: nothing is checked or copied."""
        table = object.__new__(cls)
        for name, column in {"lengths": lengths, "annotated": annotated, **columns}.items():
            column.setflags(write=False)
            object.__setattr__(table, name, column)
        table._share_steps(exact)
        return table

    @classmethod
    def of(cls, pairs: Any, length: int, episode: object = None) -> "PairTable":
        """The pairs of one annotated episode of `length` steps: a list or array of (p, q) or (p, q, multiplicity), or a
        table. A pair given several times has its multiplicities added. Errors name the episode (its number, for words
        only), the pair and the limit it breaks."""
        try:
            if isinstance(pairs, PairTable):
                if len(pairs.lengths) != 1:
                    there = counted(len(pairs.lengths), "episode")
                    raise UserError(f"{name_of(episode)}, pairs: a table of {there}, not of one")
                return pairs if pairs.lengths[0] == length else replace(pairs, lengths=np.array([length]))
            rows = pair_rows(pairs, episode)
            nowhere = np.zeros(len(rows), np.int32)
            return cls(np.array([length]), np.array([True]), nowhere, rows[:, 0], rows[:, 1], rows[:, 2])
        except PairError as error:
            raise PairError(error.problem, 0, name_of(episode)) from None

    @classmethod
    def nothing(cls, lengths: ArrayLike) -> "PairTable":
        """Episodes of these lengths, none of them annotated."""
        lengths = np.asarray(lengths, np.int64)
        empty = np.empty(0, np.int32)
        return cls(lengths, np.zeros(len(lengths), np.bool_), empty, empty, empty)

    @classmethod
    def join(cls, tables: Iterable["PairTable"]) -> "PairTable":
        """The episodes of several tables one after another."""
        listed = [cls.nothing([]), *tables]
        counts = [len(table.lengths) for table in listed]
        exact = all(table.exact for table in listed)
        columns = {
            name: np.concatenate([getattr(table, name) for table in listed])
            for name in (EPISODE_COLUMNS + (EXACT_COLUMNS if exact else PAIR_COLUMNS))
        }
        columns["episode"] += np.repeat(np.cumsum(counts) - counts, list(map(len, listed))).astype(np.int32)
        return cls._sound(columns.pop("lengths"), columns.pop("annotated"), columns, exact)

    @property
    def exact(self) -> bool:
        """Whether no step is known only to lie in an interval."""
        return self.p_last is self.p and self.q_last is self.q

    def __len__(self) -> int:
        """Number of pairs K."""
        return len(self.p)

    def __repr__(self) -> str:
        annotated = f"{self.annotated.sum()} of {counted(len(self.lengths), 'episode')} annotated"
        return f"PairTable({counted(len(self), 'pair')}, {annotated})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairTable):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[MemoryPair]:
        """The pairs of a table of one episode, one by one, intervals settled."""
        return map(MemoryPair._make, np.asarray(self).tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Of one episode: int32 `[K, 3]` rows (p, q, multiplicity), intervals settled."""
        if len(self.lengths) != 1:
            raise TypeError(f"a table of {counted(len(self.lengths), 'episode')} is no [K, 3] array: see rows()")
        return self.rows()[:, 1:].astype(dtype or np.int32)

    def rows(self) -> NDArray[np.int32]:
        """`[K, 4]` rows (episode, p, q, multiplicity), intervals settled."""
        table = self.settled()
        return np.column_stack([table.episode, table.p, table.q, table.multiplicity])

    def settled(self) -> "PairTable":
        """Every p and q at the middle of its interval, for those who can use only one step."""
        if self.exact:
            return self
        return self._moved((self.p + self.p_last) // 2, (self.q + self.q_last) // 2)

    def _moved(self, p: Integers, q: Integers) -> "PairTable":
        """The same pairs at other steps, which are known."""
        return replace(self, p=p, q=q, p_last=p, q_last=q)

    def _kept(self, which: Any, lengths: Any, annotated: Any, episode: Any = None) -> "PairTable":
        """Some of the pairs (a mask, or their places) of these episodes, in order; `episode`: their rows there."""
        columns = {name: getattr(self, name)[which] for name in (EXACT_COLUMNS if self.exact else PAIR_COLUMNS)}
        if episode is not None:
            columns["episode"] = episode
        return PairTable._sound(lengths, annotated, columns, self.exact)

    def those(self, which: NDArray[np.bool_]) -> "PairTable":
        """Some of the pairs, by a mask `[K]`, of the same episodes."""
        return self._kept(which, self.lengths, self.annotated)

    def select(self, rows: ArrayLike) -> "PairTable":
        """Some episodes, which become rows 0, 1, … in the order given."""
        chosen = np.asarray(rows, np.int64).reshape(-1)
        starts, ends = (np.searchsorted(self.episode, chosen, side) for side in SIDES)
        owner = np.repeat(np.arange(len(chosen), dtype=np.int32), ends - starts)
        return self._kept(spans(starts, ends - starts), self.lengths[chosen], self.annotated[chosen], owner)

    def one(self, row: int) -> "PairTable | None":
        """The pairs of one episode; None where it is not annotated."""
        return self.select([row]) if self.annotated[row] else None

    def shift(self, dp: ArrayLike, dq: ArrayLike) -> "PairTable":
        """Every pair moved by so many steps (a number, or one for each pair), kept within 0 ≤ p < q < length."""
        limit = self.lengths[self.episode] - 1
        q, q_last = (np.clip(ends + np.asarray(dq), 1, limit) for ends in (self.q, self.q_last))
        p, p_last = np.clip(self.p + np.asarray(dp), 0, q - 1), np.clip(self.p_last + np.asarray(dp), 0, q_last - 1)
        return self._moved(p, q) if self.exact else replace(self, p=p, q=q, p_last=p_last, q_last=q_last)

    def merge(self, *others: "PairTable", rule: MergeRule = "union") -> "PairTable":
        """The pairs that several annotators of the same episodes have in common, or have together.

        Annotated is what one of them has annotated, and only those who have annotated an episode are asked about it.
        `union` keeps what one of them has, `majority` what more than half have, `all` what all have. So many must also
        agree on how often and how much a pair counts: with `union` it counts as where it counts most, with `all` as
        where it counts least. Pairs are the same where their middles are; the narrowest of their intervals is kept, of
        several the one that begins and ends first.
        """
        check_rule(rule)
        tables = (self, *others)
        if any(not np.array_equal(self.lengths, table.lengths) for table in others):
            raise UserError("pairs of different episodes cannot be merged: their lengths differ")
        asked = np.sum([table.annotated for table in tables], axis=0)
        wanted = {"union": np.ones_like(asked), "majority": asked // 2 + 1, "all": asked}[rule]
        columns = _together([table.settled() for table in tables])
        order, starts, votes = _same_steps(columns, columns["multiplicity"])
        row = columns["episode"][order][starts]
        kept = votes >= wanted[row]
        # Of n votes in rising order, the one that so many reach.
        place = (starts + votes - wanted[row])[kept]
        heaviest, _, _ = _same_steps(columns, columns["weight"])
        counts = {"multiplicity": columns["multiplicity"][order][place], "weight": columns["weight"][heaviest][place]}
        if not all(table.exact for table in tables):
            columns = _together(tables)
            middles = {**columns, **{end: (columns[end] + columns[f"{end}_last"]) // 2 for end in ("p", "q")}}
            width = columns["p_last"] - columns["p"] + columns["q_last"] - columns["q"]
            order, starts, _ = _same_steps(middles, columns["p_last"], columns["q"], columns["p"], width)
        steps = {name: columns[name][order][starts][kept] for name in ("episode", "p", "q", "p_last", "q_last")}
        return PairTable(self.lengths, asked > 0, **steps, **counts)

    def perturb(self, noise_p: float, noise_q: float, rng: np.random.Generator) -> "PairTable":
        """Move p and q by normal noise with these standard deviations, in steps, and keep them in the episode.

        Both moves are always drawn, so that `noise_p` alone gives the same p as together with `noise_q`.
        """
        if noise_p == 0 and noise_q == 0:
            return self
        move_p, move_q = rng.standard_normal((2, len(self)))
        dp = np.rint(self.p + noise_p * move_p).astype(np.int64) - self.p
        return self.shift(dp, np.rint(self.q + noise_q * move_q).astype(np.int64) - self.q)

    def keep_annotations(self, fraction: float, rng: np.random.Generator) -> "PairTable":
        """Keep the annotations of `fraction` of all episodes (rounded, at least one where the fraction is above 0).

        Where fewer are annotated to begin with, all of those are kept.
        """
        if fraction >= 1:
            return self
        wanted = max(round(fraction * len(self.lengths)), int(fraction > 0))
        kept = np.zeros(len(self.lengths), np.bool_)
        kept[rng.permutation(np.flatnonzero(self.annotated))[:wanted]] = True
        return self._kept(kept[self.episode], self.lengths, kept)

    def random(self, rng: np.random.Generator) -> "PairTable":
        """Replace every pair by one drawn uniformly among all p < q of its episode: as many, meaning nothing."""
        length = self.lengths[self.episode]
        # All pairs p < q in one line, q after q: number q(q−1)/2 + p. The float root is mended by the two comparisons.
        number = rng.integers(0, length * (length - 1) // 2)
        q = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
        q -= q * (q - 1) // 2 > number
        q += q * (q + 1) // 2 <= number
        return self._moved(number - q * (q - 1) // 2, q)

    def shuffled(self, rng: np.random.Generator) -> "PairTable":
        """Give every annotated episode the pairs of another one; pairs outside the shorter episode are left out."""
        annotated = np.flatnonzero(self.annotated)
        if len(annotated) < 2:
            raise UserError(f"--pairs shuffled needs at least 2 annotated demonstrations, there are {len(annotated)}")
        order = rng.permutation(annotated)
        receiver = np.arange(len(self.lengths), dtype=np.int32)
        receiver[order] = np.roll(order, 1)  # one cycle through all of them: nobody keeps their own
        inside = self.q_last < self.lengths[receiver[self.episode]]
        columns = {name: getattr(self, name)[inside] for name in PAIR_COLUMNS}
        return replace(self, **{**columns, "episode": receiver[columns["episode"]]})


EPISODE_COLUMNS = ("lengths", "annotated")
EXACT_COLUMNS = ("episode", "p", "q", "multiplicity", "weight")
PAIR_COLUMNS = (*EXACT_COLUMNS, "p_last", "q_last")
"""The columns that have an entry for each pair: all, and those that say everything where no step is uncertain."""

KINDS: dict[str, Any] = {"lengths": np.int64, "annotated": np.bool_, "weight": np.float32}
"""The types of columns that are not int32."""

ONCE, FULLY = frozen(1, np.int32), frozen(1, np.float32)
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


def _grouped(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Columns of pairs in order, each pair once: multiplicities of equal ones are added, the largest weight stays."""
    names = ("episode", "q", "p", "q_last", "p_last")
    order = np.lexsort([columns[name] for name in reversed(names)])
    keys = [columns[name][order] for name in names]
    starts = _changes(keys)
    if not len(starts):
        return columns
    multiplicity = np.add.reduceat(columns["multiplicity"][order].astype(np.int64), starts)
    if multiplicity.max() > LARGEST:
        row = int(np.argmax(multiplicity))
        episode, q, p = (int(key[starts[row]]) for key in keys[:3])
        problem = f"pair ({p}, {q}): the multiplicities add up to more than {LARGEST}"
        raise PairError(problem, episode)
    counts = {
        "multiplicity": multiplicity.astype(np.int32),
        "weight": np.maximum.reduceat(columns["weight"][order], starts),
    }
    return {**{name: key[starts] for name, key in zip(names, keys, strict=True)}, **counts}


def check_rule(rule: str) -> None:
    """Refuse a rule of merging that there is not."""
    if rule not in get_args(MergeRule):
        raise UserError(f"there is no rule {rule!r}: merge by {', '.join(get_args(MergeRule))}")


def _together(tables: Sequence[PairTable]) -> dict[str, NDArray[Any]]:
    """The columns of all pairs of several tables of the same episodes."""
    return {name: np.concatenate([getattr(table, name) for table in tables]) for name in PAIR_COLUMNS}


def _same_steps(columns: dict[str, NDArray[Any]], *within: NDArray[Any]) -> tuple[Integers, Integers, Integers]:
    """Pairs in order of (episode, q, p), those of the same steps in order of `within`, its last counting first: their
    places, where in that order other steps begin, and how many pairs have those."""
    keys = [columns[name] for name in ("p", "q", "episode")]
    order = np.lexsort([*within, *keys])
    starts = _changes([key[order] for key in keys])
    return order, starts, np.diff(starts, append=len(order))


def _changes(keys: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The places at which one of several columns of one length is another than before, the first one too."""
    changed = np.ones(len(keys[0]), np.bool_)
    changed[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(changed)


def spans(starts: Integers, lengths: Integers) -> NDArray[np.int64]:
    """The numbers start, start + 1, …, start + length - 1 of each span, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))
