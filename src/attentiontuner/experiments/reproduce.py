"""A recipe from the command to its records: which cells are missing, which fit the time left, and running them."""

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attentiontuner.cores import usable_cores
from attentiontuner.errors import UserError
from attentiontuner.experiments.budget import SPARE_SECONDS, Speeds
from attentiontuner.experiments.cells import Cell, expand
from attentiontuner.experiments.datasets import dataset_path
from attentiontuner.experiments.jobs import Job, Outcome, work_folder
from attentiontuner.experiments.recipes import get_recipe
from attentiontuner.experiments.records import RecordError, finished, read_record, read_records, record_path, state_of
from attentiontuner.files import make_folder
from attentiontuner.training.log import read_metrics
from attentiontuner.wording import counted

Executor = Literal["local", "ray"]
STATUS_SECONDS = 30.0
MINIMUM_SECONDS = 5.0
"""With less time left than this, no cell is tried."""


@dataclass(frozen=True)
class Plan:
    """What to run and how.

    Attributes:
        cells: in the order they should run.
        records: folder of the records. data: folder of the data sets, `RECORDS/.data` by default.
        budget: seconds; None: no limit.
        jobs: cells side by side (with Ray: on each node or GPU).
        keep_runs: keep trained models under `RECORDS/.runs/`.
    """

    cells: Sequence[Cell]
    records: Path
    data: Path
    budget: float | None = None
    jobs: int = 1
    executor: Executor = "local"
    keep_runs: bool = False


def make_plan(
    recipe: str,
    records: Path,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    scale: str = "paper",
    budget: float | None = None,
    jobs: int = 1,
    executor: Executor = "local",
    data: Path | None = None,
    keep_runs: bool = False,
) -> Plan:
    """The plan of a recipe; nothing is read or written yet."""
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: give at least 1")
    if keep_runs and executor != "local":
        raise UserError(f"--keep-runs: --executor {executor} brings back records alone; leave one of the two out")
    cells = expand(get_recipe(recipe), scale, only, seeds)
    return Plan(cells, records, data or records / ".data", budget, jobs, executor, keep_runs)


def missing_cells(plan: Plan) -> list[Cell]:
    """The cells without a valid record. Damaged records are set aside; other obstacles are named all at once."""
    missing, obstacles = [], []
    for cell in plan.cells:
        try:
            if finished(plan.records, cell) is None:
                missing.append(cell)
        except RecordError as error:
            obstacles.append(str(error))
    if obstacles:
        more = f" (and {len(obstacles) - 1} more)" if len(obstacles) > 1 else ""
        raise UserError(obstacles[0] + more)
    return missing


def dry_run(plan: Plan) -> str:
    """The cells as a table: what would run, with which sizes, and what is there already."""
    lines = [f"{'cell':<64}{'demos':>8}{'epochs':>8}{'episodes':>10}  state"]
    for cell in plan.cells:
        sizes = f"{cell.demos:>8}{cell.epochs:>8}{cell.episodes:>10}"
        lines.append(f"{cell.folder + '/' + cell.name:<64}{sizes}  {state_of(plan.records, cell)}")
    return "\n".join(lines)


