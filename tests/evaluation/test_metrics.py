"""Metrics against the paper's own tables and against scipy."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from attentiontuner.core.errors import UserError
from attentiontuner.evaluation.metrics import (
    Runs,
    difference_interval,
    median_iqr,
    over_seeds,
    student_interval,
    welch_test,
    welch_test_of_runs,
    wilson_interval,
)


def test_the_papers_mortar_mayhem_cell():
    cell = over_seeds([100, 1, 1, 1, 1])
    assert (round(cell.mean, 1), round(cell.half_width, 1), cell.runs) == (20.8, 42.2, 5)


# The main table and the Welch table of the paper: vanilla cell, AttentionTuner cell, p-value.
PUBLISHED = {
    "Mortar Mayhem": (Runs(20.8, 42.2, 5), Runs(99.8, 0.4, 5), 0.016),
    "Mystery Path": (Runs(97.3, 0.7, 5), Runs(98.7, 0.4, 5), 0.012),
    "Searing Spotlights": (Runs(62.2, 5.5, 5), Runs(64.2, 3.4, 5), 0.546),
    "Hallway": (Runs(53.2, 28.3, 10), Runs(99.9, 0.1, 5), 0.014),
    "Ordering": (Runs(59.4, 22.9, 15), Runs(99.9, 0.3, 5), 0.008),
    "Counting": (Runs(6, 0.7, 5), Runs(6.5, 0.4, 5), 0.261),
}


@pytest.mark.parametrize("task", PUBLISHED)
def test_the_papers_p_values_follow_from_its_cells(task):
    """The cells are rounded to one decimal, so each published p must lie in what the rounding leaves open."""
    first, second, published = PUBLISHED[task]
    possible = []
    for shift in itertools.product((-0.05, 0, 0.05), repeat=4):
        one = Runs(first.mean + shift[0], first.half_width + shift[1], first.runs)
        two = Runs(second.mean + shift[2], second.half_width + shift[3], second.runs)
        possible.append(welch_test_of_runs(one, two))
    assert min(possible) - 0.0005 <= published <= max(possible) + 0.0005
    assert max(possible) - min(possible) < 0.25  # Counting, the widest: 0.13 to 0.36


def test_welch_agrees_with_scipy_and_with_its_own_summary_form():
    generator = np.random.default_rng(3)
    one, two = generator.normal(50, 20, 10), generator.normal(65, 3, 5)
    expected = stats.ttest_ind(one, two, equal_var=False).pvalue
    assert welch_test(one, two) == pytest.approx(expected, rel=1e-10)
    assert welch_test(two, one) == pytest.approx(expected, rel=1e-10)
    assert welch_test_of_runs(over_seeds(one), over_seeds(two)) == pytest.approx(expected, rel=1e-10)


def test_welch_with_runs_that_all_agree():
    assert welch_test([100, 100, 100], [100, 100]) == 1.0
    assert welch_test([100, 100, 100], [99, 99]) == 0.0
    assert math.isnan(welch_test([100], [99, 98]))


@pytest.mark.parametrize(("successes", "episodes"), [(0, 10), (1, 10), (997, 1000), (1000, 1000), (500, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_agrees_with_scipy(successes, episodes, confidence):
    expected = stats.binomtest(successes, episodes).proportion_ci(confidence, method="wilson")
    assert wilson_interval(successes, episodes, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_ends_are_exact():
    assert wilson_interval(0, 7).low == 0.0
    assert wilson_interval(7, 7).high == 1.0


def test_student_interval_of_one_run_is_unknown():
    assert math.isnan(student_interval([99.0]))
    assert student_interval([99.0, 99.0]) == 0.0


def test_median_and_quartiles_of_curves():
    curves = np.arange(10).reshape(5, 2)
    quartiles = median_iqr(curves)
    assert quartiles.median.tolist() == [4, 5]
    assert quartiles.low.tolist() == [2, 3]
    assert quartiles.high.tolist() == [6, 7]


def test_nothing_measured_is_an_error_not_a_number():
    for call in (lambda: wilson_interval(0, 0), lambda: wilson_interval(3, 2)):
        with pytest.raises(UserError):
            call()
    for call in (lambda: student_interval([]), lambda: median_iqr([]), lambda: over_seeds([[1, 2]])):
        with pytest.raises(UserError):
            call()


@pytest.mark.parametrize(
    ("counts", "interval"),
    [
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((10, 10, 0, 10), (0.6075, 1.0)),
        ((0, 10, 0, 10), (-0.2775, 0.2775)),
    ],
)
def test_the_interval_of_a_difference_is_that_of_newcombes_examples(counts, interval):
    """R. G. Newcombe, Statistics in Medicine 17 (1998), Table II, method 10."""
    assert difference_interval(*counts) == pytest.approx(interval, abs=1e-4)
