"""Metrics of a run: one JSON line per epoch, and TensorBoard where it is wanted."""

import json
import os
from pathlib import Path
from typing import Any

from attentiontuner.errors import UserError
from attentiontuner.files import write_text
from attentiontuner.wording import counted

METRICS_FILE = "metrics.jsonl"


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The epochs of a run so far. A line that was cut off by a kill is left out; a damaged one is a `UserError`."""
    path = run / METRICS_FILE
    if not path.exists():
        return []
    *lines, _unfinished = path.read_text(encoding="utf-8").split("\n")
    epochs = []
    for number, line in enumerate(lines, 1):
        try:
            epochs.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number} is damaged: {error}") from error
    return epochs


class MetricsLog:
    """Appends to `metrics.jsonl`. Made for a run that goes on after `epoch`, it first cuts back what came later."""

    def __init__(self, run: Path, epoch: int, tensorboard: bool) -> None:
        self.path = run / METRICS_FILE
        self.epochs = [metrics for metrics in read_metrics(run) if metrics["epoch"] <= epoch]
        if len(self.epochs) != epoch:
            done = counted(epoch, "epoch")
            raise UserError(f"{self.path} has {len(self.epochs)} of the {done} done according to {run}/state")
        write_text(self.path, "".join(_line(metrics) for metrics in self.epochs))
        self._board = _board(run / "tensorboard", epoch) if tensorboard else None

    def add(self, metrics: dict[str, Any]) -> None:
        """Append one epoch."""
        self.epochs.append(metrics)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(_line(metrics))
        if self._board is not None:
            for name, value in metrics.items():
                if name != "epoch":
                    self._board.add_scalar(name, value, metrics["epoch"])

    def sync(self) -> None:
        """Put what was appended on the disk: a state that counts an epoch must never outlive its line."""
        with self.path.open("a", encoding="utf-8") as stream:
            os.fsync(stream.fileno())

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _line(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, allow_nan=False) + "\n"


def _board(folder: Path, epoch: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("--tensorboard needs a package: pip install 'attentiontuner[tensorboard]'") from None
    return SummaryWriter(str(folder), purge_step=epoch + 1)
