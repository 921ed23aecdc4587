"""The experts of MIKASA-Robo-VLA's RememberColor and BlinkCount."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.envs.mikasa import BLACK, CUBES, GREEN, LIT, MOST_COLOURS, PRESSED, RED, TIP
from attentiontuner.experts.expert import Decision

ABOVE = 0.035
"""Metres above the middle of a cube at which the gripper comes to rest: 5 cm count as touching."""

A_STEP = 0.1
"""Metres that the gripper moves at an action of 1."""

GENTLY = 0.8
"""The share of the way that is left which a step takes."""

OPEN = 1.0

LOW, HIGH, RAISED = 0.05, 0.22, 0.18
"""How high the gripper is when a button is down, on its way from one to another, and from when on a press counts."""

NEAR = 0.02
"""Metres beside the middle of a button from which the gripper goes down."""


class MikasaRememberColourExpert:
    """Waits while one cube or none is on the table, then brings the gripper over the cube of the colour shown.

    The cube that stands there alone is the cue. At every step of the movement it recalls the steps at which it stood
    there, once each. It sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._shown: list[int] = []
        self._colour = -1

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        cubes = observation[CUBES].reshape(MOST_COLOURS, 4)
        there = np.flatnonzero(cubes[:, 0])
        if len(there) == 1:
            self._shown.append(self._step)
            self._colour = int(there[0])
        if len(there) <= 1:
            return Decision(np.array([0, 0, 0, OPEN], np.float32))
        place = cubes[self._colour, 1:] + (0, 0, ABOVE)
        return Decision(towards(place, observation), tuple(self._shown))


class MikasaBlinkCountExpert:
    """Waits while the lamp blinks; under the green light it presses the red button as often, raising the gripper after
    each press, and then the black one.

    At every step under the green light it recalls the steps at which the lamp was lit, three for each time, and those
    before it at which the button went down, once each: whether something is left to press depends on all of them. It
    sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._lit: list[int] = []
        self._presses: list[int] = []
        self._rising = False

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        if observation[LIT]:
            self._lit.append(self._step)
        recalled = (*self._lit, *self._presses)  # a press at this very step is seen, not recalled
        if observation[PRESSED]:
            self._presses.append(self._step)
            self._rising = True
        if not observation[GREEN]:
            return Decision(np.array([0, 0, 0, OPEN], np.float32))
        tip = observation[TIP]
        self._rising = self._rising and tip[2] < RAISED
        blinks = int((np.diff(self._lit, prepend=-2) > 1).sum())
        x, y = observation[RED if len(self._presses) < blinks else BLACK][:2]
        over = np.hypot(x - tip[0], y - tip[1]) < NEAR
        place = (tip[0], tip[1], HIGH) if self._rising else (x, y, LOW if over else HIGH)
        return Decision(towards(np.array(place), observation), recalled)


def towards(place: NDArray[Any], observation: NDArray[Any]) -> NDArray[np.float32]:
    """The action that brings the open gripper nearer to a place (x, y, z)."""
    way = place - observation[TIP]
    return np.append(np.clip(GENTLY * way / A_STEP, -1, 1), OPEN).astype(np.float32)
