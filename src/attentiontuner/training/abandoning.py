"""Stopping in the middle of a long computation: between any two operations, and whatever they are of."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SLOW = 1.0
"""Seconds: what took less the last time is not asked about in the middle. Asking costs some 20 µs an operation, a
quarter of a step of a tenth of a second."""

GRACE = 1.0
"""Seconds that everything may take, so that a budget of nothing still takes a step."""


class Abandoned(Exception):
    """Somebody wished to stop, and what was being computed is thrown away."""


class _Listening(TorchDispatchMode):
    """Asks before every operation, of a gradient too, whether to stop. It changes no result."""

    def __init__(self, wish: Callable[[], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wish, self.patient_until = wish, time.monotonic() + GRACE

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.monotonic() >= self.patient_until and self.wish():
            raise Abandoned
        return func(*args, **(kwargs or {}))


class Attentive:
    """What is computed again and again: from the first time on that took long, and the very first time, it can be
    stopped in the middle. Asking before every operation would cost a short one more than it saves."""

    def __init__(self) -> None:
        self._last = float("inf")

    @contextmanager
    def to(self, wish: Callable[[], bool] | None) -> Iterator[None]:
        """While this lasts a `wish` that comes true raises `Abandoned`; PyTorch's generator is then as it was."""
        started = time.monotonic()
        if wish is None or self._last < SLOW:
            yield
        else:
            generator = torch.get_rng_state()
            try:
                with _Listening(wish):
                    yield
            except Abandoned:
                torch.set_rng_state(generator)
                raise
        self._last = time.monotonic() - started
