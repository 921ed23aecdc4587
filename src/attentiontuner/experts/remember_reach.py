"""The expert of remember-reach."""

from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.envs.remember_reach import GO, LIT, TARGET
from attentiontuner.envs.robot import HOME
from attentiontuner.experts.expert import Decision
from attentiontuner.experts.reaching import lead, lower, table_of, tip_of


class RememberReachExpert:
    """Waits at home until the lamp is green, then brings the finger down where the disc was lit.

    At every step of the movement it recalls the steps at which the disc was lit, once each. It reads the numbers that
    observations without cameras hold, and remembers where the disc was.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._table = table_of(env)
        self._step = -1
        self._lit: list[int] = []
        self._target = np.zeros(2)

    def decide(self, observation: Any) -> Decision:
        self._step += 1
        numbers = self._table.numbers()
        tip = tip_of(numbers)
        if numbers[LIT]:
            self._lit.append(self._step)
            self._target = numbers[TARGET].astype(np.float64)
        if not numbers[GO]:
            return Decision(lead(tip, HOME))
        return Decision(lower(tip, self._target), tuple(self._lit))
