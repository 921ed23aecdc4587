"""Kinds of files, and what it means that one of them is spoiled: it is read, or refused in one line that names it."""

import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attentiontuner.core.errors import UserError
from tests.bad_input.limits import BOMB_BYTES, Grown, Hang, in_time
from tests.bad_input.spoiling import spoil

SECONDS = 10
"""Of the processor that reading a spoiled file may take."""

ROOM = 8 * 2**30
"""Bytes that it may ask for, so that tests never take the whole machine."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: where it lies, who reads it, whether its lines are values, whether some of what is wrong is left
    out, as what a kill cuts off, what has to agree with it, and the folder that is read with it, if not the first of
    its path."""

    file: str
    read: Callable[[Path], object]
    lines: bool = False
    tolerant: bool = False
    agree: Callable[[Path], None] = lambda root: None
    folder: str = ""

    @property
    def of(self) -> str:
        """The folder that has to be there to read it."""
        return self.folder or self.file.split("/")[0]


def spoil_and_read(kind: Kind, sound: Path, place: Path, name: str, number: int) -> str:
    """What a spoiled file ends in: "" where it was read. Anything but a `UserError` is raised as it is."""
    rng = random.Random(f"{name} {number}")
    shutil.copytree(sound / kind.of, place / kind.of)
    path = place / kind.file
    content = (sound / kind.file).read_bytes()
    path.write_bytes(spoil(content, rng, kind.lines))
    kind.agree(place)
    outside = set(place.parent.iterdir())
    try:
        kind.read(place)
    except UserError as error:
        return str(error) or "nothing is said"
    finally:
        assert set(place.parent.iterdir()) == outside, "something was written elsewhere"
        shutil.rmtree(place)
    return ""


def check(kind: Kind, sound: Path, place: Path, name: str, numbers: range) -> None:
    """Spoil the file of a kind in one way for each number."""
    refused, escaped = 0, []
    for number in numbers:
        grown = Grown()
        try:
            with warnings.catch_warnings(), in_time(SECONDS, ROOM):
                warnings.simplefilter("ignore")
                refused += bool(spoil_and_read(kind, sound, place, name, number))
        except (Exception, Hang) as error:
            escaped.append(f"{name}, case {number}: {type(error).__name__}: {str(error)[:200]}")
        if grown.bytes() > BOMB_BYTES:
            escaped.append(f"{name}, case {number}: it took {grown.bytes() / 1e6:,.0f} MB")
    assert not escaped, "\n".join(escaped)
    assert refused or kind.tolerant, "nothing was ever refused"