def reproduce(plan: Plan) -> int:
    """Run what is missing. The exit code is 2 where a cell failed, else 0: cells left for later are no failure."""
    started = time.time()
    todo = missing_cells(plan)
    there = len(plan.cells) - len(todo)
    cells = counted(len(plan.cells), "cell")
    print(f"{cells}: {there} with a record, {len(todo)} to run", file=sys.stderr, flush=True)
    if not todo:
        return 0
    for folder in (plan.records, plan.data):
        make_folder(folder)
    campaign = Campaign(plan, len(todo), None if plan.budget is None else started + plan.budget)
    with _termination_as_interrupt():
        if plan.executor == "ray":
            from attentiontuner.experiments.ray_executor import run_on_ray

            run_on_ray(todo, plan, campaign)
        else:
            from attentiontuner.experiments.pool import run_jobs

            run_jobs(campaign.jobs(todo), plan.jobs, campaign.deadline, campaign.report, campaign.watch)
    return campaign.close(time.time() - started)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM works like Ctrl-C: running cells save what they have before everything ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Campaign:
    """The running of a plan: hands out jobs that fit the time left, and says what becomes of them."""

    def __init__(self, plan: Plan, total: int, deadline: float | None) -> None:
        from attentiontuner.experiments.runner import device_name, limit_threads

        limit_threads(self.cores(plan))
        self.plan, self.total, self.deadline = plan, total, deadline
        self.device = device_name()
        self.speeds = Speeds(read_records(plan.records) if plan.records.is_dir() else [], self.device)
        self.counts: Counter[str] = Counter()
        self._printed = time.monotonic()

    @staticmethod
    def cores(plan: Plan) -> int:
        """CPU cores for each job."""
        return max(1, usable_cores() // plan.jobs)

    def jobs(self, cells: Sequence[Cell]) -> Iterator[Job]:
        """A job for each cell that fits the time left when its turn comes."""
        for cell in cells:
            reason = self.reason_to_wait(cell)
            if reason:
                self.say(cell, "later", reason, 0.0)
                continue
            yield Job(
                cell, self.plan.records, self.plan.data, self.deadline, self.cores(self.plan), self.plan.keep_runs
            )

    def reason_to_wait(self, cell: Cell) -> str:
        """Why a cell cannot be finished in the time left; "" where it can, or where only trying will tell."""
        if self.deadline is None:
            return ""
        remaining = self.deadline - time.time()
        path = dataset_path(self.plan.data, cell.task, cell.settings, cell.demos, 0)
        run = work_folder(self.plan.records, cell) / "run"
        needed = self.speeds.remaining_seconds(cell, run, path.with_name(f"{path.name}.json").exists())
        if needed is not None and needed > remaining:
            return f"needs about {needed:.0f} s, {max(remaining, 0):.0f} s are left"
        return "" if remaining > max(MINIMUM_SECONDS, SPARE_SECONDS) else "no time is left"

    def report(self, outcome: Outcome) -> None:
        """Say what became of a cell, and learn its speed."""
        if outcome.state == "done":
            self.speeds.add(read_record(record_path(self.plan.records, outcome.cell)))
        elif outcome.state == "later":
            self.speeds.add_begun(outcome.cell, work_folder(self.plan.records, outcome.cell) / "run")
        self.say(outcome.cell, outcome.state, outcome.message, outcome.seconds)

    def say(self, cell: Cell, state: str, message: str, seconds: float) -> None:
        self.counts[state] += 1
        number = sum(self.counts.values())
        line = f"[{number}/{self.total}] {cell.name}: {state}" + (f", {message}" if message else "")
        print(line + (f" ({seconds:.0f} s)" if seconds else ""), file=sys.stderr, flush=True)

    def watch(self, running: Sequence[Job]) -> None:
        """A line now and then about what is running."""
        if time.monotonic() - self._printed < STATUS_SECONDS:
            return
        self._printed = time.monotonic()
        for job in running:
            lines = read_metrics(work_folder(job.records, job.cell) / "run")
            if lines:
                last = lines[-1]
                text = f"epoch {len(lines)}/{job.cell.epochs}, loss {last['imitation_loss']:.4f}"
                print(f"  {job.cell.name}: {text}, {last['seconds']:.2f} s an epoch", file=sys.stderr, flush=True)

    def close(self, seconds: float) -> int:
        """The last line, and the exit code."""
        counted = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        print(f"{counted or 'nothing to do'} in {seconds:.0f} s; records in {self.plan.records}", file=sys.stderr)
        if self.counts["later"]:
            print("the same command goes on with the cells that are left", file=sys.stderr)
        return 2 if self.counts["failed"] else 0
