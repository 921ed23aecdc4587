"""A process that is killed before the n-th change it makes to files: for all n, what is left must be good to go on."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate"}
"""Audit events; `os.replace` is an `os.rename`, and a file that is opened for writing is an `open`."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def in_a_process(work: Callable[[], Any], root: Path, kill_before: int | None = None) -> int:
    """Do `work` in a process of its own, killed before change number `kill_before` (from 0) under `root`.

    The number of changes it made, or -1 where it was killed.
    """
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(told)
            changes = _count_changes(str(root), kill_before)
            work()
            os.write(tell, str(changes[0]).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(tell)
    with os.fdopen(told) as stream:
        made = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        assert kill_before is not None
        return -1
    assert os.WEXITSTATUS(status) == 0, "the work failed; see above"
    return int(made)


def _count_changes(root: str, kill_before: int | None) -> list[int]:
    """From now on each change of a file under `root` adds one; before the one that is asked for the process dies."""
    changes = [0]

    def change() -> None:
        if changes[0] == kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        changes[0] += 1

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and (not isinstance(given[2], int) or not given[2] & WRITING):
            return
        if (event in CHANGES or event == "open") and str(given[0]).startswith(root):
            change()

    sync = os.fsync

    def fsync(handle: int) -> None:
        change()  # everything is written, but perhaps not on the disk
        sync(handle)

    os.fsync = fsync
    sys.addaudithook(hook)
    return changes


def contents(root: Path) -> dict[str, bytes]:
    """Every file under a folder; locks, which are empty and stay, aside."""
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


def check_every_kill(
    work: Callable[[Path], Any],
    tmp_path: Path,
    content: Callable[[Path], Any] = contents,
    prepare: Callable[[Path], Any] = lambda folder: folder.mkdir(),
    every: int = 1,
) -> int:
    """Kill `work(folder)` before each of its changes, let it go on to its end, and compare with one that nobody
    disturbed. How many kills there were."""
    whole = tmp_path / "whole"
    prepare(whole)
    changes = in_a_process(lambda: work(whole), whole)
    wanted, kills = content(whole), 0
    for number in range(0, changes, every):
        folder = tmp_path / f"killed-{number}"
        prepare(folder)
        assert in_a_process(lambda: work(folder), folder, kill_before=number) == -1  # noqa: B023
        in_a_process(lambda: work(folder), folder)  # noqa: B023
        found = content(folder)
        assert sorted(found) == sorted(wanted), f"killed before change {number} of {changes}"
        assert found == wanted, f"killed before change {number} of {changes}"
        kills += 1
    return kills
