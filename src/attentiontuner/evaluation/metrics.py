"""The statistics every table uses: pure functions on plain numbers.

Rates are fractions from 0 to 1 unless the caller puts percentages in; every function here works on either.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

EPISODE_CONFIDENCE = 0.95
"""Confidence of the interval around one policy's success rate."""

SEED_CONFIDENCE = 0.90
"""Confidence of the ± over training seeds in the paper's tables."""


class Interval(NamedTuple):
    """From `low` to `high`, both included."""

    low: float
    high: float


class Quartiles(NamedTuple):
    """Median and the quartiles around it; each an array where the input had more than one axis."""

    median: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Runs(NamedTuple):
    """What a table says about several training runs: mean ± half-width, and how many runs."""

    mean: float
    half_width: float
    runs: int


def wilson_interval(successes: int, episodes: int, confidence: float = EPISODE_CONFIDENCE) -> Interval:
    """Wilson's score interval of a success rate. Unlike mean ± error it stays in [0, 1] and is honest at 0 and 1."""
    if not 0 <= successes <= episodes or episodes == 0:
        solved = counted(successes, "success", "successes")
        raise UserError(f"{solved} in {counted(episodes, 'episode')} is not a success rate")
    z = float(special.ndtri(0.5 + confidence / 2))
    rate = successes / episodes
    scale = 1 + z * z / episodes
    centre = (rate + z * z / (2 * episodes)) / scale
    spread = z * math.sqrt(rate * (1 - rate) / episodes + z * z / (4 * episodes * episodes)) / scale
    # At the ends one side is exactly the rate; rounding must not put it a hair inside.
    low = 0.0 if successes == 0 else max(0.0, centre - spread)
    high = 1.0 if successes == episodes else min(1.0, centre + spread)
    return Interval(low, high)


def difference_interval(
    first: int, episodes: int, second: int, also: int, confidence: float = EPISODE_CONFIDENCE
) -> Interval:
    """Newcombe's interval of the difference of two success rates, `first` of `episodes` less `second` of `also`: from
    Wilson's of both, so that it is as honest at 0 and 1."""
    one, other = wilson_interval(first, episodes, confidence), wilson_interval(second, also, confidence)
    rate, minus = first / episodes, second / also
    below, above = math.hypot(rate - one.low, other.high - minus), math.hypot(one.high - rate, minus - other.low)
    return Interval(rate - minus - below, rate - minus + above)


def student_interval(values: ArrayLike, confidence: float = SEED_CONFIDENCE) -> float:
    """Half-width of Student's t interval around the mean of `values`, one value per training seed.

    It is the ± of the paper's tables. One value has no spread to measure: its half-width is nan.
    """
    sample = _sample(values)
    if len(sample) < 2:
        return math.nan
    return _t_quantile(len(sample), confidence) * float(np.std(sample, ddof=1)) / math.sqrt(len(sample))


def over_seeds(values: ArrayLike, confidence: float = SEED_CONFIDENCE) -> Runs:
    """Mean, half-width of Student's interval, and number of runs: one cell of a table."""
    sample = _sample(values)
    return Runs(float(np.mean(sample)), student_interval(sample, confidence), len(sample))


def welch_test(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p-value of Welch's t-test that two groups of runs have the same mean (variances may differ)."""
    one, two = _sample(first), _sample(second)
    if min(len(one), len(two)) < 2:
        return math.nan
    errors = [float(np.var(group, ddof=1)) / len(group) for group in (one, two)]
    return _welch(float(np.mean(one) - np.mean(two)), errors[0], errors[1], len(one), len(two))


def welch_test_of_runs(first: Runs, second: Runs, confidence: float = SEED_CONFIDENCE) -> float:
    """Welch's test from published cells (mean ± half-width over n runs) where the single runs are not published."""
    if min(first.runs, second.runs) < 2:
        return math.nan
    errors = [(cell.half_width / _t_quantile(cell.runs, confidence)) ** 2 for cell in (first, second)]
    return _welch(first.mean - second.mean, errors[0], errors[1], first.runs, second.runs)


def median_iqr(values: ArrayLike, axis: int = 0) -> Quartiles:
    """Median and interquartile range along `axis` (learning curves: a runs × epochs matrix, axis 0)."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise UserError("a median needs at least one value")
    low, median, high = np.quantile(array, [0.25, 0.5, 0.75], axis=axis)
    return Quartiles(median, low, high)


def _sample(values: ArrayLike) -> NDArray[np.float64]:
    sample: NDArray[Any] = np.asarray(values, np.float64)
    if sample.ndim != 1 or len(sample) == 0:
        raise UserError(f"expected one number per run, got an array of shape {sample.shape}")
    return sample


def _t_quantile(runs: int, confidence: float) -> float:
    return float(special.stdtrit(runs - 1, 0.5 + confidence / 2))


def _welch(difference: float, error_1: float, error_2: float, runs_1: int, runs_2: int) -> float:
    """p-value from the difference of means and the squared standard errors of both."""
    error = error_1 + error_2
    if error == 0:  # every run of a group gave the same number: the means are equal, or certainly not
        return 1.0 if difference == 0 else 0.0
    freedom = error**2 / (error_1**2 / (runs_1 - 1) + error_2**2 / (runs_2 - 1))
    return float(2 * special.stdtr(freedom, -abs(difference) / math.sqrt(error)))
