"""The example of a task of one's own runs as its first lines say."""

import json
import os
import subprocess
import sys

from tests.cli.command import ROOT, run

EXAMPLE = ROOT / "examples" / "custom_task.py"


def test_the_example_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert "500 episodes" in done.stdout
    assert "it recalled ['step 2 at step" in done.stdout
    assert (tmp_path / "data" / "memory-room" / "manifest.json").is_file()


def test_the_commands_work_with_it(tmp_path):
    words = [
        "collect",
        "memory-room",
        "--episodes",
        60,
        "--shard-episodes",
        30,
        "--workers",
        2,
        "--out",
        tmp_path / "d",
    ]
    done = run("--import", EXAMPLE, *words)
    assert done.returncode == 0, done.stderr
    summary = json.loads(run("inspect", tmp_path / "d", "--verify", "--json").stdout)
    assert summary["episodes"] == 60
    assert summary["success_rate"] == 1.0
    assert summary["pairs_per_episode"] == 1.0


def test_it_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 60
