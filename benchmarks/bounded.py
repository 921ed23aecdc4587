"""What a bounded memory costs: success against its places and against the length of an episode, by every rule of what
is kept, and the time of a step early and late in an episode.

`python -m benchmarks.bounded train RUNS` trains the policies in a folder, `python -m benchmarks.bounded play RUNS OUT`
plays them and writes `bounded.json` and `bounded.png`, on all cores at once; `draw RUNS OUT` draws the latter anew.
"""

import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attentiontuner.collecting.collection import collect
from attentiontuner.core.files import write_bytes, write_json
from attentiontuner.core.processes import usable_cores
from attentiontuner.core.threads import wait_briefly
from attentiontuner.data.windows import far_recalled
from attentiontuner.demos import DemoStore
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.methods import facts_of
from attentiontuner.models.bound import Bound
from attentiontuner.models.recall import RecallTransformer
from attentiontuner.models.sizes import RecallConfig
from attentiontuner.runs.config import paper_config
from attentiontuner.tasks.task import get_task
from attentiontuner.training.train import train
from benchmarks import Row

SEED, DATA_SEED = 7, 0
RECENT, KEEP = 8, 8
"""The memory whose success is drawn against the length."""

RULES = ("score", "attention", "recent")


def bench() -> list[Row]:
    early, late = step_seconds(at=(1_000, 10_000))
    return [Row("time of a step, 10,000th / 1,000th, 16 places", late / early, "×", "0.8 to 1.2")]


TURNS, IN_A_TURN = 40, 10
"""Turns that a step is timed in, and steps of each."""


def step_seconds(at: tuple[int, ...]) -> list[float]:
    """Median processor seconds of a step from each of these steps of an episode on, of a network as recall networks
    have it for few demonstrations. Each has an episode of its own and plays up to there; then they take turns."""
    episodes = [Played(step + TURNS * IN_A_TURN) for step in at]
    for step, episode in zip(at, episodes, strict=True):
        episode.play(step)
    found: list[list[float]] = [[] for _ in at]
    for _ in range(TURNS):
        for episode, own in zip(episodes, found, strict=True):
            own += episode.play(IN_A_TURN)
    return [float(np.median(own)) for own in found]


class Played:
    """An episode of so many steps that is being played with a memory of 16 places."""

    def __init__(self, length: int) -> None:
        torch.manual_seed(SEED)
        task = get_task("tmaze", {"length": length, "distractors": 0.1})
        network = RecallTransformer(
            RecallConfig(task.observation, task.actions, d_model=64, feedforward=256, keeps=True)
        )
        self.policy = ModelPolicy(network.bounded(Bound(RECENT, KEEP)), sys.maxsize)
        self.policy.reset(1)
        self.env = task.make_env()
        self.seen = self.env.reset(seed=SEED)[0]

    def play(self, steps: int) -> list[float]:
        """Walk on; the processor seconds that the policy took for each step."""
        found = []
        for _ in range(steps):
            started = time.process_time()
            self.policy.act(self.seen[None])
            found.append(time.process_time() - started)
            self.seen = self.env.step(2)[0]
        return found


