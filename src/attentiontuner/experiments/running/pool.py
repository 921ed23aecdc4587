"""Cells side by side as processes of this machine. A cell that fails, or whose process dies, stops no other."""

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from attentiontuner.core.errors import UserError, as_user_error, disk_is_full
from attentiontuner.core.processes import Crew
from attentiontuner.core.signals import Interrupted
from attentiontuner.experiments.running.jobs import Job, Outcome, log_file
from attentiontuner.experiments.running.runner import limit_threads, run_cell
from attentiontuner.tasks.own_code import import_user_code

GRACE_SECONDS = 20.0
"""How long a process may take to save and leave once it is told to."""


def run_jobs(
    jobs: Iterator[Job],
    workers: int,
    deadline: float | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
    watch: Callable[[Sequence[Job]], None] = lambda running: None,
) -> None:
    """Run `jobs`, `workers` at a time, until there are none or `deadline` (`time.monotonic()`) is reached.

    A job is taken from the iterator only when a process is free for it. `report` is called with each outcome, `watch`
    about every second with the jobs that are running.
    """
    with Crew(_run, workers, GRACE_SECONDS) as crew:
        for answers in crew.answers(jobs):
            for answer in answers:
                if isinstance(answer.result, Exception):
                    report(Outcome(answer.job.cell, "failed", str(answer.result), answer.seconds))
                else:
                    report(answer.result)
            watch(crew.running)
            if deadline is not None and time.monotonic() > deadline:
                for late in crew.running:
                    report(Outcome(late.cell, "later", "the time is over; what was done is kept"))
                return


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


def run_guarded(job: Job, run: Callable[[Job], Outcome] = run_cell) -> Outcome:
    """Run a job; whatever goes wrong in it is its outcome."""
    limit_threads(job.cores)
    try:
        for address in job.imports:
            import_user_code(address)
        return run(job)
    except Interrupted:
        return Outcome(job.cell, "later", "stopped; what was done is kept")
    except UserError as error:
        return Outcome(job.cell, "failed", " ".join(str(error).split()), full=disk_is_full(error))
    except Exception as error:
        if disk_is_full(error):
            return Outcome(job.cell, "failed", f"{as_user_error(error) or error}", full=True)
        traceback.print_exc()
        log = log_file(job.records, job.cell)
        where = f" (the whole story: {log})" if log.exists() else ""
        return Outcome(job.cell, "failed", f"{type(error).__name__}: {error}{where}")
