"""Runs the real command in a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOY = ("--import", "tests.toy_task")
STOPPED = "attentiontuner: stopped; the same command goes on from what is finished\n"
"""All that Ctrl-C may leave on stderr."""


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "attentiontuner", *map(str, words)]


def run(*words: object, **options: object) -> "subprocess.CompletedProcess[str]":
    """The finished process; the tests' own folder is importable, so that `TOY` works."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(
        command(*words), capture_output=True, text=True, check=False, timeout=120, env=environment, **options
    )


def assert_refused(done: "subprocess.CompletedProcess[str]", *parts: str) -> None:
    """One clear line on stderr, exit code 2, no traceback."""
    said = [line for line in done.stderr.splitlines() if line.startswith("attentiontuner: ")]
    assert done.returncode == 2, done.stderr
    assert len(said) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in said[0]


def workers_of(process: "subprocess.Popen[str]") -> list[int]:
    """The worker processes that it has started by now."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_until_workers_import(process: "subprocess.Popen[str]", number: int) -> None:
    """Return while the workers are still starting, past the interpreter's own start: some import numpy first."""
    while True:
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in workers_of(process)]
        if len(maps) == number and all("numpy" in text for text in maps):
            return
        assert process.poll() is None, "it ended before it could be stopped"
        time.sleep(0.01)
