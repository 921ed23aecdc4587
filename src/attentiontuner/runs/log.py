"""Metrics of a run: one JSON line per epoch, and TensorBoard where it is wanted."""

import json
import os
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import write_text
from attentiontuner.core.wording import counted


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The epochs of a run so far. A line that was cut off by a kill is left out; a damaged one is a `UserError`."""
    try:
        *lines, _unfinished = path.read_bytes().split(b"\n")
    except FileNotFoundError:  # not begun yet, or finished and deleted just now
        return []
    epochs = []
    for number, line in enumerate(lines, 1):
        try:
            epoch = json.loads(line)
            if not isinstance(epoch, dict) or not isinstance(epoch.get("epoch"), int):
                raise ValueError("it is no epoch")
        except ValueError as error:
            raise UserError(f"{path}, line {number} is damaged: {error}") from error
        epochs.append(epoch)
    return epochs


class MetricsLog:
    """Appends to `path`. Made for a run that goes on after `epoch`, it first cuts back what came later.

    `board`: the folder of TensorBoard's files, None for none.
    """

    def __init__(self, path: Path, epoch: int, board: Path | None = None) -> None:
        self.path = path
        self.epochs = [metrics for metrics in read_metrics(path) if metrics["epoch"] <= epoch]
        if len(self.epochs) != epoch:
            done = counted(epoch, "epoch")
            raise UserError(f"{path} has {len(self.epochs)} of the {done} done according to the run's newest state")
        write_text(path, "".join(_line(metrics) for metrics in self.epochs))
        self._board = None if board is None else _board(board, epoch)

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
