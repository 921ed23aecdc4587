"""MIKASA's experts without its package: a gripper that goes where it is sent, and the rules of the games."""

import numpy as np
import pytest

from attentiontuner.envs.mikasa import BLACK, CUBES, GREEN, LIT, PRESSED, RED, TIP
from attentiontuner.experts.mikasa import MikasaBlinkCountExpert, MikasaRememberColourExpert
from attentiontuner.tasks.task import get_task

DOWN, RAISE = 0.083, 0.085
"""Metres: how low the gripper presses a button, and how far it must then be raised for that to count."""


def blank(task, tip):
    observation = np.zeros(get_task(task).observation.parts[0][1].shape[0], np.float32)
    observation[TIP] = tip
    return observation


def moved(tip, action):
    assert np.abs(action).max() <= 1
    assert action[3] == 1  # the gripper stays open
    return tip + 0.06 * action[:3]  # a controller that does not quite get there


@pytest.mark.parametrize("shown", [[2], [2, 2, 2, 2]])
def test_the_gripper_goes_to_the_cube_that_stood_alone(shown):
    expert, tip = MikasaRememberColourExpert(), np.array([0.0, 0.0, 0.3])
    places = np.array([[0.1, 0.1, 0.02], [-0.1, 0.1, 0.02], [-0.1, -0.1, 0.02]])
    for step in range(20):
        observation = blank("mikasa-remember-color", tip)
        there = shown[step : step + 1] if step < len(shown) + 3 else range(3)
        cubes = observation[CUBES].reshape(9, 4)
        for colour in there:
            cubes[colour] = (1, *places[colour])
        decision = expert.decide(observation)
        assert decision.recalled == (tuple(range(len(shown))) if len(there) == 3 else ())
        tip = moved(tip, decision.action)
    assert np.linalg.norm(tip - places[2]) < 0.05


@pytest.mark.parametrize("blinks", [1, 2, 5])
def test_the_button_is_pressed_as_often_as_the_lamp_blinked(blinks):
    """Red as often, raised after each, then black; and every lit step and press before is recalled under the green
    light."""
    expert, tip = MikasaBlinkCountExpert(), np.array([0.1, 0.0, 0.3])
    red, black = np.array([-0.1, 0.05]), np.array([-0.1, 0.21])
    lit_at = [5 + 7 * blink + step for blink in range(blinks) for step in range(3)]
    presses, counted, raised, was_down, green_at = [], 0, True, False, lit_at[-1] + 4
    for step in range(40 * blinks + green_at):
        observation = blank("mikasa-blink-count", tip)
        green, over_red = step >= green_at, np.hypot(*(tip[:2] - red)) < 0.065
        down = bool(over_red and tip[2] <= DOWN)
        if green and down and not was_down:
            assert raised, "pressed again before the gripper was raised"
            presses.append(step)
            raised, start = False, tip[2]
        if not raised and tip[2] >= start + RAISE:
            raised, counted = True, counted + 1
        if np.hypot(*(tip[:2] - black)) < 0.065 and tip[2] <= DOWN:
            break
        observation[[LIT, GREEN, PRESSED]] = step in lit_at, green, bool(presses) and presses[-1] == step
        observation[RED], observation[BLACK] = [*red, 0], [*black, 0]
        was_down = down
        decision = expert.decide(observation)
        assert decision.recalled == ((*lit_at, *(press for press in presses if press < step)) if green else ())
        tip = moved(tip, decision.action)
    assert (len(presses), counted, raised) == (blinks, blinks, True)
    assert np.hypot(*(tip[:2] - black)) < 0.065


@pytest.mark.parametrize(("blinks", "steps"), [(3, 150), (5, 200), (7, 300)])
def test_the_horizon_is_the_packages(blinks, steps):
    assert get_task("mikasa-blink-count", {"blinks": blinks}).max_steps == steps