# --- what is trained -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A policy: its task and settings, how many demonstrations, how long its windows are (None: none), for how many
    epochs, where not for as many as the recipe says, and whether steps know their place."""

    task: str
    episodes: int
    window: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    epochs: int | None = None
    positions: bool = True


POLICIES = {
    "tmaze": Trained("tmaze", 300, 32, {"length": 1_000}, 60),
    "tmaze-two-cues": Trained("tmaze", 300, 32, {"length": 1_000, "distractors": 0.1, "cues": 2}, 60),
    "tmaze-100000": Trained("tmaze", 8, 32, {"length": 100_000, "distractors": 0.1}, 1_714),
    **{task: Trained(task, 100, 16) for task in ("hallway", "ordering", "counting")},
    **{f"{task}-no-positions": Trained(task, 100, 16, positions=False) for task in ("hallway", "ordering", "counting")},
    **{f"{task}-whole": Trained(task, 100, None) for task in ("hallway", "ordering", "counting")},
}


def learn(name: str, folder: Path) -> dict[str, Any]:
    """Train a policy in `folder / name`; what it took."""
    torch.set_num_threads(1)
    own, started = POLICIES[name], time.process_time()
    task = get_task(own.task, dict(own.settings))
    data = folder / "data" / name
    store = DemoStore.open(data) if data.exists() else collect(task, own.episodes, DATA_SEED, data, 1)
    collected = time.process_time() - started
    choices = {"window": own.window, "labels": "exact"} | ({"epochs": own.epochs} if own.epochs else {})
    network = {"positions": own.positions}
    config = paper_config(task, "recall", network, facts_of(store), **choices)
    result = train(config, store, folder / name, device="cpu")
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    return {
        "policy": name,
        "collecting": round(collected, 1),
        "training": round(result.seconds, 1),
        "epochs": len(result.metrics),
        "gigabytes": round(int(peak[1]) / 2**20, 2) if peak else None,
    }


# --- what is played --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """Episodes of a policy with a memory; `recent` and `keep` None: everything is kept."""

    policy: str
    episodes: int
    recent: int | None
    keep: int | None
    by: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    first: int = 0


def play(one: Play, folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    run, own = folder / one.policy, POLICIES[one.policy]
    task = get_task(own.task, {**own.settings, **one.settings})
    memory: dict[str, Any] = {"recent": one.recent, "keep": one.keep, "keep_by": one.by}
    started = time.process_time()
    policy = load_policy(run, device="cpu", max_steps=task.max_steps, **memory)
    results, _ = evaluate(policy, task, one.episodes, SEED + one.first, batch=one.episodes, workers=0)
    solved = sum(result.success for result in results)
    return {**asdict(one), "solved": solved, "seconds": round(time.process_time() - started, 1)}


def plays(needed: Mapping[str, int]) -> Iterable[Play]:
    """All that is drawn and told; `needed`: steps that a demonstration recalls from beyond its window at most."""
    for part in range(4):
        yield Play("tmaze", 50, RECENT, KEEP, "score", {"length": 100_000}, part)
        yield Play(TWO_CUES, 50, RECENT, KEEP, "score", {"length": 100_000}, part)
    yield Play("tmaze-100000", 50, RECENT, KEEP, "score")
    for by in RULES[1:]:
        yield Play(TWO_CUES, 50, RECENT, KEEP, by, {"length": 100_000})
    for length in (30_000, 10_000, 3_000, 1_000, 300, 100):
        for by in RULES:
            yield Play(TWO_CUES, 200 if length < 10_000 else 50, RECENT, KEEP, by, {"length": length})
        if length <= 3_000:
            yield Play(TWO_CUES, 50, None, None, "all", {"length": length})
    for keep in (0, 1, 2, 3, 4, 16, 32, 56):
        for by in RULES:
            yield Play(TWO_CUES, 200, RECENT, keep, by)
    for name in ("hallway", "ordering", "counting"):
        yield Play(f"{name}-whole", 300, None, None, "all")
        for policy in (name, f"{name}-no-positions"):
            yield Play(policy, 300, None, None, "all")
            for keep in sorted({needed[name], -(-needed[name] // 2), 2 * needed[name]}):
                for by in RULES:
                    yield Play(policy, 300, 16, keep, by)


TWO_CUES = "tmaze-two-cues"


def at_once(work: Callable[..., dict[str, Any]], jobs: Iterable[tuple[Any, ...]], out: Path) -> list[dict[str, Any]]:
    """Do all jobs, each in a process of its own; what is done is kept in `out`."""
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(usable_cores(), get_context("spawn"), max_tasks_per_child=1) as pool:
        for future in as_completed([pool.submit(work, *job) for job in jobs]):
            found.append(future.result())
            print(json.dumps(found[-1]), flush=True)
            write_json(out, found)
    return found


def needed_by(folder: Path, name: str) -> int:
    store, own = DemoStore.open(folder / "data" / name), POLICIES[name]
    assert own.window is not None
    return max(len(steps) for steps in far_recalled(store.read_pairs(), own.window))


# --- the figure of docs/horizon.md -----------------------------------------------------------------------------------


def together(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The plays of the same policy with the same memory in the same worlds, added up, in order."""
    sums: dict[str, dict[str, Any]] = {}
    for one in found:
        same = {name: one[name] for name in ("policy", "settings", "by", "recent", "keep")}
        own = sums.setdefault(json.dumps(same, sort_keys=True), {**same, "episodes": 0, "solved": 0})
        own["episodes"], own["solved"] = own["episodes"] + one["episodes"], own["solved"] + one["solved"]
    return [sums[key] for key in sorted(sums)]


def draw(found: list[dict[str, Any]], out: Path) -> None:
    """Success against the places for older steps, and against the length, with two cues among distractors."""
    from matplotlib.figure import Figure

    own = POLICIES[TWO_CUES].settings["length"]
    figure = Figure((9, 3.6), layout="constrained")
    against = {
        f"places for older steps (length {own:,})": lambda one: (
            one["keep"] if one["settings"].get("length", own) == own else None
        ),
        f"steps of an episode ({KEEP} places for older ones)": lambda one: (
            one["settings"].get("length", own) if one["keep"] in (KEEP, None) else None
        ),
    }
    for place, (label, value) in enumerate(against.items()):
        axes = figure.add_subplot(1, 2, place + 1, xlabel=label, ylim=(-3, 103), ylabel="success, %")
        if place == 0:
            axes.set_xscale("symlog", base=2, linthresh=1)
        else:
            axes.set_xscale("log")
        for by, title in LINES.items():
            mine = [one for one in found if one["policy"] == TWO_CUES and one["by"] == by and value(one) is not None]
            points = sorted((value(one), 100 * one["solved"] / one["episodes"]) for one in mine)
            if points and by != "all":
                axes.plot(*zip(*points, strict=True), marker="o", label=title)
            elif points:
                axes.plot(*zip(*points, strict=True), "k--", marker="x", label=title)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120)
    write_bytes(out, drawn.getvalue())


LINES = {
    "score": "by keep score",
    "attention": "by what was recalled of them",
    "recent": "the most recent",
    "all": "everything",
}


def main(what: str, folder: Path, out: Path | None = None) -> None:
    if what == "train":
        at_once(learn, [(name, folder) for name in POLICIES], folder / "trained.json")
        return
    assert out is not None
    if what == "play":
        needed = {name: needed_by(folder, name) for name in ("hallway", "ordering", "counting")}
        at_once(play, [(one, folder) for one in plays(needed)], folder / "played.json")
        trained, played = (json.loads((folder / f"{name}.json").read_text()) for name in ("trained", "played"))
        early, late = step_seconds(at=(1_000, 100_000))
        steps = {"1000": early, "100000": late}
        write_json(out / "bounded.json", {"trained": trained, "seconds_of_a_step": steps, "played": together(played)})
    draw(json.loads((out / "bounded.json").read_text())["played"], out / "bounded.png")


if __name__ == "__main__":
    wait_briefly()
    main(sys.argv[1], *map(Path, sys.argv[2:]))
