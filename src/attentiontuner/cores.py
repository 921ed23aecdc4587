"""How many processes are worth starting here."""

import os


def usable_cores() -> int:
    """CPU cores this process may use: a container or a scheduler may give it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
