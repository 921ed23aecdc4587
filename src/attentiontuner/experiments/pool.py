"""Cells side by side as processes of this machine. A cell that fails, or whose process dies, stops no other."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

from attentiontuner.cores import ctrl_c_is_not_inherited
from attentiontuner.errors import UserError
from attentiontuner.experiments.jobs import Job, Outcome, log_file
from attentiontuner.experiments.runner import limit_threads, run_cell
from attentiontuner.training.stopping import Interrupted

POLL_SECONDS = 1.0
GRACE_SECONDS = 20.0
"""How long a process may take to save and leave once it is told to."""


class Worker:
    """A process that runs one job after another. It ends with its parent, however that ends."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, far_end = context.Pipe()
        # Not a daemon: evaluation and collection start processes of their own.
        self.process = context.Process(target=_serve, args=(far_end,), daemon=False)
        with ctrl_c_is_not_inherited():
            self.process.start()
        far_end.close()
        self.job: Job | None = None
        self.since = 0.0

    def start(self, job: Job) -> None:
        self.job, self.since = job, time.monotonic()
        self.connection.send(job)

    def outcome(self) -> Outcome | None:
        """What became of the job, if it is over: also where the process died in it."""
        job = self.job
        if job is None:
            return None
        try:
            if self.connection.poll():
                outcome: Outcome = self.connection.recv()
                self.job = None
                return outcome
        except (EOFError, OSError):
            pass
        if self.process.is_alive():
            return None
        self.process.join()
        code, self.job = self.process.exitcode, None
        reason = f"killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return Outcome(job.cell, "failed", f"its process was {reason}", time.monotonic() - self.since)

    def dismiss(self) -> None:
        """Ask the process to leave; in the middle of a job it saves what it has."""
        self.connection.close()
        if self.job is not None:
            self.process.terminate()

    def join(self, patience: float) -> None:
        """Wait for it to leave, and end it where it does not."""
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def run_jobs(
    jobs: Iterator[Job],
    workers: int,
    deadline: float | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
    watch: Callable[[Sequence[Job]], None] = lambda running: None,
) -> None:
    """Run `jobs`, `workers` at a time, until there are none or `deadline` (`time.time()`) is reached.

    A job is taken from the iterator only when a process is free for it. `report` is called with each outcome, `watch`
    about every second with the jobs that are running.
    """
    crew: list[Worker] = []
    more = True
    try:
        while True:
            crew = [worker for worker in crew if worker.job or worker.process.is_alive()]
            while more and sum(worker.job is not None for worker in crew) < workers:
                job = next(jobs, None)
                more = job is not None
                if job is not None:
                    idle = [worker for worker in crew if worker.job is None]
                    if not idle:
                        crew += (idle := [Worker()])
                    idle[0].start(job)
            busy = [worker for worker in crew if worker.job]
            if not busy:
                return
            wait([item for worker in busy for item in (worker.connection, worker.process.sentinel)], POLL_SECONDS)
            for worker in busy:
                if (outcome := worker.outcome()) is not None:
                    report(outcome)
            watch([worker.job for worker in busy if worker.job])
            if deadline is not None and time.time() > deadline:
                for late in [worker.job for worker in crew if worker.job]:
                    report(Outcome(late.cell, "later", "the time is over; what was done is kept"))
                return
    finally:
        for worker in crew:
            worker.dismiss()
        for worker in crew:
            worker.join(GRACE_SECONDS)


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which then says what to do
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        outcome = _run(job)
        with contextlib.suppress(OSError):
            connection.send(outcome)


def _run(job: Job) -> Outcome:
    """Run a job with everything it prints in a log beside its work; the log stays where it failed."""
    log = log_file(job.records, job.cell)
    log.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
    outcome = run_guarded(job)
    if outcome.state != "failed":
        log.unlink(missing_ok=True)
    return outcome


def run_guarded(job: Job) -> Outcome:
    """Run a job; whatever goes wrong in it is its outcome."""
    limit_threads(job.cores)
    try:
        return run_cell(job)
    except Interrupted:
        return Outcome(job.cell, "later", "stopped; what was done is kept")
    except UserError as error:
        return Outcome(job.cell, "failed", " ".join(str(error).split()))
    except Exception as error:
        traceback.print_exc()
        log = log_file(job.records, job.cell)
        where = f" (the whole story: {log})" if log.exists() else ""
        return Outcome(job.cell, "failed", f"{type(error).__name__}: {error}{where}")


def _leave_with_parent() -> None:
    """Save and leave when the parent is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)  # training saves what it has; anything else ends here
        time.sleep(GRACE_SECONDS)
        os._exit(1)
