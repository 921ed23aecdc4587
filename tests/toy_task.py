"""A tiny task for tests: a colour is shown at the first step and must be named at the last."""

import os
import time
from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.experts import Decision
from attentiontuner.spaces.observation import ObservationSpec
from attentiontuner.tasks.task import Task, register_task

SPEC = ObservationSpec("grid", (2, 2, 1), (5,))
PAUSE = float(os.environ.get("TOY_PAUSE", "0"))
"""Seconds an episode takes at least: for tests that stop a collection halfway."""


class ToyEnv(gym.Env[Any, int]):
    """`length` steps; the cue 1 or 2 is in the first observation; the last action must equal it."""

    observation_space = gym.spaces.Box(0, 4, (2, 2, 1), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        time.sleep(PAUSE)
        self.cue, self.steps = int(self.np_random.integers(1, 3)), 0
        self.walk = self.np_random.integers(0, 2, size=(self.length + 1, 2, 2, 1)).astype(np.uint8)
        return self._frame(), {}

    def _frame(self) -> Any:
        frame = self.walk[self.steps].copy()
        frame[0, 0, 0] = self.cue if self.steps == 0 else 4 if self.steps == self.length - 1 else 0
        return frame

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ended = self.steps == self.length
        solved = ended and action == self.cue
        return self._frame() if not ended else self.walk[-1], float(solved), ended, False, {"success": solved}


class ToyExpert:
    """Recalls step 0 at the last step. `also` speaks for a second annotator, which recalls it twice."""

    def __init__(self, env: Any) -> None:
        self.step, self.cue = 0, 0

    def decide(self, observation: Any) -> Decision:
        self.step += 1
        if self.step == 1:
            self.cue = int(observation[0, 0, 0])
            return Decision(0, (), {"second": ()})
        if observation[0, 0, 0] == 4:
            return Decision(self.cue, (0,), {"second": (0, 0)})
        return Decision(0)


class CarelessExpert(ToyExpert):
    """Always says 1: right about half of the time."""

    def decide(self, observation: Any) -> Decision:
        decision = super().decide(observation)
        return Decision(1, decision.recalled) if decision.action else decision


class ForesightedExpert(ToyExpert):
    """Claims to recall the present step, which is no memory."""

    def decide(self, observation: Any) -> Decision:
        return Decision(super().decide(observation).action, (self.step - 1,))


def _length(settings: Any) -> int:
    return int(settings["length"])


if "Toy-v0" not in gym.registry:
    gym.register("Toy-v0", entry_point="tests.toy_task:ToyEnv")

TOY = Task(
    name="toy",
    title="Toy",
    env_id="Toy-v0",
    register="tests.toy_task",
    observation=SPEC,
    actions=("stay", "one", "two"),
    horizon=_length,
    settings={"length": 5},
    expert="tests.toy_task:ToyExpert",
    demonstrations=20,
)
register_task(TOY)
