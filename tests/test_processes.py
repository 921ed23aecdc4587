"""Worker processes and signals: jobs come back whatever happens to a process, and none stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.core.processes import Answer, Crew, WorkerDied, WorkerProcess, dismiss
from attentiontuner.core.signals import handled, leave, stop_signals
from tests.cli.command import ROOT


class PlacedError(UserError):
    """An error that pickle cannot make again."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(f"{place}: {problem}")


def work(job):
    """Job → its double, or what the job says."""
    if job == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "exit":
        os._exit(3)
    if job == "user error":
        raise PlacedError(4, "mend it")
    if job == "disk full":
        raise OSError(28, "No space left on device")
    return 2 * job


def all_answers(jobs, size):
    with Crew(work, size) as crew:
        return [answer for answers in crew.answers(iter(jobs)) for answer in answers]


def test_every_job_is_answered():
    answers = all_answers(range(6), 2)
    assert sorted((answer.job, answer.result) for answer in answers) == [(job, 2 * job) for job in range(6)]


def test_what_goes_wrong_is_an_answer_and_the_next_job_is_done():
    found = {answer.job: answer.result for answer in all_answers(["killed", "exit", "user error", "disk full", 5], 1)}
    assert isinstance(found["killed"], WorkerDied)
    assert str(found["killed"]) == "a worker process died (killed by SIGKILL)"
    assert str(found["exit"]) == "a worker process died (exit code 3)"
    assert type(found["user error"]) is UserError
    assert str(found["user error"]) == "4: mend it"
    assert found["disk full"].errno == 28
    assert "in work" in found["disk full"].__notes__[0]
    assert found[5] == 10


def test_jobs_are_taken_only_when_a_process_is_free():
    taken = []

    def jobs():
        for job in range(4):
            taken.append(job)
            yield job

    with Crew(work, 1) as crew:
        for number, answers in enumerate(filter(None, crew.answers(jobs()))):
            (answer,) = answers
            assert isinstance(answer, Answer)
            assert taken == list(range(number + 1))
            assert crew.running == []


def sleeps(pipe, how):
    """A target that never returns: it sleeps, `stubborn` against SIGTERM too."""
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pipe.send("ready")
    time.sleep(1000)


@pytest.mark.parametrize(("how", "busy"), [("stubborn", True), ("plain", True), ("plain", False)])
def test_who_does_not_leave_is_ended(how, busy):
    worker = WorkerProcess(sleeps, how, grace=0.2)
    assert worker.pipe.recv() == "ready"
    worker.busy = busy
    dismiss([worker])
    expected = signal.SIGTERM if (how, busy) == ("plain", True) else signal.SIGKILL
    assert worker.process.exitcode == -expected


def script(how, ending):
    """In a process of its own: start a worker, print its process id, end without a farewell."""
    worker = WorkerProcess(sleeps, how, grace=0.2)
    worker.pipe.recv()
    print(worker.process.pid, flush=True)
    if ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "error":
        raise RuntimeError(f"the traceback holds {worker}")


def alive(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("how", "ending"), [("plain", "killed"), ("stubborn", "killed"), ("plain", "error"), ("plain", "normal")]
)
def test_a_worker_ends_with_its_parent(how, ending):
    code = f"from tests.test_processes import script\nif __name__ == '__main__': script({how!r}, {ending!r})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    pid, until = int(done.stdout), time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < until, "the worker stayed behind"
        time.sleep(0.02)


def test_signals_are_handled_for_a_while():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, handled(leave, signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143
    with stop_signals() as received:
        signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "a second one ends the process"
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_signals_stay_as_they_are():
    seen = []

    def look():
        with stop_signals() as received:
            seen.extend([received, signal.getsignal(signal.SIGTERM)])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [[], signal.getsignal(signal.SIGTERM)]
