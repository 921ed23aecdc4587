"""Evaluation speed: batched rollouts with a key-value cache against the textbook loop, Hallway at paper size.

Both play the same episodes: the network computes what it would do at every step, then the expert's action is taken, so
an untrained network does. The textbook loop has one environment and recomputes the whole history at each step; its cost
is measured at several history lengths and added up over the steps of these very episodes.
"""

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos import Demonstration, PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import rollout
from attentiontuner.models.sizes import TransformerConfig
from attentiontuner.models.transformer import Transformer
from attentiontuner.tasks.task import Task, get_task
from benchmarks import Row

EPISODES = 128
BATCH = 64
GPU_EPISODES = 1000
HISTORIES = (1, 8, 24, 48, 72, 96, 120)
REPEATS = 3


class Driven(ModelPolicy):
    """Computes like the model, plays like the expert."""

    expert_of: Any = None

    def clone(self) -> "Driven | None":
        if super().clone() is None:
            return None
        twin = Driven(self.model, self.max_steps)
        twin.expert_of = self.expert_of
        return twin

    def reset(self, n: int) -> None:
        super().reset(n)
        self._experts = [self.expert_of() for _ in range(n)]

    def keep(self, rows: NDArray[np.int64]) -> bool:
        experts = [self._experts[row] for row in rows]
        kept = super().keep(rows)
        self._experts = experts if kept else self._experts
        return kept

    def act(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        for row in np.flatnonzero(self._begins):
            self._experts[row] = self.expert_of()
        super().act(observations)
        actions = [
            expert.decide(observation).action for expert, observation in zip(self._experts, observations, strict=True)
        ]
        self._last = np.array(actions, np.int64)
        return self._last


def bench() -> list[Row]:
    """Steps per second of both loops and their ratio; on a GPU also the time for 1,000 episodes."""
    from attentiontuner.experts.hallway import HallwayExpert

    torch.manual_seed(0)
    task = get_task("hallway")
    model = Transformer(TransformerConfig(task.observation, task.actions)).eval()
    seeds = [evaluation_seed(0, index) for index in range(EPISODES)]
    policy = Driven(model, task.max_steps)
    policy.expert_of = HallwayExpert
    textbook, lengths = textbook_seconds(model, task, seeds[:24])
    started = time.perf_counter()
    results = rollout(policy, task, seeds, batch=BATCH)
    ours = time.perf_counter() - started
    assert all(result.success for result in results)
    steps = sum(result.length for result in results)
    speed, textbook_speed = steps / ours, sum(lengths) / textbook
    rows = [
        Row("evaluate Hallway, paper size, textbook loop", textbook_speed, "steps/s"),
        Row("evaluate Hallway, paper size, batched and cached", speed, "steps/s"),
        Row("batched and cached against textbook", speed / textbook_speed, "x", ">= 20x"),
    ]
    return [*rows, gpu_row(model, task)] if torch.cuda.is_available() else rows


def gpu_row(model: Transformer, task: Task) -> Row:
    """Seconds for 1,000 episodes on the GPU, starting the workers and recording the CUDA graph included."""
    from attentiontuner.experts.hallway import HallwayExpert

    policy = Driven(model.cuda(), task.max_steps)
    policy.expert_of = HallwayExpert
    seeds = [evaluation_seed(0, index) for index in range(GPU_EPISODES)]
    started = time.perf_counter()
    results = rollout(policy, task, seeds, batch=2 * 128)
    seconds = time.perf_counter() - started
    assert all(result.success for result in results)
    return Row(
        f"evaluate {GPU_EPISODES} Hallway episodes, paper size, {torch.cuda.get_device_name()}", seconds, "s", "<= 20 s"
    )


def textbook_seconds(model: Transformer, task: Task, seeds: list[int]) -> tuple[float, list[int]]:
    """Seconds the textbook loop takes for the episodes of `seeds`, and their lengths."""
    env = task.make_env()
    started = time.perf_counter()
    episodes = [record_episode(task, env, seed).demonstration for seed in seeds]
    environments = time.perf_counter() - started
    longest = max(episodes, key=len)
    costs = [forward_seconds(model, task, longest, min(length, len(longest))) for length in HISTORIES]
    network = sum(np.interp(np.arange(1, len(episode) + 1), HISTORIES, costs).sum() for episode in episodes)
    return environments + float(network), [len(episode) for episode in episodes]


def forward_seconds(model: Transformer, task: Task, episode: Demonstration, steps: int) -> float:
    """Seconds of a forward pass over the first `steps` steps of an episode: the textbook's cost of one step."""
    batch = DemoData(
        PackedDemos(
            observation=task.observation,
            frames=task.observation.encode(episode.observations[:steps]).copy(),
            frame_index=np.arange(steps),
            actions=episode.actions[:steps],
            lengths=np.array([steps]),
            starts=np.array([0]),
            pairs=PairTable.nothing([steps]),
            success=np.array([True]),
            seeds=np.array([episode.seed]),
            episodes=np.array([0]),
        )
    ).batch(np.array([0]))
    seconds = []
    with torch.inference_mode():
        model(batch)
        for _ in range(REPEATS):
            started = time.perf_counter()
            int(model(batch).distribution[-1].argmax())
            seconds.append(time.perf_counter() - started)
    return sum(seconds) / len(seconds)
