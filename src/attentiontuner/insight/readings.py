"""A label is a reading of a latent pair: somebody marked a step that is a little off, or an interval.

Here is what can be said of readings before any network has learned from them: how likely one is if the pair is truly
somewhere, how late and how far off an annotator is, and how much a step recalls, from its need. Legend: K labels, S
steps of all episodes end to end, W steps of a window around each label.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.demos.pairs import PairTable

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

EXACT = 0.25
"""The spread, in steps, of readings that are right."""

SPREADS = (EXACT, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Spreads that are told apart, in steps."""

LATEST = 8
"""Steps that an annotator may be late or early by."""

WORTH_MOVING = 0.2
"""Nats a label must be likelier on average for its annotator to be called late: chance finds less in a few labels."""

WORTH_IN_ALL = 5.0
"""The same of all labels together: three labels hardly tell anything."""

PATIENCE = 0.05
"""Nats a label must be likelier for each step that its annotator is later: of two that explain it take the smaller."""

AS_GOOD = 3.0
"""Nats in all that labels may be less likely with a spread that is as good: of a few labels that are far off deciding
steps four steps apart nobody can tell how far."""

STRETCH = 3
"""Deciding steps side by side that recall one step: so many or more are one movement, decided at the first of them."""

FARTHEST = 24
"""Steps between a reading and what it is of, at most."""

LEAST = 1e-4
"""How many things a step recalls at least, as far as anybody knows."""


def log_reading(first: Tensor, last: Tensor, lowest: Tensor, highest: Tensor, at: Tensor, spread: float) -> Tensor:
    """The log-probability that `[first, last]` `[K]` is read where the step truly is `at` `[K, W]`: the share of a
    normal distribution around it. Readings beyond the `lowest` or `highest` `[K]` possible step were put there."""
    upper = torch.special.ndtr((last[:, None] + 0.5 - at) / spread).masked_fill((last >= highest)[:, None], 1.0)
    lower = torch.special.ndtr((first[:, None] - 0.5 - at) / spread).masked_fill((first <= lowest)[:, None], 0.0)
    log: Tensor = (upper - lower).clamp(min=1e-12).log()
    return log


@dataclass(frozen=True)
class Readings:
    """The labels of one annotator, without the lateness found in them.

    Attributes:
        labels: the labels, `late` steps earlier than they were.
        late: steps that the annotator marks too late; below 0: too early.
        spread: standard deviation of the deciding steps, in steps, the least that is as likely as any; `EXACT` where
            they are right.
    """

    labels: PairTable
    late: int
    spread: float


def squashed(entropy: NDArray[np.float32]) -> Floats:
    """Need `[S]` from 0 to 1: (h / (h + mean h))², of entropy above what is usual, 0 or more. A step of much need
    counts hardly more than one of some: how much is recalled is for the labels to say."""
    h = entropy.astype(np.float64)
    return np.asarray((h / (h + max(h.mean(), 1e-9))) ** 2)


def read_labels(labels: PairTable, need: Floats) -> Readings:
    """How late and how far off labels are, by where need is: they are of steps that need a memory. `need` `[S]` is
    from 0 to 1. Labels at the first or last step that can decide may have been put there, so that some lateness would
    explain them whatever was meant: nobody is late unless the others say so by themselves."""
    if not len(labels):
        return Readings(labels, 0, EXACT)
    telling = _where_decided(labels)
    found = {(late, spread): _fit(telling, need, late, spread) for late in _lateness() for spread in SPREADS}
    late, its = max(found, key=lambda each: found[each] - PATIENCE * abs(each[0]))
    if found[late, its] > max(found[0, spread] for spread in SPREADS) + WORTH_MOVING and _late(telling, need, late):
        labels = _on_time(labels, need, late)
    else:
        late = 0
    least = max(found[late, spread] for spread in SPREADS) - AS_GOOD / len(telling)
    return Readings(labels, late, next(spread for spread in SPREADS if found[late, spread] >= least))


def _where_decided(labels: PairTable) -> PairTable:
    """Labels without those that go on with the one before. Who marks every step of a movement marks many at which the
    present tells what to do by then: need is at the first of them, so that all of them together would look late."""
    order = np.lexsort((labels.q, labels.p, labels.episode))
    episode, p, q = (column[order] for column in (labels.episode, labels.p, labels.q))
    begins = np.append(True, (np.diff(episode) != 0) | (np.diff(p) != 0) | (np.diff(q) != 1))
    stretch = np.cumsum(begins) - 1
    telling = np.empty(len(labels), np.bool_)
    telling[order] = begins | (np.bincount(stretch)[stretch] < STRETCH)
    return labels.those(telling)


def _late(labels: PairTable, need: Floats, late: int) -> bool:
    """Whether labels inside their episodes are likelier to be so late than in time."""
    inside = _inside(labels)
    if not inside.any():
        return False
    moved, unmoved = (max(_fit(labels, need, by, spread, inside) for spread in SPREADS) for by in (late, 0))
    return moved - unmoved > max(WORTH_MOVING, WORTH_IN_ALL / float(inside.sum()))


