"""Cells on a Ray cluster: at RAY_ADDRESS, or one started on this machine.

Nothing is shared between nodes but the code: each node has its own scratch folder, where a data set is collected once
from its seed, and sends the finished record back as text. Only the driver writes records, each once. The cells of a
lost node run again on another; on the same node a cell that was cut off goes on from its scratch folder.
"""

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import shortened
from attentiontuner.core.signals import handled
from attentiontuner.experiments.planning.cells import Cell
from attentiontuner.experiments.records import Record, finished, record_path, write_record
from attentiontuner.experiments.running.jobs import Job, Outcome
from attentiontuner.experiments.running.reproduce import Campaign, Plan

RETRIES_AFTER_LOSS = 10
"""How often a cell is started again because its node or process was lost."""

SCRATCH = "attentiontuner-ray"
POLL_SECONDS = 1.0
KNOCK_SECONDS = 6.0
"""How long a cluster may take to answer at all, and then to say what it speaks."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC begins: HTTP/2, and an empty frame of settings. Its server answers with such a frame."""


def run_on_ray(cells: Sequence[Cell], plan: Plan, campaign: Campaign) -> None:
    """Run the cells on the cluster and write their records here."""
    ray = connect()
    with handled(signal.default_int_handler, signal.SIGTERM):  # as Ctrl-C: Ray has put its own handler in place of ours
        _run_all(ray, cells, plan, campaign)


def _run_all(ray: Any, cells: Sequence[Cell], plan: Plan, campaign: Campaign) -> None:
    wanted = resources(ray, plan.jobs)
    remote = ray.remote(run_remotely).options(max_retries=RETRIES_AFTER_LOSS, scheduling_strategy="SPREAD", **wanted)
    jobs = campaign.jobs(cells)
    running: dict[Any, Cell] = {}
    more = True
    while more or running:
        while more and len(running) < slots(ray, wanted):
            job = next(jobs, None)
            more = job is not None
            if job is not None:
                running[remote.remote(json.dumps(job_to_json(job)))] = job.cell
        done, _ = ray.wait(list(running), timeout=POLL_SECONDS) if running else ([], [])
        for reference in done:
            campaign.report(collect_outcome(ray, reference, running.pop(reference), plan.records))
        if campaign.deadline is not None and time.monotonic() > campaign.deadline:
            for reference, cell in running.items():
                ray.cancel(reference, force=True)
                campaign.report(Outcome(cell, "later", "the time is over; what was done is kept on its node"))
            return


def connect() -> Any:
    """Ray, connected to the cluster at RAY_ADDRESS or to a new local one."""
    import ray

    address = os.environ.get("RAY_ADDRESS")
    if not ray.is_initialized():
        try:
            _knock(address or "")
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except Exception as error:  # Ray raises whatever it likes, a bare Exception where a busy machine is too slow
            said = shortened(str(error))
            if address is None:
                raise UserError(
                    f"Ray does not start on this machine: {said}; try again, or leave out --executor ray"
                ) from error
            raise UserError(
                f"there is no Ray cluster at RAY_ADDRESS={address}: {said}; start one (`ray start --head`), or unset "
                "RAY_ADDRESS for one on this machine"
            ) from error
    return ray


def _knock(address: str) -> None:
    """An `OSError` where nobody listens at `host:port`, or not in Ray's language: Ray itself would wait for minutes
    without a word."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return
    with socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS) as knocking:
        if os.environ.get("RAY_USE_TLS") in (None, "", "0"):
            knocking.sendall(PREFACE)
            if knocking.recv(4, socket.MSG_WAITALL)[3:] != PREFACE[-6:-5]:
                raise ConnectionError("what listens there is no Ray cluster")


def resources(ray: Any, jobs: int) -> dict[str, float]:
    """What one cell asks of a node: a share of a GPU where there are any, and of the cores of the poorest node."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    gpus = any(node.get("GPU", 0) > 0 for node in nodes)
    shares = [node["CPU"] // (jobs * max(1.0, node.get("GPU", 0))) for node in nodes]
    return {"num_cpus": max(1.0, min(shares, default=1.0))} | ({"num_gpus": 1 / jobs} if gpus else {})


def slots(ray: Any, wanted: Mapping[str, float]) -> int:
    """How many cells to hand to the cluster at once: one more than it can run, so that no node idles."""
    there = ray.cluster_resources()
    rooms = [
        there.get(name.removeprefix("num_").removesuffix("s").upper(), 0) / share for name, share in wanted.items()
    ]
    return int(min(rooms)) + 1


def job_to_json(job: Job) -> dict[str, Any]:
    """What a node needs to know of a job: no folders and no clock of this machine. Files named with `--import` must be
    in the same place there."""
    left = None if job.deadline is None else job.deadline - time.monotonic()
    return {"cell": job.cell.to_json(), "seconds_left": left, "jobs": job.jobs, "imports": list(job.imports)}


def run_remotely(text: str) -> str:
    """On a node: run the job in the node's scratch folder. The outcome as JSON, with the record where there is one."""
    from attentiontuner.experiments.running.pool import run_guarded

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
    outcome = run_guarded(job)
    answer: dict[str, Any] = {"state": outcome.state, "message": outcome.message, "seconds": outcome.seconds}
    path = record_path(job.records, job.cell)
    if outcome.state in ("done", "there"):
        answer["record"] = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
    return json.dumps(answer)


def assigned_cores() -> int:
    """The CPU cores Ray gave to this task."""
    import ray

    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


def scratch() -> Path:
    """This node's own folder. Its name has the node's id: nodes on one machine do not share it."""
    import ray

    base = os.environ.get("ATTENTIONTUNER_SCRATCH", tempfile.gettempdir())
    return Path(base) / SCRATCH / str(ray.get_runtime_context().get_node_id())


def collect_outcome(ray: Any, reference: Any, cell: Cell, records: Path) -> Outcome:
    """The outcome of a finished remote job; its record is written here unless one is there already."""
    try:
        answer = json.loads(ray.get(reference))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        return Outcome(cell, "failed", f"{type(error).__name__}: {reason}")
    outcome = Outcome(cell, answer["state"], answer["message"], answer["seconds"])
    if "record" not in answer:
        return outcome
    if finished(records, cell) is not None:
        return replace(outcome, state="there")
    write_record(records, Record.from_json(answer["record"]))
    return replace(outcome, state="done")
