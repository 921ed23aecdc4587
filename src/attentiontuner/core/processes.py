"""Worker processes: how they start, get jobs, end with their parent, and how their death is told."""

import os
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from attentiontuner.core.errors import UserError
from attentiontuner.core.signals import handled

Job = TypeVar("Job")
Result = TypeVar("Result")

GRACE_SECONDS = 2.0
"""How long a process may take to leave once it is told to, unless it has more to save."""

POLL_SECONDS = 1.0


def usable_cores() -> int:
    """CPU cores this process may use: a container or a scheduler may give it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerDied(UserError):
    """A process ended in the middle of its work. The text says how."""


class WorkerProcess:
    """A process of its own that runs `target(pipe, *arguments)`, with `pipe` to the other end of this one's.

    Ctrl-C is its parent's to handle: it never sees it, not even while it imports. It ends with its parent, however that
    ends: told by SIGTERM, and `grace` seconds later without being asked. It may start processes too.

    Attributes:
        pipe: this end. When it closes, `target` should return.
        busy: whether it must be told by SIGTERM too, being in the middle of something.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any, grace: float = GRACE_SECONDS) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_live, args=(target, theirs, arguments, grace))
        self.grace, self.busy = grace, False
        weakref.finalize(self, _dismiss, self.process, self.pipe)  # Python waits at its end for whoever is left
        with _ctrl_c_is_not_inherited():
            self.process.start()
        theirs.close()

    def death(self) -> str:
        """How it ended, when it answers no more: `died (killed by SIGKILL)`."""
        self.process.join(timeout=5)
        code = self.process.exitcode
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"died ({how})"


def dismiss(workers: Iterable[WorkerProcess]) -> None:
    """Have these processes leave, and end those that do not in time.

    It cannot be interrupted: that would leave processes behind, and Python at its end waiting for them.
    """
    workers = list(workers)
    with handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM):
        for worker in workers:
            worker.pipe.close()
            if worker.busy:
                worker.process.terminate()
        for worker in workers:
            worker.process.join(worker.grace)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


@dataclass(frozen=True)
class Answer(Generic[Job, Result]):
    """What became of a job after `seconds`: what the work returned, what it raised, or `WorkerDied`."""

    job: Job
    result: Result | Exception
    seconds: float


class Crew(Generic[Job, Result]):
    """Up to `size` processes that call `work` with one job after another. Left in whatever way, none stays behind.

    A process that dies takes no other with it; another one takes its place for the next job.
    """

    def __init__(self, work: Callable[[Job], Result], size: int, grace: float = GRACE_SECONDS) -> None:
        self._work, self._size, self._grace = work, size, grace
        self._idle: list[WorkerProcess] = []
        self._at_work: dict[WorkerProcess, tuple[Job, float]] = {}

    def __enter__(self) -> "Crew[Job, Result]":
        return self

    def __exit__(self, *reason: object) -> None:
        dismiss([*self._idle, *self._at_work])

    @property
    def running(self) -> list[Job]:
        """The jobs in hand."""
        return [job for job, _ in self._at_work.values()]

    def answers(self, jobs: Iterator[Job]) -> Generator[list[Answer[Job, Result]], None, None]:
        """Take each job when a process is free for it, and give what has come back; nothing, about every second."""
        while True:
            for job in islice(jobs, self._size - len(self._at_work)):
                self._start(job)
            if not self._at_work:
                return
            whose = {source: worker for worker in self._at_work for source in (worker.pipe, worker.process.sentinel)}
            ready = {whose[source]: None for source in wait(list(whose), POLL_SECONDS)}  # type: ignore[index]
            yield [self._answer(worker) for worker in ready]

    def _start(self, job: Job) -> None:
        self._idle = [worker for worker in self._idle if worker.process.is_alive()]
        worker = self._idle.pop() if self._idle else WorkerProcess(_serve, self._work, grace=self._grace)
        self._at_work[worker] = job, time.monotonic()
        worker.busy = True
        with suppress(OSError):  # if it is dead, `_answer` will tell
            worker.pipe.send(job)

    def _answer(self, worker: WorkerProcess) -> Answer[Job, Result]:
        try:
            if not worker.pipe.poll():  # its end is known from its sentinel alone
                raise EOFError
            result = worker.pipe.recv()
        except (EOFError, OSError):
            result = WorkerDied(f"a worker process {worker.death()}")
        job, since = self._at_work.pop(worker)
        worker.busy = False
        self._idle.append(worker)
        return Answer(job, result, time.monotonic() - since)


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """The life of a process of a crew."""
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result = work(job)
        except UserError as error:
            result = UserError(str(error))  # its own class may not travel
        except Exception as error:
            error.add_note(traceback.format_exc())
            result = error
        with suppress(OSError):
            pipe.send(result)


def _live(target: Callable[..., None], pipe: Connection, arguments: tuple[Any, ...], grace: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(grace,), daemon=True).start()
    target(pipe, *arguments)


def _end_with_parent(grace: float) -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # training saves what it has; anything else ends here
    time.sleep(grace)
    os._exit(1)


def _dismiss(process: SpawnProcess, pipe: Connection) -> None:
    pipe.close()
    if process.is_alive():
        process.terminate()


@contextmanager
def _ctrl_c_is_not_inherited() -> Iterator[None]:
    """Processes started in this block never see Ctrl-C, not even while they import; here it comes after the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started later, with the first process, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
