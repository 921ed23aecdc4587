"""The store: writing and reading raw 84×84×3 frames on one core, size on disk, packed reading, collecting."""

import os
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from attentiontuner.collecting.collection import collect
from attentiontuner.demos import Demonstration, DemoStore, DemoWriter
from attentiontuner.demos.store import shards
from attentiontuner.spaces.observation import ObservationSpec
from attentiontuner.tasks.task import get_task
from benchmarks import Row

SPEC = ObservationSpec("image", (84, 84, 3))
EPISODES = 150


class Believing:
    """In place of `hashlib`: takes every file for what it should be."""

    def __init__(self, content: bytes) -> None:
        pass

    sha256 = classmethod(lambda cls, content: cls(content))

    def hexdigest(self) -> "Believing":
        return self

    def __ne__(self, other: object) -> bool:
        return False


def mortar_mayhem_episodes(count: int) -> list[Demonstration]:
    """Real frames of Mortar Mayhem's grid variant under random actions: the commands shown, then a walk."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    import gymnasium as gym
    import memory_gym  # noqa: F401 - registers the environments

    env = gym.make("MortarMayhem-Grid-v0", disable_env_checker=True)
    rng = np.random.default_rng(0)
    episodes = []
    for seed in range(count):
        frame, _ = env.reset(seed=seed)
        frames, rewards, ended, cut = [], [], False, False
        while not (ended or cut):
            frames.append(np.array(frame))
            frame, reward, ended, cut, _ = env.step(int(rng.integers(4)))
            rewards.append(float(reward))
        length = len(frames)
        episodes.append(
            Demonstration(np.stack(frames), rng.integers(4, size=length), np.array(rewards), ended, cut, seed, False)
        )
    return episodes


def seconds(function: object) -> float:
    started = time.perf_counter()
    function()  # type: ignore[operator]
    return time.perf_counter() - started


def processor_seconds(function: object) -> float:
    started = time.process_time()
    function()  # type: ignore[operator]
    return time.process_time() - started


def bench_frames(folder: Path) -> list[Row]:
    demonstrations = mortar_mayhem_episodes(EPISODES)
    megabytes = sum(d.observations.nbytes for d in demonstrations) / 1e6
    writer = DemoWriter(
        folder, task="frames", settings={}, observation=SPEC, actions=["stay", "left", "right", "on"], seed=0
    )

    def write() -> None:
        for index in range(EPISODES // 50):
            writer.write_shard(index, demonstrations[50 * index : 50 * (index + 1)], {})

    def read() -> None:
        for demonstration in DemoStore.open(folder):
            assert demonstration.observations.nbytes

    written, read_back = seconds(write), min(seconds(read) for _ in range(3))
    packed = min(seconds(DemoStore.open(folder).read_packed) for _ in range(3))
    on_disk = DemoStore.open(folder).summary()["bytes"] / 1e6
    return [
        Row("raw Mortar Mayhem frames", megabytes, "MB"),
        Row("write raw frames, one core", megabytes / written, "MB/s", ">= 150"),
        Row("read as demonstrations, one core", megabytes / read_back, "MB/s", ">= 900"),
        Row("read packed, one core", megabytes / packed, "MB/s", ">= 900"),
        Row("size on disk", 100 * on_disk / megabytes, "% of raw", "< 3"),
    ]


def bench_hallway(folder: Path) -> list[Row]:
    taken = seconds(lambda: collect(get_task("hallway"), 5000, 1, folder, workers=2))
    packed = min(seconds(DemoStore.open(folder).read_packed) for _ in range(3))
    compared, believed = [], []
    for _ in range(7):  # in turn, so that a busy moment hits both
        compared.append(processor_seconds(DemoStore.open(folder).read_packed))
        with patch.object(shards, "hashlib", Believing):
            believed.append(processor_seconds(DemoStore.open(folder).read_packed))
    return [
        Row("collect 5,000 Hallway demonstrations, two workers", taken, "s", "< 10"),
        Row("read 5,000 Hallway demonstrations packed", packed, "s", "< 2"),
        Row("… more than without comparing checksums", 100 * (min(compared) / min(believed) - 1), "%", "<= 10"),
    ]


def bench() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [*bench_frames(Path(folder) / "frames"), *bench_hallway(Path(folder) / "hallway")]


if __name__ == "__main__":
    for row in bench():
        print(row)
