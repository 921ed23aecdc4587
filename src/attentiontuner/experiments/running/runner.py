"""One cell from nothing to its record: collect, train, evaluate, write. Killed at any moment, it goes on where it was.

Work in progress lives in `RECORDS/.work/<folder>/<cell>/` and is deleted when the record is written.
"""

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked, remove_leftovers
from attentiontuner.core.versions import software
from attentiontuner.core.wording import counted
from attentiontuner.demos import DemoStore
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import as_policy
from attentiontuner.evaluation.rollout import default_workers
from attentiontuner.experiments.planning.cells import (
    EVALUATION_SEED,
    TEST_DATA_SEED,
    TRAIN_DATA_SEED,
    Cell,
    cell_config,
)
from attentiontuner.experiments.records import (
    Record,
    compact_curves,
    evaluation_part,
    finished,
    record_path,
    write_record,
)
from attentiontuner.experiments.running.attention_maps import attention_maps
from attentiontuner.experiments.running.budget import CALIBRATION_SECONDS, SPARE_SECONDS, begun_run, evaluation_reserve
from attentiontuner.experiments.running.datasets import dataset
from attentiontuner.experiments.running.jobs import Job, Outcome, kept_run, work_folder, work_lock, work_run
from attentiontuner.runs.config import TrainConfig
from attentiontuner.runs.run import Run, Trained
from attentiontuner.tasks.task import Task, get_task
from attentiontuner.training.train import train


def run_cell(job: Job) -> Outcome:
    """Run one cell in this process, unless its record is there or the time left cannot finish it.

    The run is kept before the record is written, and the work deleted after it: killed in between, the same command
    goes on from the work, or only clears it away.
    """
    cell, started = job.cell, time.monotonic()
    work = work_folder(job.records, cell)
    work.mkdir(parents=True, exist_ok=True)
    with locked(work_lock(job.records, cell)):
        remove_leftovers(record_path(job.records, cell))
        if finished(job.records, cell):
            shutil.rmtree(work, ignore_errors=True)
            return Outcome(cell, "there")
        task = get_task(cell.task, cell.settings)
        stores, collect_seconds = _stores(job)
        config, run = cell_config(cell, task), work_run(job.records, cell)
        if lacking := _train_in_time(job, config, stores, run):
            return Outcome(cell, "later", lacking, time.monotonic() - started)
        record = _evaluate(job, task, stores[1], run, collect_seconds)
        if job.keep_run:
            run.copy_to(kept_run(job.records, cell))
        write_record(job.records, record)
        shutil.rmtree(work, ignore_errors=True)
    text = f"{record.success:.1f} % of {counted(cell.episodes, 'episode')}"
    return Outcome(cell, "done", text, time.monotonic() - started)


def clear_finished(records: Path, cell: Cell, keep_run: bool) -> None:
    """Delete the work of a cell that has its record: of a process that was killed between the two."""
    if not (work := work_folder(records, cell)).exists():
        return
    with contextlib.suppress(UserError), locked(work_lock(records, cell), wait=False):  # else somebody is at it
        run, done = work_run(records, cell), None
        with contextlib.suppress(UserError):  # half of it deleted already
            done = run.progress()
        if keep_run and done is not None and done.epoch == cell.epochs:
            run.copy_to(kept_run(records, cell))
        shutil.rmtree(work, ignore_errors=True)


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


def _train_in_time(job: Job, config: TrainConfig, stores: tuple[DemoStore, DemoStore], run: Run) -> str:
    """Train to the end; "" when it is reached, else why it was not."""
    cell = job.cell

    def done_after(seconds: float | None) -> bool:
        return train(config, stores[0], run.path, test_data=stores[1], budget_seconds=seconds).finished

    if job.deadline is None:
        return "" if done_after(None) else "it was stopped"
    remaining = job.deadline - time.monotonic()
    if job.partly:
        return "" if done_after(remaining - SPARE_SECONDS) else "the time was over; what was done is kept"
    if not begun_run(cell, run) and done_after(min(CALIBRATION_SECONDS, remaining - SPARE_SECONDS)):
        return ""
    begun = begun_run(cell, run)
    if begun is None:
        return "not one batch fitted into the time left"
    reserve = evaluation_reserve(begun.epoch_seconds * cell.epochs, cell)
    needed = begun.epoch_seconds * (cell.epochs - begun.epochs) + reserve
    remaining = job.deadline - time.monotonic()
    if needed > remaining:
        return f"what is left of it needs about {needed:.0f} s, {max(remaining, 0):.0f} s are left"
    return "" if done_after(remaining - reserve) else "the time was over before the last epoch"


def _evaluate(job: Job, task: Task, test: DemoStore, run: Run, collect_seconds: float) -> Record:
    cell, lines, trained = job.cell, run.metrics(), run.load_model()
    maps = attention_maps(trained.model, trained.config, test)  # on the CPU; policies move the model
    evaluation, seconds = _play(job, task, trained, run.evaluation)
    longer = {}
    for length in cell.lengths:
        there = get_task(task.name, {**task.settings, "length": length})
        longer[str(length)], more = _play(job, there, trained, run.evaluation / f"length-{length}")
        seconds += more
    versions = software()
    return Record(
        cell=cell,
        config=trained.config.to_json(),
        revision=versions.pop("git", None),
        versions=versions,
        device=device_name(),
        seconds={
            "collect": collect_seconds,
            "train": sum(float(line["seconds"]) for line in lines),
            "evaluate": seconds,
        },
        curves=compact_curves(lines),
        evaluation=evaluation,
        attention=maps,
        longer=longer,
        jobs=job.jobs,
    )


def _play(job: Job, task: Task, trained: Trained, out: Path) -> tuple[dict[str, Any], float]:
    """The evaluation part of a record, in the worlds of `task`, and its seconds; stopped, it goes on from `out`."""
    results, summary = evaluate(
        as_policy(trained, max_steps=task.max_steps),
        task,
        job.cell.episodes,
        EVALUATION_SEED,
        out,
        workers=default_workers(task, job.cell.episodes, job.cores),
        of={"policy": "model", "weights": trained.sha256},
    )
    return evaluation_part(results, EVALUATION_SEED), float(summary["seconds"])
