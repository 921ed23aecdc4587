"""The whole story in three minutes on two idle cores: collect, train with and without memory pairs, evaluate, report.

The task is Hallway, as in the paper: look at the object in the start room, walk along a corridor of thirty pairs of
doors, and enter the one that hides the same object. It is seen once, and asked for up to 120 steps later.
Two networks of the same kind learn from the same hundred demonstrations, which is what a person can record in an
afternoon; only one of them is told which earlier steps the expert recalled.

    python examples/demo.py [FOLDER] [SCALE]      (if not given: demo demo)
"""

import argparse
import sys
import time
from pathlib import Path

from attentiontuner import get_task
from attentiontuner.collecting.collection import collect
from attentiontuner.core.wording import counted
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.filming import make_films
from attentiontuner.evaluation.opening import as_policy
from attentiontuner.experiments.planning.cells import Cell
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.planning.scales import SCALES
from attentiontuner.experiments.reporting.report import build_report
from attentiontuner.experiments.running.jobs import kept_run
from attentiontuner.experiments.running.reproduce import make_plan, reproduce
from attentiontuner.runs.run import Run
from attentiontuner.viz.pictures import save_episode_picture

INTRODUCTION = (
    "Hallway: enter the door that hides the same object as the start room. Two networks of the same kind were trained "
    "on the same {demonstrations} for the same {epochs}. One of them was also told which earlier steps the expert "
    "recalled at each decision; the other (“no pairs”) was not."
)


def draw_tasks(folder: Path) -> None:
    """One picture per task of the paper or with an arm that is installed: frames of an expert's episode, and what it
    recalled."""
    tasks = map(get_task, (*RECIPES["few"].tasks, *RECIPES["robots"].tasks))
    for task in filter(lambda task: task.installed, tasks):
        store = collect(task, 1, seed=7, out=folder / "data" / task.name, workers=1)
        path = folder / "tasks" / f"{task.name}.png"
        save_episode_picture(store.observation, store.actions, store[0], path, f"{task.title}, episode")
        print(f"drawn: {path}", flush=True)


def train_both(folder: Path, scale: str) -> tuple[Cell, list[Path]]:
    """Train and evaluate with and without pairs, side by side; the one with pairs, and films of it."""
    records = folder / "records"
    only = ("hallway", "few-100", "recall", "recall-vanilla")
    plan = make_plan("few", records, only=only, scale=scale, jobs=2, keep_runs=True)
    if reproduce(plan) != 0:
        sys.exit(2)
    cell = next(cell for cell in plan.cells if cell.method == "recall")
    trained, task = Run(kept_run(records, cell)).load_model(), get_task(cell.task, cell.settings)
    results, _ = evaluate(as_policy(trained), task, episodes=8, seed=1, workers=0)
    return cell, make_films(trained, task, results, 1, folder / "films")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=Path("demo"), help="of all it makes")
    parser.add_argument("scale", metavar="SCALE", nargs="?", default="demo", choices=SCALES, help=", ".join(SCALES))
    given = parser.parse_args(words)
    tell(given.folder, given.scale)


def tell(folder: Path, scale: str) -> None:
    started = time.monotonic()
    if scale == "demo":
        print("about three minutes on two idle cores, longer where others keep them busy", flush=True)
    draw_tasks(folder)
    cell, films = train_both(folder, scale)
    title = "What the expert remembered, and what it is worth"
    demonstrations, epochs = counted(cell.facts.demonstrations, "demonstration"), counted(cell.epochs, "epoch")
    introduction = INTRODUCTION.format(demonstrations=demonstrations, epochs=epochs)
    page = build_report(folder / "records", folder / "report", films, title, scale=scale, introduction=introduction)
    print(f"\n{time.monotonic() - started:.0f} s in all. Open {page}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("demo: stopped; the same command goes on from what is finished", file=sys.stderr)
        sys.exit(130)
