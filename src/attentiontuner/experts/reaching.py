"""How a robot's finger is led: what the experts of the robot tasks have in common."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.envs.robot import TIP, Numbers, RobotEnv

Point = NDArray[np.float64]

HOVER = 0.07
"""The height, in metres, at which the tip travels."""

FULL_SPEED_FROM = 0.06
"""Metres from its goal at which the tip goes at full speed; nearer it slows down in proportion."""

FUNNEL = (0.015, 0.06)
"""Metres beside the goal from which the tip comes down: at the first it presses, at the second it hovers."""

PRESSING = -0.03
"""The height it makes for to press something."""


def table_of(env: gym.Env[Any, Any]) -> RobotEnv:
    """The table, whose `numbers` experts read: what observations without cameras are."""
    robot = env.unwrapped
    assert isinstance(robot, RobotEnv)
    return robot


def tip_of(numbers: Numbers) -> Point:
    """Where the fingertip is."""
    return numbers[TIP].astype(np.float64)


def lead(tip: Point, goal: Any) -> NDArray[np.float32]:
    """The action that brings the tip to `goal`: straight, at full speed, slower when it is near."""
    velocity = (np.asarray(goal) - tip) / FULL_SPEED_FROM
    return (velocity / max(1.0, float(np.linalg.norm(velocity)))).astype(np.float32)


def lower(tip: Point, place: Any) -> NDArray[np.float32]:
    """The action that brings the tip down on a place (x, y) of the table: over it first, through a funnel."""
    beside = float(np.linalg.norm(np.asarray(place) - tip[:2]))
    near, far = FUNNEL
    share = min(1.0, max(0.0, (beside - near) / (far - near)))
    return lead(tip, (*place, PRESSING + share * (HOVER - PRESSING)))
