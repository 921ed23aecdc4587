"""One episode with everything a recall film shows: what was seen, done and attended to, and what the expert recalls."""

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.errors import where_and_what
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.experts.base import Decision, Expert, checked
from attentiontuner.models.heads import Head
from attentiontuner.tasks import Task

ATTENDED = 0.1
"""From this weight on a head counts as attending to a step, unless it has many to share its weight between."""


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode of T steps as a policy played it.

    Attributes:
        observations: `[T, …]`.
        actions: `[T]`.
        weights: by head `[T, T]`: row q holds the weights on the observations 0 … q at step q.
        expert: the expert's decision at each step of this very episode; None where there is none to ask, or where the
            policy has led it to a place it cannot handle.
        success: whether the policy solved it.
        episode, seed: which one it is.
    """

    task: Task
    observations: NDArray[Any]
    actions: NDArray[np.int64]
    weights: dict[Head, NDArray[np.float32]]
    expert: list[Decision | None]
    success: bool
    episode: int
    seed: int

    def __len__(self) -> int:
        return len(self.actions)

    def threshold(self, step: int) -> float:
        """The weight from which on a head counts as attending at `step`.

        Weights add up to 1: where the expert recalls k steps, a head that shares its weight between them and
        the present gives each 1 / (k + 1). Half of that is enough. (Of a recall head the weight is what it counts.)
        """
        return min(ATTENDED, 0.5 / (1 + len(self.expert_recalls(step))))

    def attended(self, head: Head, step: int, most: int) -> list[tuple[int, float]]:
        """The earlier steps with the largest weights that count: (step, weight), largest first."""
        weights, enough = self.weights[head][step, :step], self.threshold(step)
        order = np.argsort(-weights, kind="stable")[:most]
        return [(int(p), float(weights[p])) for p in order if weights[p] >= enough]

    def met(self, step: int, past: int) -> bool:
        """Whether a watched head attends at `step` to the observation at `past`."""
        return self.strongest(step, past) >= self.threshold(step)

    def expert_recalls(self, step: int) -> list[int]:
        """The earlier steps the expert recalls at `step`, each once, latest last."""
        decision = self.expert[step]
        return [] if decision is None else sorted({int(p) for p in decision.recalled})

    def strongest(self, step: int, past: int) -> float:
        """The largest weight any watched head gives at `step` to the observation at `past`."""
        return max((float(weights[step, past]) for weights in self.weights.values()), default=0.0)


def record_recall(policy: ModelPolicy, task: Task, seed: int, episode: int) -> RecordedEpisode:
    """Play one episode with `policy` (its `watch` heads are recorded), asking the expert what it recalls on the way."""
    env = task.make_env()
    observation, _ = env.reset(seed=seed)
    companion = _Companion(task, env, episode, seed)
    policy.reset(1)
    observations, actions, decisions = [], [], []
    weights: dict[Head, list[NDArray[np.float32]]] = {head: [] for head in policy.watch}
    ended, success = False, False
    while not ended:
        seen = task.seen(observation).copy()
        decision = companion.ask(seen)
        action = int(policy.act(seen[None])[0])
        for head in policy.watch:
            weights[head].append(policy.weights[head][0])
        observations.append(seen)
        actions.append(action)
        decisions.append(decision)
        observation, reward, terminated, truncated, info = env.step(action)
        ended = bool(terminated or truncated)
        success = ended and task.solved(float(reward), bool(terminated), info)
    env.close()
    length = len(actions)
    return RecordedEpisode(
        task,
        np.stack(observations),
        np.array(actions, np.int64),
        {head: np.stack(rows)[:, :length] for head, rows in weights.items()},
        decisions,
        success,
        episode,
        seed,
    )


class _Companion:
    """The task's expert beside a policy that plays. It follows a plan of its own and may not cope with a policy that
    left it: what first goes wrong is told in one line, and it is asked no more."""

    def __init__(self, task: Task, env: gym.Env[Any, Any], episode: int, seed: int) -> None:
        self.task, self.episode, self.seed = task, episode, seed
        self.step = 0
        self.expert: Expert | None = None
        if task.expert is not None:
            try:
                self.expert = task.make_expert(env)
            except Exception as error:
                self._lose(error)

    def ask(self, observation: NDArray[Any]) -> Decision | None:
        """The expert's decision at the next step; None where there is none to ask."""
        decision = None
        if self.expert is not None:
            try:
                decision = checked(self.expert.decide(observation), self.step, len(self.task.actions))
            except Exception as error:
                self._lose(error)
        self.step += 1
        return decision

    def _lose(self, error: Exception) -> None:
        self.expert = None
        film = f"film of episode {self.episode} (seed {self.seed})"
        problem = " ".join(where_and_what(error).split())
        line = f"attentiontuner: {film}: the expert fails at step {self.step}: {problem}; the film goes on without it"
        print(line, file=sys.stderr, flush=True)
