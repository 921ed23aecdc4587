"""The expert of MIKASA-Robo-VLA's RememberColor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.envs.mikasa import CUBES, MOST_COLOURS, TIP
from attentiontuner.experts.expert import Decision

ABOVE = 0.035
"""Metres above the middle of a cube at which the gripper comes to rest: 5 cm count as touching."""

A_STEP = 0.1
"""Metres that the gripper moves at an action of 1."""

GENTLY = 0.8
"""The share of the way that is left which a step takes."""

OPEN = 1.0


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
        way = cubes[self._colour, 1:] + (0, 0, ABOVE) - observation[TIP]
        action = np.append(np.clip(GENTLY * way / A_STEP, -1, 1), OPEN)
        return Decision(action.astype(np.float32), tuple(self._shown))
