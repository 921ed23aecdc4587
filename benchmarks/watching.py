"""What a command and its processes hold in memory while they run, and commands that may not have more than so much."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import linear_regression

GROUPS = Path("/sys/fs/cgroup/memory")
"""Where Linux bounds the memory of groups of processes, the files they have read included (root alone may)."""


class Watch:
    """Looks every `every` seconds how many megabytes a process and its children hold, pages that several hold being
    shared out among them (`Pss` of Linux)."""

    def __init__(self, process: int, every: float = 2.0) -> None:
        self.process, self.every = process, every
        self.seen: list[tuple[float, float]] = []  # seconds, megabytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        ended = False
        while not ended:
            if held := sum(map(_held, _family(self.process))):
                self.seen.append((time.monotonic() - self._started, held))
            ended = self._stop.wait(self.every)

    @property
    def peak(self) -> float:
        return max(held for _, held in self.seen)

    def at(self, share: float) -> float:
        """Megabytes after this share of the time."""
        return self.seen[min(int(share * len(self.seen)), len(self.seen) - 1)][1]

    def growth(self) -> float:
        """Megabytes an hour over the second half: a straight line through what was seen."""
        half = self.seen[len(self.seen) // 2 :]
        return 3600 * linear_regression(*zip(*half, strict=True)).slope if len(half) > 2 else 0.0

    def words(self) -> str:
        figures = ", ".join(f"{self.at(share):,.0f}" for share in (0.05, 0.25, 0.5, 0.75, 1))
        return (
            f"memory after 5, 25, 50, 75 and 100 % of the time: {figures} MB; at most {self.peak:,.0f} MB; "
            f"in the second half {self.growth():+,.0f} MB an hour"
        )


def _family(process: int) -> Iterator[int]:
    yield process
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _held(process: int) -> float:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def run_watched(words: Sequence[str], every: float = 2.0, group: Path | None = None) -> tuple[Watch, float]:
    """Run a command to its end, in a group of bounded memory where one is given; what it held, and its seconds."""
    started = time.monotonic()
    process = start(words, group)
    with Watch(process.pid, every) as watch:
        code = process.wait()
    if code:
        raise SystemExit(f"{' '.join(words)} ended with {code}")
    return watch, time.monotonic() - started


def start(words: Sequence[str], group: Path | None, **given: object) -> "subprocess.Popen[str]":
    """A process of a command; within a group from its first moment."""
    if group is not None:
        words = ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$@"', "sh", *words]
    return subprocess.Popen(words, text=True, **given)  # type: ignore[call-overload, no-any-return]


@contextmanager
def bounded(gigabytes: float) -> Iterator[Path]:
    """A group whose processes have at most so much memory together; the kernel ends one that wants more."""
    group = GROUPS / f"attentiontuner-load-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(int(gigabytes * 2**30)))
        yield group
    finally:
        group.rmdir()


def refused(group: Path) -> int:
    """How often the group wanted more than it may have, and files had to be forgotten for it."""
    return int((group / "memory.failcnt").read_text())
