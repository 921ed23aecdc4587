"""What memory pairs cost in long episodes, on a CPU: time and memory of a step with them and without, on the T-maze.

Times are of turns: a step with pairs, a step without, and again. Memory is the largest that a process of its own had
while it took one step: `python -m benchmarks.horizon METHOD LENGTH BATCH` prints it, with the processor's seconds.
`OMP_NUM_THREADS=1 python -m benchmarks.horizon draw docs/images` draws both against the length, for every method.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from attentiontuner.collecting.collection import collect
from attentiontuner.core.files import write_bytes, write_json
from attentiontuner.core.threads import wait_briefly
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos import PackedDemos
from attentiontuner.methods import all_methods, get_method
from attentiontuner.models.optimiser import make_optimiser
from attentiontuner.runs.config import TrainConfig, paper_config
from attentiontuner.tasks.task import get_task
from attentiontuner.training.step import TrainStep
from benchmarks import Row

SEED = 1
WITH_PAIRS = ("attentiontuner", "recall")
LENGTHS = {31: 32, 301: 32, 3_001: 2}
"""Steps of an episode → episodes in a step that is timed."""

TURNS = {31: 20, 301: 4, 3_001: 3}
NETWORK = {"d_model": 64, "layers": 2, "heads": 2, "feedforward": 256}
"""As recall networks have it for few demonstrations; the other method's is made as large, to compare like with like."""

GB = 2**30

DRAWN = (31, 101, 301, 1_001, 3_001, 10_001)
"""Steps of the episodes in the figure."""


def bench() -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    rows = []
    for method in WITH_PAIRS:
        without = get_method(method).without_pairs
        assert without is not None
        for length in LENGTHS:
            ours, theirs = step_seconds((method, without), length, LENGTHS[length], TURNS[length])
            rows.append(Row(f"time, {method} / {without}, {length:,} steps", ours / theirs, "×", "<= 1.3"))
        ratio = cost(method, 3_001, 32).bytes / cost(without, 3_001, 32).bytes
        rows.append(Row(f"memory, {method} / {without}, 3,001 steps, batch 32", ratio, "×", "<= 1.3"))
        longest = cost(method, 10_001, 1).bytes / GB
        rows.append(Row(f"memory, {method}, 10,001 steps, batch 1", longest, "GB", "< 2"))
    torch.set_num_threads(threads)
    return rows


def demonstrations(length: int, episodes: int) -> PackedDemos:
    """T-mazes of that many steps."""
    with tempfile.TemporaryDirectory() as folder:
        return collect(get_task("tmaze", {"length": length}), episodes, SEED, Path(folder) / "tmaze", 1).read_packed()


def config_of(method: str, length: int) -> TrainConfig:
    known = {item.name for item in fields(get_method(method).network)}
    network = {name: size for name, size in NETWORK.items() if name in known}
    return paper_config(get_task("tmaze", {"length": length}), method, network)


def step_of(method: str, length: int, packed: PackedDemos) -> TrainStep:
    config = config_of(method, length)
    torch.manual_seed(SEED)
    model = config.network.build().train()
    return TrainStep(model, make_optimiser(model, config.learning_rate), DemoData(packed), config)


def step_seconds(methods: tuple[str, ...], length: int, episodes: int, turns: int) -> list[float]:
    """Median seconds of a step of each method; they take turns."""
    packed, rows = demonstrations(length, episodes), np.arange(episodes)
    steps = [step_of(method, length, packed) for method in methods]
    seconds: list[list[float]] = [[] for _ in methods]
    for turn in range(turns + 1):
        for step, own in zip(steps, seconds, strict=True):
            started = time.perf_counter()
            step(rows)
            if turn:  # the first warms up
                own.append(time.perf_counter() - started)
    return [float(np.median(own)) for own in seconds]


class Cost(NamedTuple):
    """Of one step in a process of its own: the most bytes that the process had, and processor seconds of the step."""

    bytes: int
    seconds: float


def cost(method: str, length: int, batch: int) -> Cost:
    command = [sys.executable, "-m", "benchmarks.horizon", method, str(length), str(batch)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return Cost(int(told[0]), float(told[1]))


def tell(method: str, length: int, batch: int) -> None:
    """Print the `Cost` of this process; a short step is taken twice, the first time to warm up."""
    step = step_of(method, length, demonstrations(length, batch))
    for _ in range(2 if length * batch < 2_000 else 1):
        started = time.process_time()
        step(np.arange(batch))
    seconds = time.process_time() - started
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    print(1024 * int(found[1]) if found else 0, seconds)


# --- the figure of docs/horizon.md -----------------------------------------------------------------------------------


def draw(folder: Path) -> None:
    """Measure every method at every length, and write `horizon.png` and the numbers, `horizon.json`, to a folder."""
    costs = {method: {length: cost(method, length, 1) for length in DRAWN} for method in all_methods()}
    write_json(
        folder / "horizon.json", {name: {str(n): one._asdict() for n, one in of.items()} for name, of in costs.items()}
    )
    write_bytes(folder / "horizon.png", drawn(costs))


def drawn(costs: Mapping[str, Mapping[int, Cost]]) -> bytes:
    """The figure: a colour for each method, dashed without pairs."""
    from matplotlib.figure import Figure

    colours: dict[str, str] = {}
    for number, name in enumerate(name for name, method in all_methods().items() if method.pairs):
        colours[name] = colours[get_method(name).without_pairs or name] = f"C{number}"
    figure = Figure((11, 3.8), layout="constrained")
    for place, (title, value) in enumerate(SHOWN.items()):
        axes = figure.add_subplot(
            1, 2, place + 1, xscale="log", yscale="log", xlabel="steps of an episode", title=title
        )
        for name, of in costs.items():
            method, line = get_method(name), "o-" if get_method(name).pairs else "x--"
            axes.plot(list(of), [value(one) for one in of.values()], line, color=colours[name], label=method.title)
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside right")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120)
    return picture.getvalue()


SHOWN = {
    "processor seconds of a step, one episode": lambda one: one.seconds,
    "memory of the process, GB": lambda one: one.bytes / GB,
}

if __name__ == "__main__":
    wait_briefly()
    if sys.argv[1] == "draw":
        draw(Path(sys.argv[2]))
    else:
        tell(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
