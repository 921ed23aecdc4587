"""Who is where just now: what open pages say of themselves, for as long as they say it. Nothing of it is saved."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

SILENT_SECONDS = 90.0
"""A page speaks every 20 seconds, in the background once a minute; one that is silent for longer was closed."""

MOST_WINDOWS = 512


class Place(NamedTuple):
    """An annotator at a demonstration."""

    annotator: str
    episode: int


class Presence:
    """The windows that are open on one data set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[float, Place]] = {}

    def here(self, window: str, place: Place) -> None:
        """The page in `window` shows `place`."""
        with self._lock:
            self._windows.pop(window, None)
            self._windows[window] = self._clock(), place
            while len(self._windows) > MOST_WINDOWS:
                del self._windows[next(iter(self._windows))]

    def gone(self, window: str) -> None:
        """That page was closed or left."""
        with self._lock:
            self._windows.pop(window, None)

    def places(self) -> list[Place]:
        """Who is where, in order of names; one person in two windows at one demonstration is there once."""
        with self._lock:
            heard = self._clock() - SILENT_SECONDS
            self._windows = {window: entry for window, entry in self._windows.items() if entry[0] >= heard}
            return sorted({place for _, place in self._windows.values()})
