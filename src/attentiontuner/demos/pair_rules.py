"""What a pair is, and what it cannot be."""

from collections.abc import Iterable, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

Integers = NDArray[np.integer[Any]]

LARGEST = 2**31 - 1
"""The largest multiplicity that is stored."""

FORMS = "(p, q) or (p, q, multiplicity)"


class MemoryPair(NamedTuple):
    """One pair in timesteps. `multiplicity` counts how often o_p matters at q (two equal objects in one room: 2)."""

    p: int
    q: int
    multiplicity: int = 1


class PairError(UserError):
    """A pair that cannot be: what is wrong with which pair, and of which episode (its row in the table).

    `name` is what messages call the episode where its row says nothing to the reader.
    """

    def __init__(self, problem: str, episode: int, name: str = "") -> None:
        super().__init__(f"{name or name_of(episode)}, {problem}")
        self.problem, self.episode = problem, episode


def name_of(episode: object) -> str:
    """What messages call an episode of this number."""
    return "an episode without a number (give episode=)" if episode is None else f"episode {episode}"


def check_pairs(
    lengths: Integers,
    annotated: NDArray[np.bool_],
    episode: Integers,
    p: Integers,
    q: Integers,
    multiplicity: Integers,
    p_last: Integers,
    q_last: Integers,
    weight: NDArray[np.floating[Any]],
) -> None:
    """Refuse the first pair that cannot be."""
    if not len(p):
        return
    if not (episode.min() >= 0 and episode.max() < len(lengths) and annotated[episode].all()):
        raise ValueError("a pair belongs to no annotated episode of the table")
    length = lengths[episode]
    rules = [
        (p >= 0, "p is negative"),
        (p < q, "p must be before q"),
        (q_last < length, "q is outside the episode of {}"),
        (multiplicity >= 1, "the multiplicity is below 1"),
        (multiplicity <= LARGEST, f"the multiplicity is above {LARGEST}"),
    ]
    if p_last is not p or q_last is not q:
        rules.append(((p <= p_last) & (q <= q_last), "an interval ends before it begins"))
        rules.append((p_last < q_last, "p must be before q at the end of their intervals too"))
    if weight.strides != (0,):
        rules.append(((weight >= 0) & (weight < np.inf), "the weight is no number from 0"))
    for good, problem in rules:
        if not good.all():
            row = int(np.argmin(good))
            words = problem.format(counted(int(length[row]), "step"))
            raise PairError(f"pair ({p[row]}, {q[row]}): {words}", int(episode[row]))


def pair_rows(pairs: Any, episode: object) -> NDArray[np.int64]:
    """`[K, 3]` whole numbers (p, q, multiplicity) of whatever holds the pairs."""
    rows = pairs if isinstance(pairs, np.ndarray) and pairs.ndim == 2 else _listed(pairs, episode)
    if rows.size == 0:
        return np.empty((0, 3), np.int64)
    if rows.shape[1] == 2:
        rows = np.column_stack([rows, np.ones(len(rows), rows.dtype)])
    whole = rows.dtype.kind in "iuf" and np.array_equal(rows, rows.astype(np.int64))
    if rows.ndim != 2 or rows.shape[1] != 3 or not whole:
        raise UserError(f"{name_of(episode)}, pairs: rows must be whole numbers {FORMS}")
    return rows.astype(np.int64)


def _listed(pairs: Iterable[Sequence[int]], episode: object) -> NDArray[Any]:
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
