from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.demos import Demonstration, MemoryPair, PairTable
from tests.demos.examples import demonstration, pair_rows


def make(**changes):
    fields = {
        "observations": np.zeros((3, 2), np.float32),
        "actions": np.array([0, 1, 2]),
        "rewards": np.zeros(3),
        "terminated": True,
        "truncated": False,
        "seed": 1,
        "success": True,
        "episode": 7,
    }
    return Demonstration(**{**fields, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": np.zeros((4, 2))}, "episode 7, observations: 4 entries, but actions has 3"),
        ({"rewards": np.zeros(2)}, "episode 7, rewards: 2 entries, but actions has 3"),
        ({"actions": np.array([0, -1, 2])}, "episode 7, actions: expected whole numbers from 0"),
        ({"actions": np.array([0.0, 1.0, 2.0])}, "episode 7, actions: expected whole numbers"),
        ({"actions": np.array([], int)}, "episode 7, actions: an episode needs at least one step"),
        (
            {"observations": [np.zeros(3), np.zeros(2), np.zeros(3)]},
            r"episode 7, observations: they differ in shape, \(3,\) and \(2,\) from step 1 on",
        ),
        ({"rewards": np.array([0, np.nan, 0])}, "episode 7, rewards: a reward is not a finite number"),
        ({"pairs": [(2, 2)]}, r"episode 7, pair \(2, 2\): p must be before q"),
        ({"pairs": [(0, 3)]}, r"episode 7, pair \(0, 3\): q is outside the episode of 3 steps"),
        ({"pairs": [(-1, 2)]}, r"episode 7, pair \(-1, 2\): p is negative"),
        ({"pairs": [(0, 1, 0)]}, "the multiplicity is below 1"),
        ({"pairs": [(0, 1, 2**31)]}, "the multiplicity is above 2147483647"),
        ({"pairs": [(0, 1, 2**31 - 1), (0, 1)]}, "the multiplicities add up to more than 2147483647"),
        ({"rewards": np.zeros((3, 1))}, r"episode 7, rewards: expected one number a step, shape \[T\], not \(3, 1\)"),
        ({"seed": None}, "episode 7, seed: None is not a whole number"),
        ({"pairs": [(0.5, 1)]}, "whole numbers"),
        ({"pairs": [0, 2]}, r"episode 7, pairs: 0 is not \(p, q\) or \(p, q, multiplicity\): give .* \[\(0, 3\)\]"),
        ({"pairs": np.array([0, 2])}, r"episode 7, pairs: 0 is not \(p, q\)"),
        ({"pairs": [(0, 2, 1, 1)]}, r"episode 7, pairs: \(0, 2, 1, 1\) is not \(p, q\)"),
        ({"pairs": [(0, 1), (2,)]}, r"episode 7, pairs: \(2,\) is not \(p, q\)"),
        ({"pairs": [(0, (1, 2))]}, r"episode 7, pairs: rows must be whole numbers"),
        ({"pairs": ["ab"]}, "episode 7, pairs: rows must be whole numbers"),
        ({"pairs": 3}, r"episode 7, pairs: 3 is not a list of pairs"),
        (
            {"pairs": np.zeros((1, 3, 3), int)},
            r"episode 7, pairs: an array of shape \(1, 3, 3\) is not a list of pairs",
        ),
        ({"pairs": [[[0, 1]] * 3]}, "episode 7, pairs: rows must be whole numbers"),
    ],
)
def test_errors_name_the_episode_the_field_and_the_values(change, message):
    with pytest.raises(UserError, match=message):
        make(**change)


def test_arrays_are_read_only_and_the_callers_are_not():
    actions = np.array([0, 1, 2])
    made = make(actions=actions, pairs=[(0, 1)])
    for array in (made.observations, made.actions, made.rewards, made.pairs.p, made.pairs.lengths):
        with pytest.raises(ValueError):
            array[0] = 1
    actions[0] = 1


def test_what_the_caller_changes_later_does_not_change_the_demonstration():
    given = {
        "observations": np.zeros((3, 2), np.float32),
        "actions": np.array([0, 1, 2]),
        "rewards": np.zeros(3, np.float32),
        "pairs": np.array([(0, 2, 1)], np.int32),
    }
    views = {name: array[:] for name, array in given.items()}
    for array in views.values():
        array.setflags(write=False)  # a read-only view of an array that somebody can still write to
    for made in (make(**given), make(**views), make(observations={"a": given["observations"]})):
        for array in given.values():
            array += 1
        seen = made.observations["a"] if isinstance(made.observations, dict) else made.observations
        assert not seen.any()
        assert made.actions.tolist() == [0, 1, 2]
        assert not made.rewards.any()
        assert made.pairs is None or list(made.pairs) == [(0, 2, 1)]
        for array in given.values():
            array -= 1


