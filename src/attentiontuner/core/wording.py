"""Numbers and the words that follow them; words that were meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(word: str, known: Iterable[str]) -> str:
    """`did you mean train? ` of a mistyped word, "" where none of those known is like it."""
    alike = get_close_matches(word, known)
    return f"did you mean {' or '.join(alike)}? " if alike else ""


def size(nbytes: int) -> str:
    """Bytes as `4.20 MB`, or `348 kB` below one megabyte."""
    return f"{nbytes / 1e6:,.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} kB"


def counted(number: int, noun: str, nouns: str = "", form: str = "") -> str:
    """A number of things: `counted(1, "pair")` is "1 pair", `counted(3, "batch", "batches")` is "3 batches".

    `form` is how the number is written, such as "," for "1,200 pairs".
    """
    return f"{number:{form}} {noun if number == 1 else nouns or noun + 's'}"
