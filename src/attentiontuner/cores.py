"""How many processes are worth starting here, and how to start them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def usable_cores() -> int:
    """CPU cores this process may use: a container or a scheduler may give it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ctrl_c_is_not_inherited() -> Iterator[None]:
    """Processes started in this block never see Ctrl-C, not even while they import; here it comes after the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # started later, with the first process, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
