"""The Memory Gym tasks: steps a second against the package's own environments, and what collecting them costs."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from attentiontuner.tasks.task import get_task
from benchmarks import Row

STEPS = 1500
ROUNDS = 3
SEARING_EPISODES = 1500
SEARING_PAPER = 40_000


def stepping(reset: Any, step: Any, actions: list[Any]) -> float:
    """Processor seconds for `STEPS` steps, resets included."""
    started, seed = time.process_time(), 0
    reset(seed=seed)
    for index in range(STEPS):
        _, _, terminated, truncated, _ = step(actions[index % len(actions)])
        if terminated or truncated:
            seed += 1
            reset(seed=seed)
    return time.process_time() - started


def bench_steps(name: str) -> list[Row]:
    """Ours and the package's own environment with the same actions, in turns; its `close()` leaves us the display."""
    import gymnasium as gym

    task = get_task(name)
    ours = task.make_env().unwrapped
    walk = np.random.default_rng(0).integers(task.actions.count, size=200).repeat(3).tolist()
    their_walk = [[a // 3, a % 3] for a in walk] if task.actions.count == 9 else walk
    own, package = [], []
    for _ in range(ROUNDS):
        own.append(stepping(ours.reset, ours.step, walk))
        theirs = gym.make(task.env_id.split("/")[1], disable_env_checker=True).unwrapped
        package.append(stepping(theirs.reset, theirs.step, their_walk))
        theirs.close()
    return [
        Row(f"{task.title}, steps on one core", STEPS / min(own), "steps/s"),
        Row(f"{task.title}, speed against the package", min(package) / min(own), "x", ">= 1"),
    ]


def collecting(name: str, episodes: int, folder: Path) -> tuple[float, list[float], float]:
    """Seconds, resident set of all processes together over time [GB] and MB on disk of a `collect` in two workers."""
    command = [sys.executable, "-m", "attentiontuner", "collect", name]
    command += ["--episodes", str(episodes), "--workers", "2", "--out", str(folder)]
    started, resident = time.perf_counter(), []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            resident.append(resident_gigabytes(process.pid))
            time.sleep(0.05)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    return time.perf_counter() - started, resident, size


def resident_gigabytes(process: int) -> float:
    """Resident set of a process and all its descendants, in GB; pages they share are counted for each."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9 + sum(resident_gigabytes(int(child)) for child in children)


def bench_mortar(folder: Path) -> list[Row]:
    seconds, _, size = collecting("mortar-mayhem", 4000, folder)
    return [
        Row("collect 4,000 Mortar Mayhem demonstrations, two workers", seconds, "s", "< 60"),
        Row("4,000 Mortar Mayhem demonstrations on disk", size, "MB", "< 200"),
    ]


def bench_searing(folder: Path) -> list[Row]:
    seconds, resident, size = collecting("searing-spotlights", SEARING_EPISODES, folder)
    third = len(resident) // 3
    middle, last = np.median(resident[third : 2 * third]), np.median(resident[2 * third : -5])
    growth = max(0.0, float(last - middle)) / (SEARING_EPISODES / 3)
    share = SEARING_PAPER / SEARING_EPISODES
    few = f"{SEARING_EPISODES:,}"
    return [
        Row(f"resident set of collecting {few} Searing Spotlights demonstrations", max(resident), "GB", "< 4"),
        Row(
            "the same for 40,000, if it went on growing as it did", max(resident) + growth * SEARING_PAPER, "GB", "< 4"
        ),
        Row(f"40,000 Searing Spotlights demonstrations, from {few}", share * seconds / 60, "min"),
        Row(f"40,000 Searing Spotlights demonstrations on disk, from {few}", share * size, "MB"),
    ]


def bench() -> list[Row]:
    rows = [row for name in ("mortar-mayhem", "mystery-path", "searing-spotlights") for row in bench_steps(name)]
    with tempfile.TemporaryDirectory() as folder:
        return [*rows, *bench_mortar(Path(folder) / "mortar"), *bench_searing(Path(folder) / "searing")]


if __name__ == "__main__":
    for row in bench():
        print(row)
