"""Numbers of demonstrations as text: `0-249,300`."""

import re
from collections.abc import Iterable
from itertools import groupby

from attentiontuner.core.errors import UserError

PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def format_ranges(numbers: Iterable[int]) -> str:
    """`{0, 1, 2, 7}` → `0-2,7`."""
    parts = []
    for _, group in groupby(enumerate(sorted(set(numbers))), key=lambda item: item[1] - item[0]):
        run = [number for _, number in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(parts)


def parse_ranges(text: str, count: int) -> set[int]:
    """`0-2,7` → `{0, 1, 2, 7}`, all below `count`; the first part that is no range of demonstrations is an error."""
    numbers: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        found = PART.fullmatch(part)
        if found is None:
            raise UserError(f"{part[:40]!r} is no range of demonstrations: write 0-249,300")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < count:
            raise UserError(f"there are no demonstrations {part}: the data set has {count}, counted from 0")
        numbers.update(range(first, last + 1))
    return numbers
