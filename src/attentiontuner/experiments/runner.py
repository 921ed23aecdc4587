"""One cell from nothing to its record: collect, train, evaluate, write. Killed at any moment, it goes on where it was.

Work in progress lives in `RECORDS/.work/<folder>/<cell>/` and is deleted when the record is written.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from attentiontuner.demos import DemoStore
from attentiontuner.evaluation.policy import load_policy
from attentiontuner.evaluation.rollout import rollout
from attentiontuner.experiments.attention import attention_maps
from attentiontuner.experiments.budget import CALIBRATION_SECONDS, SPARE_SECONDS, begun_run, evaluation_reserve
from attentiontuner.experiments.cells import EVALUATION_SEED, TEST_DATA_SEED, TRAIN_DATA_SEED, cell_config
from attentiontuner.experiments.datasets import dataset
from attentiontuner.experiments.jobs import Job, Outcome, kept_run, work_folder
from attentiontuner.experiments.records import Record, compact_curves, finished, summarise, write_record
from attentiontuner.files import locked
from attentiontuner.seeds import evaluation_seed
from attentiontuner.tasks import Task, get_task
from attentiontuner.training.checkpoint import load_model, read_config
from attentiontuner.training.config import TrainConfig
from attentiontuner.training.log import read_metrics
from attentiontuner.training.trainer import train
from attentiontuner.training.versions import software
from attentiontuner.wording import counted

KEPT_OF_A_RUN = ("config.json", "metrics.jsonl", "model.safetensors")


def run_cell(job: Job) -> Outcome:
    """Run one cell in this process, unless its record is there or the time left cannot finish it."""
    cell, started = job.cell, time.monotonic()
    work = work_folder(job.records, cell)
    work.mkdir(parents=True, exist_ok=True)
    with locked(work.with_name(f"{cell.name}.lock")):
        if finished(job.records, cell):
            return Outcome(cell, "there")
        task = get_task(cell.task, cell.settings)
        stores, collect_seconds = _stores(job)
        config = cell_config(cell, task)
        if lacking := _train_in_time(job, config, stores, work / "run"):
            return Outcome(cell, "later", lacking, time.monotonic() - started)
        record = _evaluate(job, task, stores[1], work / "run", collect_seconds)
        write_record(job.records, record)
        if job.keep_run:
            _keep(work / "run", kept_run(job.records, cell))
        shutil.rmtree(work, ignore_errors=True)
    text = f"{record.success:.1f} % of {counted(cell.episodes, 'episode')}"
    return Outcome(cell, "done", text, time.monotonic() - started)


def device_name() -> str:
    """The device that trains here, as records call it: the GPU's name, or the number of CPU threads."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"CPU, {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"


def limit_threads(cores: int) -> None:
    """Let torch use this many CPU threads in this process, or fewer where OMP_NUM_THREADS says so."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(min(cores, int(said)) if said.isdecimal() and int(said) else cores)


def _stores(job: Job) -> tuple[tuple[DemoStore, DemoStore], float]:
    cell = job.cell
    sizes = ((cell.demos, TRAIN_DATA_SEED), (cell.test_demos, TEST_DATA_SEED))
    (train_set, first), (test_set, second) = (
        dataset(job.data, cell.task, cell.settings, demos, seed, workers=job.cores) for demos, seed in sizes
    )
    return (train_set, test_set), first + second


def _train_in_time(job: Job, config: TrainConfig, stores: tuple[DemoStore, DemoStore], run: Path) -> str:
    """Train to the end; "" when it is reached, else why it was not."""
    cell = job.cell

    def done_after(seconds: float | None) -> bool:
        return train(config, stores[0], run, test_data=stores[1], budget_seconds=seconds).finished

    if job.deadline is None:
        return "" if done_after(None) else "it was stopped"
    if not begun_run(cell, run) and done_after(min(CALIBRATION_SECONDS, job.deadline - time.time() - SPARE_SECONDS)):
        return ""
    begun = begun_run(cell, run)
    if begun is None:
        return "not one batch fitted into the time left"
    reserve = evaluation_reserve(begun.epoch_seconds * cell.epochs, cell)
    needed = begun.epoch_seconds * (cell.epochs - begun.epochs) + reserve
    remaining = job.deadline - time.time()
    if needed > remaining:
        return f"what is left of it needs about {needed:.0f} s, {max(remaining, 0):.0f} s are left"
    return "" if done_after(remaining - reserve) else "the time was over before the last epoch"


def _evaluate(job: Job, task: Task, test: DemoStore, run: Path, collect_seconds: float) -> Record:
    cell, lines, config = job.cell, read_metrics(run), read_config(run)
    started = time.monotonic()
    evaluation = _play(job, task, run)
    longer = {
        str(length): _play(job, get_task(task.name, {**task.settings, "length": length}), run)
        for length in cell.lengths
    }
    evaluate_seconds = time.monotonic() - started
    versions = software()
    return Record(
        cell=cell,
        config=config.to_json(),
        revision=versions.pop("git", None),
        versions=versions,
        device=device_name(),
        seconds={
            "collect": collect_seconds,
            "train": sum(float(line["seconds"]) for line in lines),
            "evaluate": evaluate_seconds,
        },
        curves=compact_curves(lines),
        evaluation=evaluation,
        attention=attention_maps(load_model(run)[0], config, test),
        longer=longer,
    )


def _play(job: Job, task: Task, run: Path) -> dict[str, Any]:
    """The evaluation part of a record, in the worlds of `task`."""
    seeds = [evaluation_seed(EVALUATION_SEED, index) for index in range(job.cell.episodes)]
    policy = load_policy(run, max_steps=task.max_steps)
    results = rollout(policy, task, seeds, workers=job.cores if job.cores > 1 else 0)
    return summarise(
        [result.success for result in results],
        [result.return_ for result in results],
        [result.length for result in results],
        EVALUATION_SEED,
        seeds[0],
    )


def _keep(run: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT_OF_A_RUN:
        if (run / name).exists():
            shutil.copyfile(run / name, target / name)
