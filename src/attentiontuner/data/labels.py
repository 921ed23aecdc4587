"""Labels for studies: fewer demonstrations or annotations, imprecise pairs, pairs that mean nothing. NumPy only.

Every function takes the labels of a whole training set and a generator, and returns new labels. A run derives each
generator from its seed with `label_generator`, so that one draw does not move another.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attentiontuner.errors import UserError
from attentiontuner.wording import counted

Draw = Literal["demos", "annotated", "noise", "random", "shuffled"]

_STREAMS: dict[Draw, int] = {
    "demos": 2**31,
    "annotated": 2**31 + 1,
    "noise": 2**31 + 2,
    "random": 2**31 + 3,
    "shuffled": 2**31 + 4,
}
"""Far above every epoch number, because the batches of epoch e are drawn from the pair (seed, e)."""


def label_generator(seed: int, draw: Draw) -> np.random.Generator:
    """The generator of one kind of draw under a run's seed."""
    return np.random.default_rng([seed, _STREAMS[draw]])


@dataclass(frozen=True)
class Labels:
    """Annotations of n episodes.

    Attributes:
        lengths: `[n]` int64, steps of each episode.
        annotated: `[n]` bool.
        pairs: `[K, 4]` int32 rows (episode row, p, q, multiplicity) in order of (row, q, p).
    """

    lengths: NDArray[np.int64]
    annotated: NDArray[np.bool_]
    pairs: NDArray[np.int32]

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    def select(self, rows: NDArray[np.int64]) -> "Labels":
        """The labels of some episodes, which become rows 0, 1, … in the given order."""
        counts = np.bincount(self.pairs[:, 0], minlength=len(self))
        ends = np.cumsum(counts)
        places = [np.arange(ends[row] - counts[row], ends[row]) for row in rows]
        pairs = self.pairs[np.concatenate(places) if places else np.empty(0, np.int64)].copy()
        pairs[:, 0] = np.repeat(np.arange(len(rows)), counts[rows])
        return Labels(self.lengths[rows], self.annotated[rows], pairs)


def choose_demonstrations(
    episodes: NDArray[np.int64], demos: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`demos` of the episode numbers, in order; None: all of them."""
    if demos is None:
        return episodes
    if demos > len(episodes):
        raise UserError(
            f"--demos {demos}: only {counted(len(episodes), 'demonstration')} can be trained on; collect more"
        )
    return np.sort(rng.choice(episodes, demos, replace=False))


def annotate_fraction(labels: Labels, fraction: float, rng: np.random.Generator) -> Labels:
    """Keep the annotations of `fraction` of all episodes (rounded, at least one where the fraction is above 0).

    Where fewer are annotated to begin with, all of those are kept.
    """
    if fraction >= 1:
        return labels
    candidates = np.flatnonzero(labels.annotated)
    wanted = max(round(fraction * len(labels)), int(fraction > 0))
    kept = np.zeros(len(labels), bool)
    kept[rng.permutation(candidates)[:wanted]] = True
    return replace(labels, annotated=kept, pairs=labels.pairs[kept[labels.pairs[:, 0]]])


def perturb_pairs(labels: Labels, noise_p: float, noise_q: float, rng: np.random.Generator) -> Labels:
    """Move p and q by normal noise with these standard deviations, in steps, then keep 0 ≤ p < q < length.

    Both moves are always drawn, so that `noise_p` alone gives the same p as together with `noise_q`. Pairs that fall
    on one another are merged and their multiplicities added.
    """
    if noise_p == 0 and noise_q == 0:
        return labels
    row, p, q, multiplicity = labels.pairs.astype(np.int64).T
    move_p, move_q = rng.standard_normal((2, len(p)))
    length = labels.lengths[row]
    q = np.clip(np.rint(q + noise_q * move_q).astype(np.int64), 1, length - 1)
    p = np.clip(np.rint(p + noise_p * move_p).astype(np.int64), 0, q - 1)
    return replace(labels, pairs=_ordered(row, p, q, multiplicity))


def random_pairs(labels: Labels, rng: np.random.Generator) -> Labels:
    """Replace every pair by one drawn uniformly among all p < q of its episode: as many, meaning nothing."""
    row, _, _, multiplicity = labels.pairs.astype(np.int64).T
    length = labels.lengths[row]
    # All pairs p < q in one line, q after q: number q(q−1)/2 + p. The float root is mended by the two comparisons.
    number = rng.integers(0, length * (length - 1) // 2)
    q = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) / 2).astype(np.int64)
    q -= q * (q - 1) // 2 > number
    q += q * (q + 1) // 2 <= number
    return replace(labels, pairs=_ordered(row, number - q * (q - 1) // 2, q, multiplicity))


def shuffle_pairs(labels: Labels, rng: np.random.Generator) -> Labels:
    """Give every annotated episode the pairs of another one; pairs outside the shorter episode are left out."""
    annotated = np.flatnonzero(labels.annotated)
    if len(annotated) < 2:
        raise UserError(f"--pairs shuffled needs at least 2 annotated demonstrations, there are {len(annotated)}")
    order = rng.permutation(annotated)
    receiver = np.arange(len(labels))
    receiver[order] = np.roll(order, 1)  # one cycle through all of them: nobody keeps their own
    row, p, q, multiplicity = labels.pairs.astype(np.int64).T
    row = receiver[row]
    inside = q < labels.lengths[row]
    return replace(labels, pairs=_ordered(row[inside], p[inside], q[inside], multiplicity[inside]))


def _ordered(
    row: NDArray[np.int64], p: NDArray[np.int64], q: NDArray[np.int64], multiplicity: NDArray[np.int64]
) -> NDArray[np.int32]:
    """`[K, 4]` rows in order of (row, q, p), each pair once, multiplicities of equal ones added."""
    if len(row) == 0:
        return np.empty((0, 4), np.int32)
    span = int(q.max()) + 1
    key = (row * span + q) * span + p
    unique, inverse = np.unique(key, return_inverse=True)
    total = np.bincount(inverse, weights=multiplicity).astype(np.int64)
    return np.column_stack([unique // span // span, unique % span, unique // span % span, total]).astype(np.int32)
