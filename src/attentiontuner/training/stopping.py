"""SIGINT and SIGTERM as a wish: the run saves after the present batch and leaves."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A signal ended the run after it was saved. The text says how to go on; `signal` is its number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that this signal ended: 130 or 143."""
        return 128 + self.signal


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that the signals received meanwhile appear in. A second signal of the same kind ends the process at once.

    Outside the main thread, where Python has no signals, the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
