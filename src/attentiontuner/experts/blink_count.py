"""The expert of blink-count."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.envs.blink_count import BLINK, BUTTON, BUTTON_TOP, DONE, GO, PRESSED
from attentiontuner.envs.robot import HOME, Numbers
from attentiontuner.experts.expert import Decision
from attentiontuner.experts.reaching import lead, lower, table_of, tip_of

LIFTED = BUTTON_TOP + 0.05
"""The height of the tip from which the next press begins."""


class BlinkCountExpert:
    """Waits at home until the light is green, presses the button once for every blink, then touches the pad.

    Whether there is something left to press depends on all blinks and all presses before: at every step under the green
    light it recalls the steps of both, once each. Down or up is seen in how the tip moves; there is nothing to recall
    for it. It reads the numbers that observations without cameras hold, and counts.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._table = table_of(env)
        self._step = -1
        self._blinks: list[int] = []
        self._presses: list[int] = []
        self._rising = False

    def decide(self, observation: Any) -> Decision:
        self._step += 1
        numbers = self._table.numbers()
        if numbers[BLINK]:
            self._blinks.append(self._step)
        if not numbers[GO]:
            return Decision(lead(tip_of(numbers), HOME))
        recalled = (*self._blinks, *self._presses)
        if numbers[PRESSED]:
            self._presses.append(self._step)
            self._rising = True
        return Decision(self._move(numbers), recalled)

    def _move(self, numbers: Numbers) -> NDArray[np.float32]:
        tip = tip_of(numbers)
        self._rising = self._rising and tip[2] < LIFTED
        left = len(self._blinks) - len(self._presses)
        if self._rising:
            return lead(tip, (*BUTTON, LIFTED + 0.02))
        return lower(tip, BUTTON if left > 0 else DONE)
