"""Policies without a network, the floor and the ceiling of every table. They play inside the workers, without torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.errors import UserError
from attentiontuner.tasks import Task
from attentiontuner.wording import counted


@dataclass(frozen=True)
class RandomPolicy:
    """Every action equally likely; what it does in an episode depends on `seed` and the episode's seed alone."""

    actions: int
    seed: int = 0

    def check(self, task: Task) -> None:
        """Refuse a task with another number of actions."""
        if self.actions != len(task.actions):
            raise UserError(
                f"a random policy over {counted(self.actions, 'action')} does not fit task {task.name!r}, which has "
                f"{len(task.actions)}"
            )

    def player(self, task: Task, env: gym.Env[Any, Any], seed: int) -> Callable[[NDArray[Any]], int]:
        """Draws from a generator of this episode's own."""
        generator = np.random.default_rng([self.seed, seed])
        return lambda observation: int(generator.integers(self.actions))


@dataclass(frozen=True)
class ExpertPolicy:
    """The task's scripted expert."""

    def check(self, task: Task) -> None:
        """Refuse a task for which nobody wrote an expert."""
        if task.expert is None:
            raise UserError(f"task {task.name!r} has no scripted expert")

    def player(self, task: Task, env: gym.Env[Any, Any], seed: int) -> Callable[[NDArray[Any]], int]:
        """A fresh expert for the episode `env` was just reset to."""
        expert = task.make_expert(env)
        return lambda observation: expert.decide(observation).action