def _inside(labels: PairTable) -> NDArray[np.bool_]:
    """Which labels are not at the first or last step of their episode that can decide."""
    end = labels.lengths[labels.episode] - 1
    return np.asarray((labels.q > 1) & (labels.q_last < end))


def _on_time(labels: PairTable, need: Floats, late: int) -> PairTable:
    """Labels without their lateness. One at the end of its episode (at the beginning, of somebody who is early) may be
    of any of the last steps that are too few to be late in: it is of the one whose need is largest."""
    end = labels.lengths[labels.episode].astype(np.int64) - 1
    limit = np.where(late > 0, end, 1)
    starts = (np.cumsum(labels.lengths) - labels.lengths)[labels.episode]
    at = limit[:, None] - np.sign(late) * np.arange(abs(late), -1, -1)  # of equals the farthest from the limit
    at = np.clip(at, 1, end[:, None])
    likeliest = at[np.arange(len(at)), need[starts[:, None] + at].argmax(1)]
    cut_off = (labels.q_last >= limit) if late > 0 else (labels.q <= limit)
    return labels.shift(-late, np.where(cut_off, likeliest - labels.q, -late))


def _lateness() -> range:
    return range(-LATEST, LATEST + 1)


def _fit(labels: PairTable, need: Floats, late: int, spread: float, inside: NDArray[np.bool_] | None = None) -> float:
    """The mean log-likelihood of the labels' deciding steps, if these are drawn from the steps by their need; of those
    `inside` their episodes alone, given that these are looked at and no others."""
    likely, steps = _deciding(labels, late, spread)
    lengths = labels.lengths.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    some = need + 1e-3
    seen = some
    if inside is not None:
        read = np.arange(len(need)) - np.repeat(starts, lengths) + late  # where each step is read on average
        lower, upper = (torch.from_numpy((end - read) / spread) for end in (1.5, np.repeat(lengths, lengths) - 1.5))
        seen = some * (torch.special.ndtr(upper) - torch.special.ndtr(lower)).clamp(min=0).numpy()
    in_all = np.add.reduceat(seen, starts)[labels.episode]
    logs = np.log((likely * some[steps]).sum(1) / (in_all + 1e-12) + 1e-12)
    return float((logs if inside is None else logs[inside]).mean())


def _deciding(labels: PairTable, late: int, spread: float) -> tuple[Floats, Integers]:
    """For each label and each step near it the probability of reading its q if that was the deciding step, and that
    step's number among all: `[K, W]` each."""
    reach = min(FARTHEST, int(np.ceil(3 * spread)) + int((labels.q_last - labels.q).max(initial=0)))
    middle = (labels.q + labels.q_last) // 2 - late
    at = middle[:, None].astype(np.int64) + np.arange(-reach, reach + 1)
    end = labels.lengths[labels.episode] - 1
    q, q_last, lowest, highest = (
        torch.from_numpy(np.asarray(each, np.float64)) for each in (labels.q, labels.q_last, np.ones_like(end), end)
    )
    likely = log_reading(q, q_last, lowest, highest, torch.from_numpy(at + late), spread).exp().numpy()
    starts = np.cumsum(labels.lengths) - labels.lengths
    inside = (at >= 1) & (at <= end[:, None])
    return np.where(inside, likely, 0), np.clip(at, 0, end[:, None]) + starts[labels.episode][:, None]


def recalled_by_need(readings: Readings, need: Floats) -> Floats:
    """How many things each step recalls `[S]`, as a function of its need that rises: labels are dealt out to the steps
    near them, by how likely each is and how much it recalls; then the means of what was dealt are made to rise."""
    labels = readings.labels
    if not len(labels):
        return np.maximum(need, LEAST)
    annotated = np.repeat(labels.annotated, labels.lengths)
    likely, steps = _deciding(labels, 0, readings.spread)
    rate: Floats = need * labels.multiplicity.sum() / max(need[annotated].sum(), 1e-9)
    for _ in range(2):
        dealt = likely * rate[steps]
        dealt *= (labels.multiplicity / (dealt.sum(1) + 1e-12))[:, None]
        amounts = np.bincount(steps.ravel(), dealt.ravel(), minlength=len(need)).astype(np.float64)
        rate = np.maximum(rising(need[annotated], amounts[annotated], need), LEAST)
    return rate


def rising(x: Floats, y: Floats, at: Floats) -> Floats:
    """The rising function of x that is closest to y (isotonic regression), at other points."""
    levels, owner, counts = np.unique(np.round(x, 4), return_inverse=True, return_counts=True)
    blocks: list[tuple[float, int, float]] = []  # sum, number, first x
    for total, number, first in zip(np.bincount(owner, y), counts, levels, strict=True):
        block = (float(total), int(number), float(first))
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2])
        blocks.append(block)
    means = np.array([total / number for total, number, _ in blocks])
    place = np.searchsorted([first for _, _, first in blocks], np.round(at, 4), side="right") - 1
    return np.asarray(means[np.clip(place, 0, None)])
