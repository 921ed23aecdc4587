"""metrics.jsonl: appended to, and cut back to what a state counts; shown elsewhere too where that is asked for."""

import sys
from pathlib import Path

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.runs.log import MetricsLog, checked_boards, read_metrics


def test_a_run_that_goes_on_cuts_back_what_came_after_its_state(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, 0)
    for epoch in (1, 2, 3):
        log.add({"epoch": epoch, "imitation_loss": 0.1 / epoch})
    with path.open("a") as stream:
        stream.write('{"epoch": 4, "imita')
    assert [line["epoch"] for line in read_metrics(path)] == [1, 2, 3]
    again = MetricsLog(path, 2)
    again.add({"epoch": 3, "imitation_loss": 7.0})
    again.sync()
    assert [line["imitation_loss"] for line in read_metrics(path)] == [0.1, 0.05, 7.0]


def test_missing_and_damaged_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with pytest.raises(UserError, match="0 of the 2 epochs"):
        MetricsLog(path, 2)
    for damaged in (b"nonsense", b'{"epoch": "\xff"}', b"[]", b"{}"):
        path.write_bytes(b'{"epoch": 1}\n' + damaged + b"\n")
        with pytest.raises(UserError, match="line 2 is damaged"):
            read_metrics(path)


def test_a_run_that_is_deleted_while_it_is_looked_at_has_no_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: True)  # it was there a moment ago
    assert read_metrics(Path("nowhere/metrics.jsonl")) == []


def test_tensorboard_gets_every_figure(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(tmp_path / "metrics.jsonl", 0, ["tensorboard"])
    log.add({"epoch": 1, "test_accuracy": 0.5})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("test_accuracy")] == [(1, 0.5)]


def test_weights_and_biases_stays_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_NAME"):
        monkeypatch.delenv(name, raising=False)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"train": {"seed": 7}}')
    for epoch in (0, 1):  # it goes on as the same run
        log = MetricsLog(run / "metrics.jsonl", epoch, ["wandb"])
        log.add({"epoch": epoch + 1, "test_accuracy": 0.5})
        log.close()
    wandb.teardown()  # its process has written everything when it has ended
    written = [path.read_bytes() for path in sorted((run / "wandb").glob("offline-run-*/*.wandb"))]
    assert len(written) == 2
    assert not list((run / "wandb").glob("run-*"))  # what is sent
    identity = (run / "wandb" / "id").read_text()
    for part in (identity, "attentiontuner", "test_accuracy", '{"seed":7}'):
        assert all(part.encode() in data for data in written), part


def test_a_board_that_is_not_there_is_named_with_the_way_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_boards(["tensorboard", "tensorboard"]) == ("tensorboard",)
    with pytest.raises(UserError, match="--log mlflow: there are tensorboard and wandb"):
        checked_boards(["mlflow"])
    (tmp_path / "wandb").mkdir()  # what it leaves where it has run is no package
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(UserError, match=r"pip install 'attentiontuner\[wandb\]'"):
        checked_boards(["wandb"])
