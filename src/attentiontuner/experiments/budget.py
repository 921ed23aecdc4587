"""How long a cell will take, from measured speeds; so that nothing is started that the time left cannot finish."""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from attentiontuner.errors import UserError
from attentiontuner.experiments.cells import Cell, longer_length
from attentiontuner.experiments.records import Record
from attentiontuner.files import read_json
from attentiontuner.training.log import read_metrics

CALIBRATION_SECONDS = 20.0
"""How long a cell of unknown speed trains before it is decided whether it fits; that work is kept."""

EVALUATION_SHARE = 0.2
"""Time kept free for the evaluation where none was measured: this share of the whole training, and a few seconds."""

SPARE_SECONDS = 3.0
PAPER_BATCH = 64
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `25m`, `1.5h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"--budget {text}: write a time such as 90s, 25m or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def parse_seeds(text: str) -> list[int]:
    """Seeds in `1-5`, `1,3` or `1-3,7`."""
    seeds: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise UserError(f"--seeds {text}: write seeds such as 1-5 or 1,3,7")
        seeds.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    if text and not seeds:
        raise UserError(f"--seeds {text}: that is none; write seeds such as 1-5 or 1,3,7")
    return seeds


class Speeds:
    """Measured speeds on one device: of finished cells, and of cells that were only begun."""

    def __init__(self, records: Iterable[Record], device: str) -> None:
        self._records = [record for record in records if record.device == device]
        self._begun: list[tuple[Cell, float]] = []

    def add(self, record: Record) -> None:
        """Learn from a finished cell."""
        self._records.append(record)

    def add_begun(self, cell: Cell, run: Path) -> None:
        """Learn from a cell whose training, in the folder `run`, was stopped."""
        if begun := begun_run(cell, run):
            self._begun.append((cell, begun.epoch_seconds / cell.demos))

    def train_seconds(self, cell: Cell, epochs: float) -> float | None:
        """For `epochs` epochs of `cell`; None where nothing comparable was measured. Cells of the method go first."""
        measured = [
            (record.cell, record.seconds["train"] / (record.cell.epochs * record.cell.demos))
            for record in self._records
        ]
        alike = [(other, work) for other, work in [*measured, *self._begun] if _alike(other, cell)]
        same = [work for other, work in alike if other.method == cell.method] or [work for _, work in alike]
        return median(same) * epochs * cell.demos if same else None

    def evaluate_seconds(self, cell: Cell) -> float | None:
        """The longest of cells that were evaluated in as many worlds; None where none was."""
        alike = [record for record in self._records if _alike(record.cell, cell)]
        worlds = [record for record in alike if list(record.cell.lengths) == list(cell.lengths)]
        return max((record.seconds["evaluate"] for record in worlds), default=None)

    def collect_seconds(self, cell: Cell) -> float | None:
        alike = [record for record in self._records if _alike(record.cell, cell)]
        work = [record.seconds["collect"] / (record.cell.demos + record.cell.test_demos) for record in alike]
        return median(work) * (cell.demos + cell.test_demos) if work else None

    def remaining_seconds(self, cell: Cell, run: Path, collected: bool) -> float | None:
        """What is left to do of `cell`, whose work in progress is in `run`; None: unknown, so it has to be tried."""
        begun = begun_run(cell, run)
        left = cell.epochs - (begun.epochs if begun else 0.0)
        train = begun.epoch_seconds * left if begun else self.train_seconds(cell, cell.epochs)
        if train is None:
            return None
        evaluate = self.evaluate_seconds(cell)
        collect = 0.0 if collected else self.collect_seconds(cell) or 0.0
        whole = train * cell.epochs / max(left, 1.0)
        return collect + train + (evaluation_reserve(whole, cell) if evaluate is None else evaluate) + SPARE_SECONDS


class Begun(NamedTuple):
    """How far a run is, in epochs and parts of one, and its own seconds an epoch."""

    epochs: float
    epoch_seconds: float


def begun_run(cell: Cell, run: Path) -> Begun | None:
    """What the run folder of a cell says about its speed; None before its first saved batch.

    From the second epoch on the first, slow to start, is left out.
    """
    lines = read_metrics(run)
    if len(lines) > 1:
        return Begun(len(lines), median(line["seconds"] for line in lines[1:]))
    state = load_progress(run)
    if state is None:
        return Begun(1.0, lines[0]["seconds"]) if lines else None
    epoch, batch, seconds = state
    batches = math.ceil(cell.demos / int(cell.config.get("batch_size", PAPER_BATCH)))
    done = epoch + batch / batches
    return Begun(done, seconds / done) if done > 0 else None


def load_progress(run: Path) -> tuple[int, int, float] | None:
    """Epochs, batches of the next one, and seconds in all, from the newest training state of a run."""
    pointer = run / "state" / "latest"
    if not pointer.is_file():
        return None
    value = read_json(run / "state" / pointer.read_text(encoding="utf-8").strip() / "state.json")
    return int(value["epoch"]), int(value["batch"]), float(value["numbers"]["seconds"])


def evaluation_reserve(train_seconds: float, cell: Cell) -> float:
    """Seconds to keep for an evaluation that was never measured, in longer worlds too where the cell has some."""
    own = longer_length(cell.task, cell.settings, 1) if cell.lengths else 1
    return SPARE_SECONDS + EVALUATION_SHARE * train_seconds * (1 + sum(length / own for length in cell.lengths))


def _alike(one: Cell, other: Cell) -> bool:
    return (one.task, one.scale) == (other.task, other.scale)
