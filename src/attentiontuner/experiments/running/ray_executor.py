"""Cells on a Ray cluster: at RAY_ADDRESS, or one started on this machine.

Nothing is shared between machines but the code: each has its own scratch folder, where a data set is collected once
from its seed, and sends the finished record back as text. Only the driver writes records, each once. The cells of a
lost node run again on another; on the same machine, or when it comes back, a cell that was cut off goes on from its
scratch folder. A node whose disk is full gets no more cells, and those that failed there run elsewhere.
"""

import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attentiontuner.core.files import locked, make_folder, read_json
from attentiontuner.core.signals import handled, interrupt
from attentiontuner.experiments.planning.cells import Cell
from attentiontuner.experiments.records import Record, finished, record_path, write_record
from attentiontuner.experiments.running.jobs import Job, Outcome
from attentiontuner.experiments.running.ray_cluster import connect, place, resources, rooms
from attentiontuner.experiments.running.reproduce import Campaign, Plan

RETRIES_AFTER_LOSS = 10
"""How often a cell is started again because its node or process was lost."""

SCRATCH = "attentiontuner-ray"
POLL_SECONDS = 1.0


def run_on_ray(cells: Sequence[Cell], plan: Plan, campaign: Campaign) -> None:
    """Run the cells on the cluster and write their records here."""
    ray = connect()
    with handled(interrupt, signal.SIGTERM):  # Ray has put its own handler in place of ours
        _Driver(ray, plan, campaign).run(campaign.jobs(cells))


class _Driver:
    """Hands jobs to a cluster, one more than it can run at once, so that no node idles."""

    def __init__(self, ray: Any, plan: Plan, campaign: Campaign) -> None:
        self.ray, self.plan, self.campaign = ray, plan, campaign
        self.wanted = resources(ray, plan.jobs)
        self.remote = ray.remote(max_retries=RETRIES_AFTER_LOSS, **self.wanted)(run_remotely)
        self.running: dict[Any, tuple[Job, str]] = {}  # with the node, where one was chosen
        self.full: set[str] = set()  # nodes without room on their disk
        self.again: list[Job] = []  # what failed there

    def run(self, jobs: Iterator[Job]) -> None:
        try:
            while True:
                self._start(jobs)
                if not self.running:
                    return
                self._finish(POLL_SECONDS)
                if self.campaign.deadline is not None and time.monotonic() > self.campaign.deadline:
                    return self._stop()
        except KeyboardInterrupt:
            self._finish(0)  # what has come in the meantime
            raise

    def _start(self, jobs: Iterator[Job]) -> None:
        """Hand out as many jobs as there is room for."""
        room = rooms(self.ray, self.wanted, self.full)
        while len(self.running) <= sum(room.values()):
            job = self.again.pop() if self.again else next(jobs, None)
            if job is None:
                return
            taken = Counter(node for _, node in self.running.values())
            where = place(room, taken) if self.full and room else "SPREAD"
            task = self.remote.options(scheduling_strategy=where).remote(json.dumps(job_to_json(job)))
            self.running[task] = job, getattr(where, "node_id", "")

    def _finish(self, seconds: float) -> None:
        """Wait so long for one to finish, and report all that are."""
        if not (tasks := list(self.running)):
            return
        self.ray.wait(tasks, timeout=seconds)
        for task in self.ray.wait(tasks, num_returns=len(tasks), timeout=0)[0]:
            job, _ = self.running[task]
            node, outcome = collect_outcome(self.ray, task, job.cell, self.plan.records)
            if outcome.full:
                self.full.add(node)
            if outcome.full and rooms(self.ray, self.wanted, self.full):
                print(f"  {job.cell.name}: {outcome.message}; it runs elsewhere", file=sys.stderr, flush=True)
                self.again.append(job)
            else:
                self.campaign.report(outcome)
            del self.running[task]  # now, so that a signal in between loses none

    def _stop(self) -> None:
        for task, (job, _) in self.running.items():
            self.ray.cancel(task, force=True)
            self.campaign.report(Outcome(job.cell, "later", "the time is over; what was done is kept on its node"))


def job_to_json(job: Job) -> dict[str, Any]:
    """What a node needs to know of a job: no folders and no clock of this machine. Files named with `--import` must be
    in the same place there."""
    left = None if job.deadline is None else job.deadline - time.monotonic()
    return {"cell": job.cell.to_json(), "seconds_left": left, "jobs": job.jobs, "imports": list(job.imports)}


def run_remotely(text: str) -> str:
    """On a node: run the job in its machine's scratch folder. The outcome as JSON, with the record if there is one."""
    import ray

    from attentiontuner.experiments.running.pool import run_guarded
    from attentiontuner.experiments.running.runner import run_cell

    value = json.loads(text)
    cell, here = Cell.from_json(value["cell"]), scratch()
    left = value["seconds_left"]
    deadline = None if left is None else time.monotonic() + left
    job = Job(
        cell,
        here / "records",
        here / "data",
        deadline,
        assigned_cores(),
        jobs=value["jobs"],
        imports=tuple(value["imports"]),
    )
    answer: dict[str, Any] = {"node": str(ray.get_runtime_context().get_node_id())}

    def run(job: Job) -> Outcome:
        """The record leaves before anybody else, such as a driver of another cluster, begins with the same cell."""
        make_folder(here)
        with locked(here / f"{cell.folder}--{cell.name}.lock"):
            outcome = run_cell(job)
            if outcome.state != "later":
                path = record_path(job.records, cell)
                answer["record"] = read_json(path)
                path.unlink()
        return outcome

    outcome = run_guarded(job, run)
    message = f"{outcome.message} (on {socket.gethostname()})" if outcome.state == "failed" else outcome.message
    answer |= {"state": outcome.state, "message": message, "seconds": outcome.seconds, "full": outcome.full}
    return json.dumps(answer)


def assigned_cores() -> int:
    """The CPU cores Ray gave to this task."""
    import ray

    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


def scratch() -> Path:
    """This machine's own folder: of whichever cluster, so that a node that comes back goes on where it was."""
    return Path(os.environ.get("ATTENTIONTUNER_SCRATCH", tempfile.gettempdir())) / SCRATCH


def collect_outcome(ray: Any, task: Any, cell: Cell, records: Path) -> tuple[str, Outcome]:
    """The node and the outcome of a finished remote job; its record is written here unless one is there already."""
    try:
        answer = json.loads(ray.get(task))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        return "", Outcome(cell, "failed", f"{type(error).__name__}: {reason}")
    outcome = Outcome(cell, answer["state"], answer["message"], answer["seconds"], answer["full"])
    if "record" in answer:
        there = finished(records, cell) is not None
        if not there:
            write_record(records, Record.from_json(answer["record"]))
        outcome = replace(outcome, state="there" if there else "done")
    return answer["node"], outcome
