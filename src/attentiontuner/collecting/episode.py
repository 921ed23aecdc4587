"""One episode that a task's expert plays, with what it recalled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.core.wording import counted
from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.experts.expert import checked
from attentiontuner.spaces.observation import Arrays, ObservationSpec
from attentiontuner.tasks.task import Task

PIECE = 1024
"""Observations that are turned into bytes together."""


@dataclass(frozen=True)
class Episode:
    """One recorded episode and the pairs of every annotator the expert spoke for."""

    demonstration: Demonstration
    pairs: Mapping[str, PairTable]


class Pieces:
    """Observations of an episode that is not over, as bytes: a Python object for each would be many times as large."""

    def __init__(self, spec: ObservationSpec) -> None:
        self._spec = spec
        self._encoded: list[NDArray[np.uint8]] = []
        self._latest: list[Any] = []

    def append(self, observation: Any) -> None:
        self._latest.append(observation)
        if len(self._latest) == PIECE:
            self._encode()

    def _encode(self) -> None:
        if self._latest:
            self._encoded.append(self._spec.encode(self._spec.stack(self._latest)))
            self._latest = []

    def whole(self) -> Arrays:
        """All of them, `[T, …]`."""
        self._encode()
        return self._spec.decode(np.concatenate(self._encoded))


def record_episode(task: Task, env: gym.Env[Any, Any], seed: int) -> Episode:
    """Let the task's expert play the episode of environment seed `seed` to its end.

    What the environment or the expert raises is a `UserError` that says at which step and where in their code.
    """
    observations = Pieces(task.observation)
    actions: list[Any] = []
    rewards: list[float] = []
    recalled: dict[str, list[tuple[int, int]]] = {EXPERT: []}
    terminated = truncated = False
    try:
        observation, info = env.reset(seed=seed)
        expert, horizon = task.make_expert(env), task.max_steps
        while not (terminated or truncated):
            step = len(actions)
            if step >= horizon:
                raise UserError(
                    f"no end within the horizon of {counted(horizon, 'step')}; "
                    "raise the task's horizon, or make it a function of the settings"
                )
            seen = task.seen(observation)
            decision = checked(expert.decide(seen), step, task.actions)
            if len(decision.recalled) or decision.also:  # at most steps nothing is recalled
                for annotator, steps in {EXPERT: decision.recalled, **decision.also}.items():
                    recalled.setdefault(annotator, []).extend((int(p), step) for p in steps)
            observations.append(seen)
            observation, reward, terminated, truncated, info = env.step(decision.action)
            actions.append(decision.action)
            rewards.append(float(reward))
        success = task.solved(rewards[-1], bool(terminated), info, sum(rewards), len(rewards))
    except Exception as error:
        place = f"task {task.name!r}, seed {seed}, step {len(actions)}"
        problem = str(error) if isinstance(error, UserError) else where_and_what(error)
        raise UserError(f"{place}: {problem}") from error
    if not success and task.every_attempt_succeeds:
        ending = f"it ended after {counted(len(actions), 'step')} with reward {rewards[-1]:g}"
        if not {"success", "is_success"} & set(info):
            ending += ", and info says nothing of 'success'"
        raise UserError(
            f"task {task.name!r}, seed {seed}: the expert failed ({ending}): mend the expert, say what success is "
            "(info['success'] or Task(success=...)), or let it fail (Task(every_attempt_succeeds=False))"
        )
    demonstration = Demonstration(
        observations=observations.whole(),
        actions=np.array(actions, task.actions.dtype),
        rewards=np.array(rewards, np.float32),
        terminated=bool(terminated),
        truncated=bool(truncated),
        seed=seed,
        success=success,
    )
    length = len(demonstration)
    pairs = {name: PairTable.of(rows, length, f"of seed {seed}") for name, rows in recalled.items()}
    return Episode(demonstration, pairs)
