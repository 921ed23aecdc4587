"""`python -m benchmarks [room ...]`."""

import importlib
import pkgutil
import sys
import time

from rich.console import Console
from rich.table import Table

import benchmarks
from attentiontuner.core.threads import wait_briefly

APART = ("__main__", "load", "watching")
"""No benchmarks: this, and what takes many minutes, with its instruments."""


def main(wanted: list[str]) -> None:
    wait_briefly()
    rooms = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in APART)
    unknown = set(wanted) - set(rooms)
    if unknown:
        sys.exit(f"benchmarks: no such file: {', '.join(sorted(unknown))}; there are {', '.join(rooms)}")
    table = Table("room", "what", "measured", "unit", "bar", title="AttentionTuner benchmarks")
    for room in wanted or rooms:
        started = time.perf_counter()
        print(f"{room} …", file=sys.stderr, flush=True)
        for row in importlib.import_module(f"benchmarks.{room}").bench():
            table.add_row(room, row.name, f"{row.value:,.4g}", row.unit, row.bar)
        print(f"{room}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
