"""Runs the real command in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOY = ("--import", "tests.toy_task")


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
