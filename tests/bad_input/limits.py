"""What bad input may cost: so many seconds, and so much memory."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BOMB_BYTES = 100e6
"""More than this nothing may take that ends in a line."""

HERE = Path("/proc/self")


class Hang(BaseException):
    """Nothing that a command turns into a line."""


@contextmanager
def in_time(seconds: float, room: float) -> Iterator[None]:
    """What takes more seconds of the processor is a hang, what takes more bytes beyond what the tests have already a
    `MemoryError`."""

    def late(number: int, frame: object) -> None:
        raise Hang(f"not over after {seconds} seconds")

    taken = int((HERE / "statm").read_text().split()[0]) * resource.getpagesize()
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (int(taken + room), hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
        signal.signal(signal.SIGPROF, handler)


class Grown:
    """Bytes that this process has grown by at most since it was made; always 0 where Linux does not tell."""

    def __init__(self) -> None:
        self.told = os.access(HERE / "clear_refs", os.W_OK)
        if self.told:
            (HERE / "clear_refs").write_text("5")  # the peak is from now on
            self.before = self._peak()

    def bytes(self) -> float:
        return self._peak() - self.before if self.told else 0.0

    def _peak(self) -> float:
        (line,) = (line for line in (HERE / "status").read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * float(line.split()[1])
