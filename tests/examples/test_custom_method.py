"""The example method, a network and a loss that the package does not know, goes the whole way."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentiontuner import DemoStore
from attentiontuner.data.dataset import DemoData
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.runs.run import Run
from tests.cli.command import assert_refused, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_method.py"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("custom") / "hallway"
    run("collect", "hallway", "--set", "length=3", "--episodes", 24, "--out", folder)
    return folder


def words(data: Path, out: Path) -> list[str]:
    text = f"train hallway --method gru-reader --device cpu --data {data} --out {out} --epochs 30 --model d_model=16 "
    return f"{text} --batch-size 8 --checkpoint-seconds 0 --heatmap-epochs 0 30".split()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "attentiontuner", "--import", str(EXAMPLE), *map(str, arguments)]


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 80


def test_train_kill_go_on_draw_evaluate_film_and_reproduce(data: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command(*words(data, tmp_path / "whole")), check=True, env=environment, capture_output=True)
    killed = tmp_path / "killed"
    process = subprocess.Popen(command(*words(data, killed)), env=environment, stderr=subprocess.DEVNULL)
    while not (killed / "state" / "latest").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(Run(killed).metrics()) < 30
    subprocess.run(command(*words(data, killed)), check=True, env=environment, capture_output=True)
    assert (killed / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert [line["memory_loss"] for line in Run(killed).metrics()][-1] < 0.5 * Run(killed).metrics()[0]["memory_loss"]
    assert sorted(path.name for path in (killed / "heatmaps").glob("*.png")) == ["00000.png", "00030.png"]
    found = subprocess.run(
        command("evaluate", killed, "--episodes", 20, "--video", 1, "--json"),
        check=True, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    summary = json.loads(found.stdout)
    assert summary["episodes"] == 20
    assert Path(summary["films"][0]).read_bytes().startswith(b"GIF")
    records = tmp_path / "records"
    scope = ["--only", "hallway", "--scale", "smoke", "--records", records]
    table = ["reproduce", "table1", "--methods", "gru-reader", *scope]
    subprocess.run(command(*table), check=True, env=environment, capture_output=True)
    (record,) = records.glob("own-smoke/*.json")
    assert record.name == "hallway--gru-reader--standard--seed1.json"
    assert json.loads(record.read_text())["evaluation"]["episodes"] == 8


def test_without_the_file_the_method_is_asked_for(data: Path, tmp_path: Path) -> None:
    done = run("train", "hallway", "--method", "gru-reader", "--data", data, "--out", tmp_path)
    assert_refused(done, "unknown method 'gru-reader'", "attentiontuner --import FILE")


@pytest.fixture
def gru(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the example, whose method is known in this test alone."""
    from attentiontuner.methods import method

    monkeypatch.setattr(method, "_METHODS", dict(method._METHODS))
    return runpy.run_path(str(EXAMPLE))


def test_streaming_equals_the_full_forward_pass(data: Path, gru: dict[str, Any]) -> None:
    """Two rows, the shortest of three episodes first in one of them: it begins another while the other row goes on."""
    packed = DemoStore.open(data).read_packed(range(3))
    torch.manual_seed(0)
    model = gru["GruConfig"](packed.observation, 7, d_model=16).build().eval()
    read = gru["READ"]
    with torch.no_grad():
        full = model(DemoData(packed).batch(np.arange(3)), (read,))
    policy = ModelPolicy(model, int(packed.lengths.max()), watch=(read,))
    policy.reset(2)
    short, middle, long = np.argsort(packed.lengths)
    playing = [[(episode, at) for episode in row for at in range(packed.lengths[episode])]
               for row in ((short, long), (middle, short))]  # fmt: skip
    for now in zip(*playing, strict=False):
        policy.restart(np.array([row for row, (_, at) in enumerate(now) if at == 0], np.int64))
        steps = [packed.starts[episode] + at for episode, at in now]
        seen = packed.observation.decode(packed.frames[packed.frame_index[steps]])
        assert torch.allclose(policy.distribution(seen), full.distribution[steps], atol=1e-5)
        for row, (episode, at) in enumerate(now):
            expected = full.watched[read][episode, at, : at + 1].exp()
            assert np.allclose(policy.weights[read][row, : at + 1], expected, atol=1e-5)
        policy._last = packed.actions[steps].copy()
