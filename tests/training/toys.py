"""Small data sets of every observation kind, and a task of each kind that only exists in these tests."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from attentiontuner.demos import Demonstration, DemoStore, DemoWriter
from attentiontuner.methods import get_method
from attentiontuner.runs.config import TrainConfig, paper_config
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, ObservationSpec
from attentiontuner.tasks.task import Task

OBSERVATIONS = {
    "grid": ObservationSpec("grid", (7, 7, 3), MINIGRID_SYMBOLS),
    "image": ObservationSpec("image", (84, 84, 3)),
    "vector": ObservationSpec("vector", (5,)),
}
ACTIONS = ("a", "b", "c", "d")
NETWORK = {"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32}


def toy_task(kind: str) -> Task:
    return Task(
        name=f"toy-{kind}",
        title="Toy",
        env_id="None-v0",
        observation=OBSERVATIONS[kind],
        actions=ACTIONS,
        horizon=9,
        settings={"size": 1},
        epochs={"attentiontuner": 2, "vanilla": 3},
    )


def toy_store(
    folder: Path,
    kind: str = "grid",
    episodes: int = 24,
    shard_episodes: int = 6,
    annotate: str = "all",
    seed: int = 0,
    frames: int = 12,
) -> DemoStore:
    """Random episodes of 3 to 8 steps in which the action at each q of a pair (p, q) is the action at p.

    `annotate`: "all", "none", or "odd" episodes.
    """
    rng = np.random.default_rng(seed)
    observation = OBSERVATIONS[kind]
    pool = (
        rng.normal(size=(frames, 5)).astype(np.float32)
        if kind == "vector"
        else rng.integers(0, 3, (frames, *observation.parts[0][1].shape)).astype(np.uint8)
        * (80 if kind == "image" else 1)
    )
    writer = DemoWriter(
        folder,
        task=f"toy-{kind}",
        settings={"size": 1},
        observation=observation,
        actions=ACTIONS,
        seed=seed,
        episodes=episodes,
        shard_episodes=shard_episodes,
    )
    for index in range(-(-episodes // shard_episodes)):
        numbers = range(index * shard_episodes, min((index + 1) * shard_episodes, episodes))
        shard = [_episode(rng, pool, number) for number in numbers]
        wanted = [annotate == "all" or (annotate == "odd" and number % 2 == 1) for number in numbers]
        pairs = [demo.pairs if want else None for demo, want in zip(shard, wanted, strict=True)]
        writer.write_shard(index, shard, {} if annotate == "none" else {"expert": pairs})
    return DemoStore.open(folder)


def _episode(rng: np.random.Generator, pool: np.ndarray, number: int) -> Demonstration:
    length = int(rng.integers(3, 9))
    actions = rng.integers(0, len(ACTIONS), length)
    actions[2:] = actions[0]
    return Demonstration(
        observations=pool[rng.integers(0, len(pool), length)],
        actions=actions,
        rewards=np.zeros(length, np.float32),
        terminated=True,
        truncated=False,
        seed=number,
        success=True,
        pairs=np.array([(0, q, 1) for q in range(2, length)], np.int32),
        episode=number,
    )


def toy_config(kind: str = "grid", method: str = "attentiontuner", **choices: object) -> TrainConfig:
    known = {field.name for field in fields(get_method(method).network)}
    usual = {name: size for name, size in NETWORK.items() if name in known}
    network = {**usual, **choices.pop("model", {})}  # type: ignore[dict-item]
    if kind == "grid" and method in ("attentiontuner", "vanilla"):
        network = {"embedder": "lookup", **network}
    choices = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "test_fraction": 0.2, **choices}
    return paper_config(toy_task(kind), method, network, **choices)


def without_times(metrics: list[dict[str, object]]) -> list[dict[str, object]]:
    times = ("seconds", "demonstrations_per_second")
    return [{name: value for name, value in epoch.items() if name not in times} for epoch in metrics]
