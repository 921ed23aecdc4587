"""Memory dependency pairs: (p, q) says that the observation at step p was recalled for the decision at step q."""

from collections.abc import Iterable, Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attentiontuner.errors import UserError
from attentiontuner.wording import counted

PairArray: TypeAlias = NDArray[np.int32]
"""`[K, 3]` rows (p, q, multiplicity), p < q, in order of (q, p), each (p, q) once. Always read-only."""

LARGEST = 2**31 - 1
"""The largest multiplicity that is stored."""

FORMS = "(p, q) or (p, q, multiplicity)"


class MemoryPair(NamedTuple):
    """One pair in timesteps. `multiplicity` counts how often o_p matters at q (two equal objects in one room: 2)."""

    p: int
    q: int
    multiplicity: int = 1


def name_of(episode: object) -> str:
    """What messages call an episode of this number."""
    return "an episode without a number (give episode=)" if episode is None else f"episode {episode}"


def as_pairs(pairs: Iterable[Sequence[int]] | NDArray[Any], length: int, episode: object = None) -> PairArray:
    """Validate and normalise pairs of an episode of `length` steps.

    `pairs` holds (p, q) or (p, q, multiplicity); a pair given several times has its multiplicities added.
    Errors name the episode, the pair and the limit it breaks.
    """
    rows = pairs if isinstance(pairs, np.ndarray) and pairs.ndim == 2 else _rows(pairs, episode)
    if rows.size == 0:
        return _frozen(np.empty((0, 3), np.int32))
    if rows.shape[1] == 2:
        rows = np.column_stack([rows, np.ones(len(rows), rows.dtype)])
    whole = rows.dtype.kind in "iuf" and np.array_equal(rows, rows.astype(np.int64))
    if rows.ndim != 2 or rows.shape[1] != 3 or not whole:
        raise UserError(f"{name_of(episode)}, pairs: rows must be whole numbers {FORMS}")
    rows = rows.astype(np.int64)
    _check(rows[:, 0] >= 0, rows, episode, "p is negative")
    _check(rows[:, 0] < rows[:, 1], rows, episode, "p must be before q")
    _check(rows[:, 1] < length, rows, episode, f"q is outside the episode of {counted(length, 'step')}")
    _check(rows[:, 2] >= 1, rows, episode, "the multiplicity is below 1")
    _check(rows[:, 2] <= LARGEST, rows, episode, f"the multiplicity is above {LARGEST}")
    key = rows[:, 1] * length + rows[:, 0]
    if np.all(key[1:] > key[:-1]):
        return _frozen(rows.astype(np.int32))
    unique, inverse = np.unique(key, return_inverse=True)
    multiplicity = np.bincount(inverse, weights=rows[:, 2]).astype(np.int64)
    rows = np.column_stack([unique % length, unique // length, multiplicity])
    _check(rows[:, 2] <= LARGEST, rows, episode, f"the multiplicities add up to more than {LARGEST}")
    return _frozen(rows.astype(np.int32))


def _rows(pairs: Iterable[Sequence[int]], episode: object) -> NDArray[Any]:
    """`[K, 3]` of whatever the pairs hold; one that has not two or three entries is refused."""
    if not isinstance(pairs, Iterable) or (isinstance(pairs, np.ndarray) and pairs.ndim != 1):
        given = f"an array of shape {pairs.shape}" if isinstance(pairs, np.ndarray) else repr(pairs)
        raise UserError(f"{name_of(episode)}, pairs: {given} is not a list of pairs, such as [(0, 3)]")
    listed = list(pairs)
    for pair in listed:
        if not isinstance(pair, Sized) or len(pair) not in (2, 3):
            raise UserError(f"{name_of(episode)}, pairs: {pair} is not {FORMS}: give a list of pairs, such as [(0, 3)]")
    try:
        return np.array([(*pair, 1)[:3] for pair in listed] or np.empty((0, 3)))
    except ValueError:
        raise UserError(f"{name_of(episode)}, pairs: rows must be whole numbers {FORMS}") from None


def _check(good: NDArray[np.bool_], rows: NDArray[np.int64], episode: object, problem: str) -> None:
    if not good.all():
        p, q, _ = rows[int(np.argmin(good))]
        raise UserError(f"{name_of(episode)}, pair ({p}, {q}): {problem}")


def _frozen(rows: PairArray) -> PairArray:
    rows.setflags(write=False)
    return rows
