"""How long a cell will take, from measured speeds; so that nothing is started that the time left cannot finish."""

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from attentiontuner.experiments.planning.cells import Cell, cell_config, longer_length
from attentiontuner.experiments.records import Record
from attentiontuner.runs.run import Run

CALIBRATION_SECONDS = 20.0
"""How long a cell of unknown speed trains before it is decided whether it fits; that work is kept."""

EVALUATION_SHARE = 0.2
"""Time kept free for the evaluation where none was measured: this share of the whole training, and a few seconds."""

SPARE_SECONDS = 3.0


class Speeds:
    """Measured speeds on one device: of finished cells, and of cells that were only begun.

    Code that became faster, and cells that shared the device with more or fewer others, tell little: records of this
    `revision` with as many `jobs` side by side go first, and others count only where there are none.
    """

    def __init__(self, records: Iterable[Record], device: str, revision: str | None = None, jobs: int = 1) -> None:
        self._revision, self._jobs = revision, jobs
        self._records = [record for record in records if record.device == device]
        self._begun: list[tuple[Cell, float, bool]] = []

    def add(self, record: Record) -> None:
        """Learn from a finished cell."""
        self._records.append(record)

    def add_begun(self, cell: Cell, run: Run) -> None:
        """Learn from a cell whose training was stopped just now."""
        if begun := begun_run(cell, run):
            self._begun.append((cell, begun.epoch_seconds / cell.facts.demonstrations, True))

    def train_seconds(self, cell: Cell, epochs: float) -> float | None:
        """For `epochs` epochs of `cell`; None where nothing comparable was measured. Cells of the method go first."""
        measured = [
            (record.cell, record.seconds["train"] / _seen(record.cell, record.cell.epochs), self._now(record))
            for record in self._records
        ]
        alike = [entry for entry in [*measured, *self._begun] if _alike(entry[0], cell)]
        same = [entry for entry in alike if entry[0].method == cell.method] or alike
        work = [work for _, work, now in same if now] or [work for _, work, _ in same]
        return median(work) * _seen(cell, epochs) if work else None

    def evaluate_seconds(self, cell: Cell) -> float | None:
        """The longest of cells that were evaluated in as many worlds; None where none was."""
        alike = [record for record in self._records if _alike(record.cell, cell)]
        worlds = [record for record in alike if list(record.cell.lengths) == list(cell.lengths)]
        return max((record.seconds["evaluate"] for record in self._nearest(worlds)), default=None)

    def collect_seconds(self, cell: Cell) -> float | None:
        alike = self._nearest([record for record in self._records if _alike(record.cell, cell)])
        work = [record.seconds["collect"] / (record.cell.demos + record.cell.test_demos) for record in alike]
        return median(work) * (cell.demos + cell.test_demos) if work else None

    def _now(self, record: Record) -> bool:
        return (record.revision, record.jobs) == (self._revision, self._jobs)

    def _nearest(self, records: list[Record]) -> list[Record]:
        return [record for record in records if self._now(record)] or records

    def remaining_seconds(self, cell: Cell, run: Run, collected: bool) -> float | None:
        """What is left to do of `cell`, whose work in progress is `run`; None: unknown, so it has to be tried."""
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


def begun_run(cell: Cell, run: Run) -> Begun | None:
    """What the run of a cell says about its speed; None before its first saved batch.

    From the second epoch on the first, slow to start, is left out.
    """
    lines = run.metrics()
    if len(lines) > 1:
        return Begun(len(lines), median(line["seconds"] for line in lines[1:]))
    progress = run.progress()
    if progress is None:
        return Begun(1.0, lines[0]["seconds"]) if lines else None
    batches = math.ceil(cell.facts.demonstrations / cell_config(cell).batch_size)
    done = progress.epoch + progress.batch / batches
    return Begun(done, progress.seconds / done) if done > 0 else None


def evaluation_reserve(train_seconds: float, cell: Cell) -> float:
    """Seconds to keep for an evaluation that was never measured, in longer worlds too where the cell has some."""
    own = longer_length(cell.task, cell.settings, 1) if cell.lengths else 1
    return SPARE_SECONDS + EVALUATION_SHARE * train_seconds * (1 + sum(length / own for length in cell.lengths))


def _seen(cell: Cell, epochs: float) -> float:
    """Demonstrations seen in so many epochs of a cell."""
    return epochs * cell.facts.demonstrations


def _alike(one: Cell, other: Cell) -> bool:
    return (one.task, one.scale) == (other.task, other.scale)
