"""What goes to a terminal: words of files and of others, which are never commands to it, and a terminal that may be
gone, narrow or know no characters but a few."""

import re
import sys
from contextlib import suppress
from typing import Any, TextIO

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that command a terminal."""

NARROWEST = 20
"""Columns; a terminal that says it has fewer does not know."""


def plain(text: str) -> str:
    """One line of `text`, with control characters and what is no text written out."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", line)


def console(stderr: bool = False) -> Any:
    """Where tables and bars are drawn: brackets in names are brackets."""
    from rich.console import Console

    usual: dict[str, Any] = {"stderr": stderr, "markup": False, "emoji": False, "highlight": False}
    return Console(**usual, width=None if Console(**usual).width >= NARROWEST else 80)


class Tolerant:
    """A stream for messages: what cannot be written there is lost, and the work goes on. A terminal may be closed, the
    disk of a log full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def tame() -> None:
    """At the start of a command: characters that the terminal does not know are written out, and messages may fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if sys.stderr is not None and not isinstance(sys.stderr, Tolerant):
        sys.stderr = Tolerant(sys.stderr)  # type: ignore[assignment]
