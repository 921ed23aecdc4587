"""What SIGINT and SIGTERM do for a while: a wish to save and leave, a clean way out, or nothing."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

Handler = Callable[[int, FrameType | None], Any] | signal.Handlers


class Interrupted(KeyboardInterrupt):
    """A signal ended the run after it was saved. The text says how to go on; `signal` is its number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that this signal ended: 130 or 143."""
        return 128 + self.signal


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A handler: as Ctrl-C, but the exit code tells the signal."""
    raise Interrupted(f"stopped by {signal.Signals(number).name}", number)


@contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """`handler` in place of the present ones; outside the main thread, where Python has no signals, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that the signals received meanwhile appear in. A second signal of the same kind ends the process at once.

    The run then saves after the present batch and leaves. Outside the main thread the list stays empty.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    with handled(note, signal.SIGINT, signal.SIGTERM):
        yield received


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """A handler: clean up, then end as a shell expects of a process that this signal ended."""
    raise SystemExit(128 + number)
