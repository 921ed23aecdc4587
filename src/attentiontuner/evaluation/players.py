"""Policies without a network, the floor and the ceiling of every table. They play inside the workers, without torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.tasks.task import Task


@dataclass(frozen=True)
class RandomPolicy:
    """Every action equally likely; what it does in an episode depends on `seed` and the episode's seed alone."""

    seed: int = 0

    def player(self, task: Task, env: gym.Env[Any, Any], seed: int) -> Callable[[Any], Any]:
        """Draws from a generator of this episode's own."""
        generator, actions = np.random.default_rng([self.seed, seed]), task.actions
        return lambda observation: actions.draw(generator)


@dataclass(frozen=True)
class ExpertPolicy:
    """The task's scripted expert."""

    def check(self, task: Task) -> None:
        """Refuse a task for which nobody wrote an expert."""
        if task.expert is None:
            raise UserError(f"task {task.name!r} has no scripted expert")

    def player(self, task: Task, env: gym.Env[Any, Any], seed: int) -> Callable[[Any], Any]:
        """A fresh expert for the episode `env` was just reset to."""
        expert = task.make_expert(env)
        return lambda observation: expert.decide(task.seen(observation)).action
