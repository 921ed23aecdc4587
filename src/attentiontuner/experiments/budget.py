"""How long a cell will take, from measured speeds; so that nothing is started that the time left cannot finish."""

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from attentiontuner.errors import UserError
from attentiontuner.experiments.cells import Cell
from attentiontuner.experiments.records import Record
from attentiontuner.training.log import read_metrics

CALIBRATION_SECONDS = 20.0
"""How long a cell of unknown speed trains before it is decided whether it fits; that work is kept."""

EVALUATION_SHARE = 0.1
"""Time kept free for the evaluation where none was measured: this share of the whole training, and a few seconds."""

SPARE_SECONDS = 3.0
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
        if lines := read_metrics(run):
            self._begun.append((cell, own_seconds(lines, 1) / cell.demos))

    def train_seconds(self, cell: Cell, epochs: int) -> float | None:
        """For `epochs` epochs of `cell`; None where nothing comparable was measured. Cells of the method go first."""
        measured = [
            (record.cell, record.seconds["train"] / (record.cell.epochs * record.cell.demos))
            for record in self._records
        ]
        alike = [(other, work) for other, work in [*measured, *self._begun] if _alike(other, cell)]
        same = [work for other, work in alike if other.method == cell.method] or [work for _, work in alike]
        return median(same) * epochs * cell.demos if same else None

    def evaluate_seconds(self, cell: Cell) -> float | None:
        alike = [record for record in self._records if _alike(record.cell, cell)]
        return max((record.seconds["evaluate"] for record in alike), default=None)

    def collect_seconds(self, cell: Cell) -> float | None:
        alike = [record for record in self._records if _alike(record.cell, cell)]
        work = [record.seconds["collect"] / (record.cell.demos + record.cell.test_demos) for record in alike]
        return median(work) * (cell.demos + cell.test_demos) if work else None

    def remaining_seconds(self, cell: Cell, run: Path, collected: bool) -> float | None:
        """What is left to do of `cell`, whose work in progress is in `run`; None: unknown, so it has to be tried."""
        lines = read_metrics(run)
        left = cell.epochs - len(lines)
        train = own_seconds(lines, left) if lines else self.train_seconds(cell, left)
        if train is None:
            return None
        evaluate = self.evaluate_seconds(cell)
        collect = 0.0 if collected else self.collect_seconds(cell) or 0.0
        whole = train * cell.epochs / max(left, 1)
        return collect + train + (evaluation_reserve(whole) if evaluate is None else evaluate) + SPARE_SECONDS


def own_seconds(lines: list[dict[str, float]], epochs: int) -> float:
    """Seconds for `epochs` more epochs of a run with these metrics; the first epoch, slow to start, is left out."""
    measured = [line["seconds"] for line in lines]
    return median(measured[1:] or measured) * epochs


def evaluation_reserve(train_seconds: float) -> float:
    """Seconds to keep for an evaluation that was never measured."""
    return SPARE_SECONDS + EVALUATION_SHARE * train_seconds


def _alike(one: Cell, other: Cell) -> bool:
    return (one.task, one.scale) == (other.task, other.scale)