def test_what_nobody_can_change_is_not_copied():
    observations, actions = np.zeros((3, 2), np.float32), np.array([0, 1, 2])
    observations.setflags(write=False)
    made = make(observations=observations, actions=actions)
    assert np.shares_memory(made.observations, observations)
    assert replace(made, seed=2).actions is made.actions


def test_an_episode_without_a_number_is_not_called_0():
    with pytest.raises(UserError, match=r"^an episode without a number \(give episode=\), pair \(2, 1\): p must be"):
        make(episode=None, pairs=[(2, 1)])
    assert repr(Demonstration(np.zeros((2, 1)), [0, 1])).startswith("Demonstration(seed 0, observations 2×1")


def test_none_and_empty_stay_different():
    assert make().pairs is None
    assert np.asarray(make(pairs=[]).pairs).shape == (0, 3)
    assert make(pairs=PairTable.nothing([3])).pairs is None
    assert make(pairs=[]).with_pairs(None).pairs is None
    assert "not annotated" in repr(make())
    assert "0 pairs" in repr(make(pairs=[]))
    assert list(make().memory_pairs()) == []
    assert list(make(pairs=[(0, 2), (0, 1, 2)]).memory_pairs()) == [MemoryPair(0, 1, 2), MemoryPair(0, 2)]


def test_only_observations_and_actions_are_needed():
    made = Demonstration([np.zeros(2, np.float32)] * 3, [0, 1, 2], pairs=[(0, 2)])
    assert made.observations.shape == (3, 2)
    assert (made.rewards.tolist(), made.rewards.dtype) == ([0, 0, 0], np.float32)
    assert (made.terminated, made.truncated, made.seed, made.success) == (True, False, 0, True)


def test_examples_are_what_they_seem():
    assert len(demonstration(3)) == len(demonstration(3).actions)


@settings(deadline=None)
@given(st.lists(pair_rows(steps=10)))
def test_pairs_are_ordered_and_multiplicities_add_up(rows):
    pairs = PairTable.of(rows, 10)
    expected: dict[tuple[int, int], int] = {}
    for p, q, multiplicity in rows:
        expected[q, p] = expected.get((q, p), 0) + multiplicity
    assert np.asarray(pairs).tolist() == [[p, q, expected[q, p]] for q, p in sorted(expected)]
    assert np.asarray(pairs).dtype == np.int32
    assert PairTable.of(pairs, 10) is pairs
    assert PairTable.of(np.asarray(pairs), 10) == pairs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.zeros((3, 2))}, ""),
        ({"actions": np.ones((3, 2), np.int32)}, ""),
        ({"actions": np.array([[0, 1], [0, np.nan], [np.inf, 0]])}, "episode 7, actions, step 1: a number that is not"),
        ({"actions": np.array([[0, 1], [0, 1], [-np.inf, 0]])}, "episode 7, actions, step 2: a number that is not"),
        ({"actions": np.array([True, False, True])}, "episode 7, actions: expected whole numbers from 0"),
        ({"observations": {"a": np.zeros((3, 1)), "b": np.zeros((2, 1))}}, "observations, part 'b': 2 entries"),
        (
            {"observations": {"a": [np.zeros(3), np.zeros(2), np.zeros(1)]}},
            r"part 'a': .* \(3,\) and \(2,\) from step 1 on",
        ),
    ],
)
def test_actions_and_observations_of_other_kinds(change, message):
    if message:
        with pytest.raises(UserError, match=message):
            make(**change)
    else:
        assert make(**change).actions.dtype == (np.float32 if change["actions"].dtype.kind == "f" else np.int64)


def test_numbers_within_bounds_may_be_whole_and_negative():
    assert make(actions=np.array([[1], [-1], [0]])).actions.tolist() == [[1.0], [-1.0], [0.0]]


def test_a_demonstration_of_several_parts_shows_them():
    made = make(observations={"camera": np.zeros((3, 4, 4, 3), np.uint8), "arm": np.zeros((3, 7))})
    assert "'camera' 3×4×4×3, 'arm' 3×7" in repr(made)
