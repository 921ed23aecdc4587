"""One specification of actions for environments, stores and networks."""

import gymnasium as gym
import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.spaces import ActionSpec, SpaceError

TURNS = ActionSpec.discrete(("left", "right", "forward"))
TWO = ActionSpec.multi_discrete((3, 2))
ARM = ActionSpec.box([-1.0, 0.0], [1.0, np.inf])


@pytest.mark.parametrize("spec", [TURNS, ActionSpec.discrete(4), TWO, ARM], ids=str)
def test_actions_are_drawn_kept_and_read_back(spec):
    generator = np.random.default_rng(5)
    drawn = np.stack([spec.draw(generator) for _ in range(50)])
    encoded = spec.encode(drawn)
    assert (encoded.dtype, encoded.shape) == (spec.dtype, (50, *spec.shape))
    again = ActionSpec.from_json(spec.to_json())
    assert (again, again.names) == (spec, spec.names)
    assert np.array_equal(spec.one(drawn[0]), drawn[0])


def test_the_bounds_of_a_box_are_those_of_its_space():
    assert ActionSpec.from_space(gym.spaces.Box(-0.1, 0.1, (2,))) == ActionSpec.box([-0.1, -0.1], [0.1, 0.1])
    assert ActionSpec.box(-0.1, 0.1).range() == "numbers from [-0.1] to [0.1]"


def test_numbers_are_alike_within_a_tenth_of_their_range():
    velocity = ActionSpec.box([-1.0, -1.0], [1.0, 1.0])
    assert velocity.alike(np.float32([-0.97, 0.07]), np.float32([-1.0, 0.18]))
    assert not velocity.alike(np.float32([-0.97, 0.07]), np.float32([-0.97, 0.35]))
    assert not ActionSpec.box([0.0], [0.1]).alike([0.05], [0.07])
    free = ActionSpec.box([-np.inf, 0.0], [np.inf, np.inf])
    assert free.alike([20.0, 0.0], [21.0, 0.05])
    assert not free.alike([20.0, 0.0], [21.0, 0.5])


def test_choices_are_alike_where_they_are_the_same():
    assert ActionSpec.of(100).alike(3, np.int64(3))
    assert not ActionSpec.of(100).alike(3, 4)
    assert ActionSpec.multi_discrete((9, 9)).alike([8, 1], np.array([8, 1]))
    assert not ActionSpec.multi_discrete((9, 9)).alike([8, 1], [8, 2])


def test_names_do_not_tell_specifications_apart():
    assert TURNS.unnamed() == TURNS
    assert (TURNS.to_json(), TURNS.unnamed().to_json()) == (["left", "right", "forward"], 3)
    assert (TURNS.name(1), TURNS.unnamed().name(1), TWO.name([2, 0])) == ("right", "1", "2, 0")
    assert ARM.name([0.123, 4]) == "0.12, 4.00"


@pytest.mark.parametrize(
    ("spec", "actions", "row", "message"),
    [
        (TURNS, [0, 3], 1, "action 3, but there are only 3 actions"),
        (TURNS, [0, -1], 1, "action -1"),
        (TURNS, [0.0, 1.0], 0, "whole numbers from 0"),
        (TURNS, [[0], [1]], 0, r"shape \(1,\), not \(\)"),
        (TWO, [[2, 1], [0, 2]], 1, r"action \[0, 2\], but there are only choices 3×2"),
        (ARM, [[0, 1], [0, np.nan]], 1, "numbers from"),
        (ARM, [[0, 1], [1.1, 0]], 1, "numbers from"),
        (ARM, ["up"], 0, "expected numbers"),
    ],
)
def test_an_action_that_there_is_not_is_refused_with_its_row(spec, actions, row, message):
    with pytest.raises(SpaceError, match=message) as refused:
        spec.encode(actions)
    assert refused.value.row == row


def test_rounding_does_not_put_an_action_outside_its_box():
    edge = ActionSpec.box([-0.1], [0.1])
    assert edge.encode(np.array([[0.1]], np.float32)).shape == (1, 1)


@pytest.mark.parametrize(
    "space", [gym.spaces.Discrete(4), gym.spaces.MultiDiscrete([3, 2]), gym.spaces.Box(-1, 1, (2, 2))], ids=str
)
def test_gymnasium_spaces(space):
    spec = ActionSpec.from_space(space)
    action = spec.one(space.sample())
    assert space.contains(action)
    assert space.contains(spec.one(spec.draw(np.random.default_rng(0))))


def test_other_spaces_are_refused():
    for space in (gym.spaces.Discrete(3, start=1), gym.spaces.MultiDiscrete(np.full((5, 5), 2))):
        with pytest.raises(UserError, match="cannot be learned") as refused:
            ActionSpec.from_space(space)
        assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="2 names for 3 actions"):
        ActionSpec("discrete", (3,), names=("a", "b"))
