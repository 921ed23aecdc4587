"""The example of a task of one's own runs as its first lines say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, run

EXAMPLE = ROOT / "examples" / "custom_task.py"
SOLVED = re.compile(r"^(\S+): ([\d.]+)% of (\d+) episodes solved$", re.MULTILINE)


def shown(folder: Path, *words: str) -> list[tuple[str, str, str]]:
    """What Python printed with these words in `folder`: of each method how much per cent of how many it solved."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return SOLVED.findall(done.stdout)


def test_it_compares_with_and_without_pairs(tmp_path: Path) -> None:
    small = "6, 1, epochs=1, model={'d_model': 16, 'layers': 1, 'feedforward': 16}"
    solved = shown(tmp_path, "-c", f"import custom_task; custom_task.compare({small})")
    assert [(method, episodes) for method, _, episodes in solved] == [("recall", "1"), ("recall-vanilla", "1")]
    assert (tmp_path / "data" / "cloakroom" / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pairs_are_worth_much_with_few_demonstrations(tmp_path: Path) -> None:
    (_, recall, _), (_, vanilla, _) = shown(tmp_path, str(EXAMPLE))
    assert float(recall) >= 90
    assert float(recall) > float(vanilla)


def test_the_commands_work_with_it(tmp_path: Path) -> None:
    data, options = tmp_path / "d", ["--episodes", 60, "--shard-episodes", 30, "--workers", 2]
    done = run("--import", EXAMPLE, "collect", "cloakroom", *options, "--out", data)
    assert done.returncode == 0, done.stderr
    summary = json.loads(run("inspect", data, "--verify", "--json").stdout)
    assert summary["episodes"] == 60
    assert summary["success_rate"] == 1.0
    assert summary["pairs_per_episode"] == 1.0
    small = ["--epochs", 1, "--d-model", 16, "--layers", 1, "--feedforward", 16, "--device", "cpu"]
    done = run("--import", EXAMPLE, "train", "cloakroom", "--data", data, "--out", tmp_path / "run", *small)
    assert "1 epoch of recall" in done.stdout, done.stderr


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 60
