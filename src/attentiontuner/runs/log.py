"""Metrics of a run: one JSON line per epoch, and the same for TensorBoard or Weights & Biases where that is wanted."""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import MOST_LINES, content_of, shortened, write_text
from attentiontuner.core.wording import counted


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The epochs of a run so far. A line that was cut off by a kill is left out; a damaged one is a `UserError`."""
    try:
        *lines, _unfinished = content_of(path, MOST_LINES).split(b"\n")
    except FileNotFoundError:  # not begun yet, or finished and deleted just now
        return []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    epochs = []
    for number, line in enumerate(lines, 1):
        try:
            epoch = json.loads(line)
            if not isinstance(epoch, dict) or not isinstance(epoch.get("epoch"), int):
                raise ValueError("it is no epoch")
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number} is damaged: {shortened(str(error))}") from error
        epochs.append(epoch)
    return epochs


class Board(Protocol):
    """Where else metrics are shown."""

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Show one epoch."""

    def close(self) -> None:
        """Nothing comes any more."""


class MetricsLog:
    """Appends to `path`. Made for a run that goes on after `epoch`, it first cuts back what came later.

    `boards`: those of `BOARDS` that shall show the same; their files lie beside `path`.
    """

    def __init__(self, path: Path, epoch: int, boards: Iterable[str] = ()) -> None:
        self.path = path
        self.epochs = [metrics for metrics in read_metrics(path) if metrics["epoch"] <= epoch]
        if len(self.epochs) != epoch:
            done = counted(epoch, "epoch")
            raise UserError(f"{path} has {len(self.epochs)} of the {done} done according to the run's newest state")
        write_text(path, "".join(_line(metrics) for metrics in self.epochs))
        self._boards = [BOARDS[name](path.parent, epoch) for name in checked_boards(boards)]

    def add(self, metrics: dict[str, Any]) -> None:
        """Append one epoch."""
        self.epochs.append(metrics)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(_line(metrics))
        for board in self._boards:
            board.add(metrics)

    def sync(self) -> None:
        """Put what was appended on the disk: a state that counts an epoch must never outlive its line."""
        with self.path.open("a", encoding="utf-8") as stream:
            os.fsync(stream.fileno())

    def close(self) -> None:
        for board in self._boards:
            board.close()


def _line(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, allow_nan=False) + "\n"


class TensorBoard:
    """RUN/tensorboard."""

    def __init__(self, run: Path, epoch: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run / "tensorboard"), purge_step=epoch + 1)

    def add(self, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, metrics["epoch"])

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """RUN/wandb. Nothing leaves the machine unless the user's own WANDB_MODE says so; `wandb sync` sends it later."""

    def __init__(self, run: Path, epoch: int) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "attentiontuner"),
                name=os.environ.get("WANDB_NAME", run.resolve().name),
                dir=run,
                id=_identity(run / "wandb" / "id"),
                resume="allow",
                config=_configuration(run),
                mode=mode,
                settings=wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
            )
        except wandb.Error as error:
            raise UserError(f"--log wandb: {error}") from error

    def add(self, metrics: Mapping[str, Any]) -> None:
        self._run.log(dict(metrics), step=metrics["epoch"])

    def close(self) -> None:
        self._run.finish()


BOARDS: dict[str, Callable[[Path, int], Board]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
"""name, which is also that of the package and of our extra → what is made of a run's folder and its epochs so far."""


def checked_boards(names: Iterable[str]) -> tuple[str, ...]:
    """`names`, if there are such boards and their packages are installed."""
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in BOARDS:
            raise UserError(f"--log {name}: there are {' and '.join(BOARDS)}, or both as {','.join(BOARDS)}")
        found = find_spec(name)
        if found is None or found.origin is None:  # a folder of that name, such as they leave behind, is no package
            raise UserError(f"--log {name} needs a package: pip install 'attentiontuner[{name}]'")
    return names


def _identity(path: Path) -> str:
    """What a run is called by Weights & Biases, kept so that one that goes on is the same."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, secrets.token_hex(8))
    return path.read_text(encoding="utf-8").strip()


def _configuration(run: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found
