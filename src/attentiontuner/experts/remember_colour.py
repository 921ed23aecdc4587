"""The expert of remember-colour."""

from typing import Any

import gymnasium as gym

from attentiontuner.envs.remember_colour import MOST_PADS, PADS, SCREEN
from attentiontuner.envs.robot import HOME
from attentiontuner.experts.expert import Decision
from attentiontuner.experts.reaching import lead, lower, table_of, tip_of


class RememberColourExpert:
    """Waits at home until the pads are lit, then brings the finger down on the one of the colour that was shown.

    At every step of the movement it recalls the steps at which the screen showed the colour, once each. It reads the
    numbers that observations without cameras hold, and remembers the colour.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._table = table_of(env)
        self._step = -1
        self._shown: list[int] = []
        self._colour = -1

    def decide(self, observation: Any) -> Decision:
        self._step += 1
        numbers = self._table.numbers()
        tip, screen, pads = tip_of(numbers), numbers[SCREEN], numbers[PADS].reshape(MOST_PADS, 3)
        if screen.any():
            self._shown.append(self._step)
            self._colour = int(screen.argmax())
        if not pads[:, 0].any():
            return Decision(lead(tip, HOME))
        return Decision(lower(tip, pads[self._colour, 1:]), tuple(self._shown))
