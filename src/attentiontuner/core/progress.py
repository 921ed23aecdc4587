"""Progress of anything long: a bar on a terminal, a plain line now and then elsewhere. Always on stderr."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attentiontuner.core.terminal import console

PLAIN_SECONDS = 10.0
"""Seconds between two lines where there is no terminal."""


class Bar:
    """What the body of `progress(...)` advances."""

    def __init__(self, label: str, total: int, display: Progress | None) -> None:
        self.label, self.total, self.done, self.note = label, total, 0, ""
        self._display = display
        self._task = display.add_task(label, total=total, note="") if display else None
        self._started = self._printed = time.monotonic()
        self._last_line = ""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more units as done; `note` is shown beside the bar until the next one."""
        self.done += amount
        self.note = note or self.note
        if self._display is not None and self._task is not None:
            self._display.update(self._task, completed=self.done, note=self.note)
        elif time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._printed = time.monotonic()
            self.print_line()

    def print_line(self) -> None:
        """One plain line: label, how far, seconds so far, about how many are left, note."""
        seconds = time.monotonic() - self._started
        line = f"{self.label}: {self.done}/{self.total} in {seconds:.0f} s"
        if 0 < self.done < self.total:
            line += f", about {duration(seconds * (self.total / self.done - 1))} left"
        line += f", {self.note}" if self.note else ""
        if self.done < self.total or line != self._last_line:  # the end is said once
            print(line, file=sys.stderr, flush=True)
        self._last_line = line


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `7 h 05 min`."""
    minutes = math.ceil(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min" if seconds > 60 else f"{seconds:.0f} s"


@contextmanager
def progress(label: str, total: int) -> Iterator[Bar]:
    """`with progress("collect", total=5000) as bar: ...; bar.advance(250)`."""
    display_on = console(stderr=True)
    if not display_on.is_terminal:
        bar = Bar(label, total, None)
        yield bar
        bar.print_line()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=display_on) as display:
        yield Bar(label, total, display)
