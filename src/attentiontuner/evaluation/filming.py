"""Recall films of evaluated episodes: which to film, and each played once more with its expert asked on the way."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import at_least, where_and_what
from attentiontuner.evaluation.opening import as_policy
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import EpisodeResult
from attentiontuner.experts.expert import Decision, Expert, checked
from attentiontuner.models.bound import NOTHING_SAID, Asked
from attentiontuner.models.heads import Head
from attentiontuner.runs.run import Trained
from attentiontuner.tasks.task import Task
from attentiontuner.viz.films import HEAD_COLOURS, save_film
from attentiontuner.viz.recorded import RecordedEpisode


def make_films(
    trained: Trained,
    task: Task,
    results: Sequence[EpisodeResult],
    count: int,
    out: Path,
    *,
    device: str | None = None,
    execute: int = 1,
    memory: Asked = NOTHING_SAID,
) -> list[Path]:
    """Film `count` of the evaluated episodes, failures and successes in turn, into `out`; the paths. `execute` and
    `memory` are as in `as_policy`."""
    at_least("--video", count)
    config = trained.config
    way = config.way
    heads = way.watchable(config)[: len(HEAD_COLOURS)]
    policy = as_policy(trained, device=device, max_steps=task.max_steps, watch=heads, execute=execute, memory=memory)
    reading = {"supervised": bool(config.supervised()), "counts": way.counts(config), "whole": way.whole(config)}
    paths = []
    for result in choose(results, count):
        recalled = record_recall(policy, task, result.seed, result.episode)
        outcome = "solved" if recalled.success else "failed"
        path = out / f"episode-{result.episode:04d}-{outcome}.gif"
        save_film(recalled, path, **reading)
        paths.append(path)
    return paths


def choose(results: Sequence[EpisodeResult], count: int) -> list[EpisodeResult]:
    """Failures and successes in turn, the first of each first."""
    failed = [result for result in results if not result.success]
    solved = [result for result in results if result.success]
    shared = min(len(failed), len(solved))
    in_turn = [result for both in zip(solved, failed, strict=False) for result in both]
    return [*in_turn, *solved[shared:], *failed[shared:]][:count]


def record_recall(policy: ModelPolicy, task: Task, seed: int, episode: int) -> RecordedEpisode:
    """Play one episode with `policy` (its `watch` heads are recorded), asking the expert what it recalls on the way."""
    env = task.make_env()
    observation, _ = env.reset(seed=seed)
    companion = _Companion(task, env, episode, seed)
    policy.reset(1)
    observations, actions, decisions = [], [], []
    weights: dict[Head, list[NDArray[np.float32]]] = {head: [] for head in policy.watch}
    places: list[NDArray[np.int64]] = []
    ended, success, total = False, False, 0.0
    while not ended:
        seen = task.seen(observation)
        decision = companion.ask(seen)
        action = task.actions.one(policy.act(task.observation.stack([seen]))[0])
        for head in policy.watch:
            weights[head].append(policy.weights[head][0])
        places.append(policy.steps[0])
        observations.append(seen)
        actions.append(action)
        decisions.append(decision)
        observation, reward, terminated, truncated, info = env.step(action)
        ended, total = bool(terminated or truncated), total + float(reward)
        success = ended and task.solved(float(reward), bool(terminated), info, total, len(actions))
    env.close()
    return RecordedEpisode(
        task,
        task.observation.stack(observations),
        task.actions.encode(actions),
        {head: _by_step(rows, places) for head, rows in weights.items()},
        decisions,
        success,
        episode,
        seed,
    )


def _by_step(weights: Sequence[NDArray[np.float32]], steps: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
    """The weights of T steps, one by one with the steps they are of (-1: none), as `[T, T]`; what is forgotten is 0."""
    matrix = np.zeros((len(weights), len(weights)), np.float32)
    for row, own, step in zip(matrix, weights, steps, strict=True):
        there = (step >= 0) & (step < len(matrix))
        row[step[there]] = own[there]
    return matrix


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

    def ask(self, observation: Any) -> Decision | None:
        """The expert's decision at the next step; None where there is none to ask."""
        decision = None
        if self.expert is not None:
            try:
                decision = checked(self.expert.decide(observation), self.step, self.task.actions)
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
