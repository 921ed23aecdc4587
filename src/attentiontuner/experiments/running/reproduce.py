"""A recipe from the command to its records: which cells are missing, which fit the time left, and running them."""

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import make_folder
from attentiontuner.core.processes import usable_cores
from attentiontuner.core.progress import duration
from attentiontuner.core.signals import handled, interrupt
from attentiontuner.core.versions import git_revision
from attentiontuner.core.wording import counted
from attentiontuner.experiments.planning.cells import Cell, expand
from attentiontuner.experiments.planning.recipes import get_recipe, of_methods
from attentiontuner.experiments.records import RecordError, finished, read_record, read_records, record_path, state_of
from attentiontuner.experiments.running.budget import Speeds
from attentiontuner.experiments.running.datasets import dataset_path
from attentiontuner.experiments.running.jobs import Job, Outcome, work_folder, work_run
from attentiontuner.methods import get_method
from attentiontuner.tasks.own_code import imported

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
    methods: Sequence[str] = (),
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
    if keep_runs and executor != "local":
        raise UserError(f"--keep-runs: --executor {executor} brings back records alone; leave one of the two out")
    chosen = get_recipe(recipe)
    cells = expand(of_methods(chosen, methods) if methods else chosen, scale, only, seeds)
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
        sizes = f"{cell.facts.demonstrations:>8}{cell.epochs:>8}{cell.episodes:>10}"
        lines.append(f"{cell.folder + '/' + cell.name:<64}{sizes}  {state_of(plan.records, cell)}")
    return "\n".join(lines)


def reproduce(plan: Plan) -> int:
    """Run what is missing. The exit code is 2 where a cell failed, else 0: cells left for later are no failure."""
    started = time.monotonic()
    todo = missing_cells(plan)
    there = len(plan.cells) - len(todo)
    cells = counted(len(plan.cells), "cell")
    print(f"{cells}: {there} with a record, {len(todo)} to run", file=sys.stderr, flush=True)
    if there:
        _clear_leftovers(plan, todo)
    if not todo:
        return 0
    if plan.executor == "ray":
        from attentiontuner.experiments.running.ray_cluster import find_cluster

        find_cluster()  # before torch is imported, which takes seconds
    for folder in (plan.records, plan.data):
        make_folder(folder)
    campaign = Campaign(plan, len(todo), None if plan.budget is None else started + plan.budget)
    with handled(interrupt, signal.SIGTERM):  # like Ctrl-C: running cells save what they have
        if plan.executor == "ray":
            from attentiontuner.experiments.running.ray_executor import run_on_ray

            run_on_ray(todo, plan, campaign)
        else:
            from attentiontuner.experiments.running.pool import run_jobs

            run_jobs(campaign.jobs(todo), plan.jobs, campaign.deadline, campaign.report, campaign.watch)
    return campaign.close(time.monotonic() - started)


def _clear_leftovers(plan: Plan, todo: Sequence[Cell]) -> None:
    """Delete the work of finished cells, whose process was killed before it could."""
    missing = {cell.name for cell in todo}
    left = [cell for cell in plan.cells if cell.name not in missing and work_folder(plan.records, cell).exists()]
    if left:
        from attentiontuner.experiments.running.runner import clear_finished

        for cell in left:
            clear_finished(plan.records, cell, plan.keep_runs)


class Campaign:
    """The running of a plan: hands out jobs that fit the time left, and says what becomes of them."""

    def __init__(self, plan: Plan, total: int, deadline: float | None) -> None:
        from attentiontuner.experiments.running.runner import device_name, limit_threads

        limit_threads(self.cores(plan))
        self.plan, self.total, self.deadline = plan, total, deadline
        self.speeds = Speeds(read_records(plan.records), device_name(), git_revision() or None, plan.jobs)
        self.counts: Counter[str] = Counter()
        self._waiting: dict[str, tuple[Cell, str]] = {}  # by name: cells that do not fit, and why
        self._partly: set[str] = set()
        self._printed = time.monotonic()

    @staticmethod
    def cores(plan: Plan) -> int:
        """CPU cores for each job."""
        return max(1, usable_cores() // plan.jobs)

    def jobs(self, cells: Sequence[Cell]) -> Iterator[Job]:
        """A job for each cell that fits the time left when its turn comes; when none is left that does, the others are
        begun, as far as the time goes."""
        for cell in cells:
            if reason := self.reason_to_wait(cell):
                self._waiting[cell.name] = cell, reason
            else:
                yield self._job(cell)
        while self._waiting and self.plan.executor == "local":  # elsewhere nobody knows which node goes on
            cell, _ = next(iter(self._waiting.values()))
            if self._no_time_left():
                return
            del self._waiting[cell.name]
            self._partly.add(cell.name)
            yield self._job(cell)

    def _job(self, cell: Cell) -> Job:
        plan = self.plan
        job = Job(cell, plan.records, plan.data, self.deadline, self.cores(plan), plan.keep_runs, plan.jobs)
        return replace(job, partly=cell.name in self._partly, imports=imported())

    def reason_to_wait(self, cell: Cell) -> str:
        """Why a cell cannot be finished in the time left; "" where it can, or where only trying will tell."""
        if self.deadline is None:
            return ""
        remaining = self.deadline - time.monotonic()
        path = dataset_path(self.plan.data, cell.task, cell.settings, cell.demos, 0)
        run, collected = work_run(self.plan.records, cell), path.with_name(f"{path.name}.json").exists()
        needed = self.speeds.remaining_seconds(cell, run, collected)
        if needed is not None and needed > remaining:
            return f"needs about {needed:.0f} s, {max(remaining, 0):.0f} s are left"
        return "no time is left" if self._no_time_left() else ""

    def _no_time_left(self) -> bool:
        return self.deadline is not None and self.deadline - time.monotonic() <= MINIMUM_SECONDS

    def report(self, outcome: Outcome) -> None:
        """Say what became of a cell, and learn its speed. One that did not fit waits until no other does."""
        cell = outcome.cell
        if outcome.state == "done":
            self.speeds.add(read_record(record_path(self.plan.records, cell)))
        elif outcome.state == "later":
            self.speeds.add_begun(cell, work_run(self.plan.records, cell))
            if cell.name not in self._partly:
                self._waiting[cell.name] = cell, outcome.message
                return
        self.say(cell, outcome.state, outcome.message, outcome.seconds)

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
            lines = work_run(job.records, job.cell).metrics()
            if lines:
                last = lines[-1]
                loss = last[f"{get_method(job.cell.method).terms[0]}_loss"]
                text = f"epoch {len(lines)}/{job.cell.epochs}, loss {loss:.4f}"
                left = duration(last["seconds"] * (job.cell.epochs - len(lines)))
                timing = f"{last['seconds']:.2f} s an epoch, about {left} of training left"
                print(f"  {job.cell.name}: {text}, {timing}", file=sys.stderr, flush=True)

    def close(self, seconds: float) -> int:
        """What is left for later, the last line, and the exit code."""
        for cell, reason in self._waiting.values():
            self.say(cell, "later", reason, 0.0)
        counted = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        print(f"{counted or 'nothing to do'} in {seconds:.0f} s; records in {self.plan.records}", file=sys.stderr)
        if self.counts["later"]:
            print("the same command goes on with the cells that are left", file=sys.stderr)
        return 2 if self.counts["failed"] else 0
