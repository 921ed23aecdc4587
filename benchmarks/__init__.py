"""Measured speeds. `python -m benchmarks [room ...]` runs every file here (or the named ones) and prints one table.

A file has a function `bench()` that returns rows. A speed-up is a ratio of two things measured in the same run, so that
it means the same on a busy machine and on an idle one.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table. `bar` is what the figure should reach, as text ("" where there is none)."""

    name: str
    value: float
    unit: str
    bar: str = ""
