"""The commands: what they refuse before anything is served."""

import socket
from pathlib import Path

import pytest

from attentiontuner.cli import main
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.runs.run import Run
from attentiontuner.tasks.paper import MINIGRID_ACTIONS, MINIGRID_VIEW


def refusal(words: list[str | Path], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*map(str, words), "--no-browser"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_annotate_refuses_what_it_cannot_serve(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    DemoWriter(empty, task="hallway", settings={}, observation=MINIGRID_VIEW, actions=MINIGRID_ACTIONS, seed=None)
    assert "nowhere" in refusal(["annotate", tmp_path / "nowhere"], capsys)
    assert "no demonstrations yet" in refusal(["annotate", empty], capsys)
    assert "annotator" in refusal(["annotate", toy, "--annotator", "../me"], capsys)
    assert "run does not exist" in refusal(["annotate", toy, "--suggest", tmp_path / "run"], capsys)
    made = Path(__file__).parents[1] / "compat" / "made" / "runs"
    run = next(path for path in sorted(made.iterdir()) if Run.open(path).task()[0] != "hallway")
    assert "was trained on" in refusal(["annotate", toy, "--suggest", run], capsys)
    assert "between 0 and 1" in refusal(["annotate", toy, "--threshold", "nan"], capsys)
    assert "one address" in refusal(["annotate", toy, "--host", "0.0.0.0"], capsys)
    assert "--port" in refusal(["annotate", toy, "--port", "99999"], capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot listen" in refusal(["annotate", toy, "--port", port], capsys)


def test_play_refuses_what_it_cannot_serve(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "played"
    assert "unknown task" in refusal(["play", "chess", "--out", out], capsys)
    assert "name=value" in refusal(["play", "hallway", "--out", out, "--set", "length"], capsys)
    assert "steps a second" in refusal(["play", "hallway", "--out", out, "--realtime", "0"], capsys)
    assert "out of range" in refusal(["play", "hallway", "--out", out, "--seeds", "-1"], capsys)
    assert "settings" in refusal(["play", "hallway", "--out", toy], capsys)
