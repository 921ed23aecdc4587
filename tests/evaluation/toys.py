"""A task small enough to know everything about, in a module of its own so that worker processes can import it."""

import os
import signal
from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.experts.expert import Decision
from attentiontuner.spaces import ActionSpec, ObservationSpec, Part
from attentiontuner.tasks.task import Task

LONGEST = 12


class RecallEnv(gym.Env[np.ndarray, int]):
    """Step 0 shows a cue 1 … 3; the episode lasts 3 to 12 steps (by seed); the last action must be the cue.

    `trouble` maps a seed to what goes wrong in the second step of its episode.
    """

    takes: tuple[type, ...] = (int,)

    def __init__(self, render_mode: str | None = None, trouble: dict[int, str] | None = None) -> None:
        self.trouble = trouble or {}
        self.observation_space = gym.spaces.Box(0, 9, (2, 2, 1), np.uint8)
        self.action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.seed_now, self.step_now = seed, 0
        self.cue = int(self.np_random.integers(1, 4))
        self.length = int(self.np_random.integers(3, LONGEST + 1))
        return self._look(), {}

    def _look(self) -> np.ndarray:
        shown = self.cue if self.step_now == 0 else 4 + self.step_now % 5
        return np.full((2, 2, 1), shown, np.uint8)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert isinstance(action, self.takes)
        self.step_now += 1
        if self.step_now == 2:
            self._get_into_trouble(self.trouble.get(self.seed_now or 0, ""))
        ended = self.step_now >= self.length and self.trouble.get(self.seed_now or 0) != "endless"
        right = ended and action == self.cue
        return self._look(), 1.0 if right else 0.25, ended, False, {"success": right}

    def _get_into_trouble(self, kind: str) -> None:
        if kind == "raise":
            raise ZeroDivisionError("the door is a wall")
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "shape":
            self._look = lambda: np.zeros((3, 3, 1), np.uint8)  # type: ignore[method-assign]


class RecallExpert:
    """Reads the length off the environment, remembers the cue."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.length, self.step, self.cue = env.unwrapped.length, 0, 0

    def decide(self, observation: np.ndarray) -> Decision:
        if self.step == 0:
            self.cue = int(observation[0, 0, 0])
        self.step += 1
        return Decision(self.cue, (0,)) if self.step == self.length else Decision(0)


class CuePolicy:
    """A batched policy with a memory: always does what its row's first observation said."""

    def reset(self, n: int) -> None:
        self.cues = np.zeros(n, np.int64)
        self.begins = np.ones(n, bool)

    def restart(self, rows: np.ndarray) -> None:
        self.begins[rows] = True

    def act(self, observations: np.ndarray) -> np.ndarray:
        self.cues = np.where(self.begins, observations[:, 0, 0, 0], self.cues)
        self.begins[:] = False
        return np.minimum(self.cues, 3).astype(np.int64)

    def keep(self, rows: np.ndarray) -> bool:
        self.cues, self.begins = self.cues[rows], self.begins[rows]
        return True

    def clone(self) -> "CuePolicy":
        return type(self)()


class HashPolicy(CuePolicy):
    """Acts on its whole history: the result says whether any row ever saw another episode's observations."""

    def reset(self, n: int) -> None:
        super().reset(n)
        self.history = np.zeros(n, np.int64)

    def keep(self, rows: np.ndarray) -> bool:
        self.history = self.history[rows]
        return super().keep(rows)

    def act(self, observations: np.ndarray) -> np.ndarray:
        seen = observations[:, 0, 0, 0].astype(np.int64)
        self.history = np.where(self.begins, seen, (self.history * 31 + seen) % 10007)
        self.begins[:] = False
        return self.history % 4


def recall_task(**settings: Any) -> Task:
    """The toy as a task."""
    return Task(
        name="toy-recall",
        title="Recall",
        env_id="ToyRecall-v0",
        register=__name__,
        observation=ObservationSpec("grid", (2, 2, 1), (10,)),
        actions=("wait", "one", "two", "three"),
        horizon=LONGEST,
        settings=settings,
        expert=RecallExpert,
    )


class ArmEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """Shows where two joints are, 0 … 3, once; the action of step t = 0 … 3 must be t further, modulo 4.

    All actions are looked at in the end: those of earlier steps must not have changed.
    """

    def __init__(self, kind: str, render_mode: str | None = None) -> None:
        self.kind = kind

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.joints, self.taken = self.np_random.integers(0, 4, 2), []
        return self._look(self.joints), {}

    def _look(self, joints: Any) -> dict[str, Any]:
        return {"camera": np.full((3, 5), len(self.taken), np.uint8), "joints": joints}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert action.dtype == (np.float32 if self.kind == "box" else np.int64)
        self.taken.append(action)
        ended = len(self.taken) == 4
        right = ended and np.array_equal(self.taken, (self.joints + np.arange(4)[:, None]) % 4)
        return self._look([0, 0]), float(action.sum()), ended, False, {"success": right}


def arm_task(actions: ActionSpec) -> Task:
    """Several parts seen, several numbers done."""
    parts = {"camera": Part("image", (3, 5, 1)), "joints": Part("vector", (2,))}
    return Task(
        name="toy-arm",
        title="Arm",
        env_id="ToyArm-v0",
        register=__name__,
        observation=ObservationSpec(parts=parts),
        actions=actions,  # type: ignore[arg-type]
        horizon=4,
        settings={"kind": actions.kind},
    )


if "ToyRecall-v0" not in gym.registry:
    gym.register("ToyRecall-v0", RecallEnv)
    gym.register("ToyArm-v0", ArmEnv)
