"""Labels as readings: how likely one is, how late and how far off, and how much a step recalls by its need."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.demos.pairs import PairTable
from attentiontuner.insight.readings import (
    EXACT,
    SPREADS,
    Readings,
    log_reading,
    read_labels,
    recalled_by_need,
    rising,
    squashed,
)

EPISODES, LENGTH = 60, 40


def some_labels(seed: int = 0) -> tuple[PairTable, np.ndarray]:
    """Pairs of a few steps far apart that need a memory, and the need of all steps."""
    rng = np.random.default_rng(seed)
    need = np.full((EPISODES, LENGTH), 0.02)
    rows = []
    for episode in range(EPISODES):
        for q in rng.choice(np.arange(5, LENGTH - 5), 3, replace=False):
            need[episode, q] = 0.8
            rows.append((episode, 1, q))
    episode, p, q = np.array(rows).T
    table = PairTable(np.full(EPISODES, LENGTH), np.ones(EPISODES, bool), episode, p, q)
    return table, need.ravel()


def test_a_reading_is_likelier_near_and_readings_put_at_an_end_may_be_of_any_step_beyond():
    first = last = torch.tensor([5.0])
    at = torch.arange(0.0, 11.0)[None]
    nothing, everything = torch.tensor([0.0]), torch.tensor([10.0])
    near = log_reading(first, last, nothing, everything, at, 2.0).exp()[0]
    assert near.argmax() == 5
    assert float(near[4]) == pytest.approx(float(near[6]), abs=1e-6)
    assert float(near.sum()) == pytest.approx(1, abs=0.02)
    at_the_end = log_reading(nothing, nothing, nothing, everything, at, 2.0).exp()[0]
    assert float(at_the_end[0]) == pytest.approx(0.6, abs=0.01)  # all that falls below is read as 0
    exact = log_reading(first, last, nothing, everything, at, EXACT).exp()[0]
    assert exact[5] > 0.95
    assert exact[4] < 0.05


def test_an_interval_says_nothing_of_where_in_it():
    inside = log_reading(*(torch.tensor([step]) for step in (3.0, 6.0, 0.0, 20.0)), torch.arange(3.0, 7.0)[None], EXACT)
    assert inside.exp().min() > 0.95


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_how_far_off_labels_are_is_told_by_need(sigma):
    labels, need = some_labels()
    assert read_labels(labels, need).spread == EXACT
    off = read_labels(labels.perturb(sigma, sigma, np.random.default_rng(0)), need)
    assert SPREADS.index(off.spread) == pytest.approx(SPREADS.index(sigma), abs=1)
    assert off.late == 0


@pytest.mark.parametrize("late", [3, -2])
def test_an_annotator_who_is_always_late_is_found_out(late):
    labels, need = some_labels()
    found = read_labels(labels.shift(0, late), need)
    assert found.late == late
    assert np.array_equal(found.labels.q, labels.q)


def movements() -> tuple[PairTable, np.ndarray]:
    """Pairs of two steps at each step of a movement, of which the first alone needs a memory; and the need."""
    begins = np.random.default_rng(0).integers(10, 25, EPISODES)
    need = np.full((EPISODES, LENGTH), 0.02)
    need[np.arange(EPISODES), begins] = 0.8
    rows = [(row, p, begin + step) for row, begin in enumerate(begins) for step in range(9) for p in (1, 2)]
    return PairTable(np.full(EPISODES, LENGTH), np.ones(EPISODES, bool), *np.array(rows).T), need.ravel()


def test_who_marks_every_step_of_a_movement_is_not_late():
    labels, need = movements()
    found = read_labels(labels, need)
    assert (found.late, found.spread) == (0, EXACT)
    assert found.labels == labels
    assert read_labels(labels.shift(0, 3), need).late == 3


def test_labels_that_meet_at_the_first_step_when_they_are_moved_back_are_one():
    labels, need = movements()
    found = read_labels(labels.shift(1, 3), need)  # of steps 2 and 3: moved back three, both are of step 0
    assert found.late == 3
    assert len(found.labels) == len(labels) // 2


@pytest.mark.parametrize("late", [3, -3])
def test_what_was_marked_at_an_end_for_want_of_steps_is_of_the_step_that_needs_it(late):
    labels, need = some_labels()
    need = need.reshape(EPISODES, LENGTH)
    q = labels.q.copy()
    ends = slice(2, None, 3) if late > 0 else slice(0, None, 3)
    need[np.arange(EPISODES), q[ends]] = 0.02
    q[ends] = LENGTH - 2 if late > 0 else 2
    need[np.arange(EPISODES), q[ends]] = 0.8
    labels = PairTable(labels.lengths, labels.annotated, labels.episode, np.zeros_like(q), q)
    found = read_labels(labels.shift(0, late), need.ravel())
    assert found.late == late
    assert np.array_equal(found.labels.q, labels.q)


def test_labels_at_steps_that_need_nothing_are_not_moved_for_a_little():
    labels, need = some_labels()
    assert read_labels(labels.shift(0, 1), np.full_like(need, 0.5)).late == 0


def test_labels_are_not_called_late_for_a_little_more_need_before_them():
    labels, need = some_labels()
    need[np.flatnonzero(need > 0.5) - 1] = 0.9
    assert read_labels(labels, need).late == 0


@pytest.mark.parametrize("flat", [True, False])
def test_labels_at_the_last_step_are_not_late(flat):
    labels, need = some_labels()
    if flat:  # nothing tells deciding steps from others
        need = np.full_like(need, 0.5)
    p, end = np.arange(len(labels)) % 3, np.full(len(labels), LENGTH - 1)
    for q in (end, np.where(np.arange(len(labels)) % 9, end, labels.q)):
        marked = PairTable(labels.lengths, labels.annotated, labels.episode, p, q)
        found = read_labels(marked, need)
        assert found.late == 0
        assert found.labels == marked


def test_what_was_put_at_the_end_tells_three_steps_late_from_one_step_early():
    need = np.full((EPISODES, LENGTH), 0.02)
    q = np.arange(7, LENGTH, 4)  # the last is the last step
    need[:, q] = 0.8
    episode, q = np.repeat(np.arange(EPISODES), len(q)), np.tile(q, EPISODES)
    table = PairTable(np.full(EPISODES, LENGTH), np.ones(EPISODES, bool), episode, np.ones_like(q), q)
    assert read_labels(table, need.ravel()).late == 0
    assert read_labels(table.shift(0, 3), need.ravel()).late == 3


def test_a_few_labels_are_not_called_late():
    labels, need = some_labels()
    assert read_labels(labels.select(range(20)).shift(0, 3), need[: 20 * LENGTH]).late == 3
    assert read_labels(labels.select([0]).shift(0, 3), need[:LENGTH]).late == 0


def test_how_much_a_step_recalls_rises_with_its_need():
    labels, need = some_labels()
    off = read_labels(labels.perturb(1, 1, np.random.default_rng(0)), need)
    rate = recalled_by_need(off, need)
    assert rate[need > 0.5].mean() == pytest.approx(1, abs=0.25)
    assert rate[need < 0.5].mean() < 0.05
    twice = replace(labels, multiplicity=2 * labels.multiplicity)
    assert recalled_by_need(Readings(twice, 0, EXACT), need)[need > 0.5].mean() == pytest.approx(2, abs=0.1)


def test_the_closest_rising_function():
    x = np.arange(6.0)
    assert rising(x, np.array([1.0, 0, 2, 5, 4, 9]), x).tolist() == [0.5, 0.5, 2, 4.5, 4.5, 9]
    assert rising(x, x, np.array([-3.0, 2.5, 99])).tolist() == [0, 2, 5]


def test_squashed_need_lies_between_0_and_1():
    entropy = np.array([0, 0.1, 2.0], np.float32)
    assert (np.diff(squashed(entropy)) > 0).all()
    assert squashed(entropy)[0] == 0
    assert squashed(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
