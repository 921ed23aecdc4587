"""A cell to run, what became of it, and where its work lies meanwhile."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attentiontuner.experiments.planning.cells import Cell
from attentiontuner.runs.run import Run


@dataclass(frozen=True)
class Job:
    """A cell to run, and where.

    Attributes:
        records, data: folders.
        deadline: `time.monotonic()` of this machine by which it has to be over; None: no limit.
        cores: CPU cores this job may use.
        keep_run: keep the trained model in `RECORDS/.runs/<folder>/<cell>/`.
        jobs: how many run side by side.
        partly: train as far as the time goes, though it will not do for the whole cell; the next command goes on.
        imports: code of people's own that registers what the cell needs, see `tasks.own_code`.
    """

    cell: Cell
    records: Path
    data: Path
    deadline: float | None = None
    cores: int = 1
    keep_run: bool = False
    jobs: int = 1
    partly: bool = False
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a job. `there`: somebody else finished it; `later`: the time left was not enough, work is kept;
    `full`: it failed because a disk has no room."""

    cell: Cell
    state: Literal["done", "there", "later", "failed"]
    message: str = ""
    seconds: float = 0.0
    full: bool = False


def work_folder(records: Path, cell: Cell) -> Path:
    """Where the work in progress of a cell is."""
    return records / ".work" / cell.folder / cell.name


def work_lock(records: Path, cell: Cell) -> Path:
    """Held by whoever works on a cell."""
    work = work_folder(records, cell)
    return work.with_name(f"{work.name}.lock")


def work_run(records: Path, cell: Cell) -> Run:
    """The run of a cell that is not finished."""
    return Run(work_folder(records, cell) / "run")


def log_file(records: Path, cell: Cell) -> Path:
    """What a running or failed cell printed."""
    work = work_folder(records, cell)
    return work.with_name(f"{work.name}.log")


def kept_run(records: Path, cell: Cell) -> Path:
    """The run folder (configuration, metrics, weights) of a finished cell that was run with `keep_run`."""
    return records / ".runs" / cell.folder / cell.name
