import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from attentiontuner.core.wording import counted, size

SOURCE = Path(__file__).parent.parent / "src" / "attentiontuner"
PLURAL = re.compile(
    r" (training |finished )?(actions|batches|cells|cores|demonstrations|episodes|epochs|frames|lengths|pairs|records|"
    r"shards|steps|symbols)\b"
)


def test_one_thing_and_several():
    assert [counted(number, "pair") for number in (0, 1, 2)] == ["0 pairs", "1 pair", "2 pairs"]
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(3, "batch", "batches") == "3 batches"
    assert counted(1200, "episode", form=",") == "1,200 episodes"


def test_small_things_are_in_kilobytes():
    assert [size(nbytes) for nbytes in (400, 999_000, 1_000_000, 1_234_567_890)] == [
        "0 kB", "999 kB", "1.00 MB", "1,234.57 MB",
    ]  # fmt: skip


def test_no_message_says_one_pairs():
    """A count stands in a text by way of `counted`, unless it is never 1: a constant, or "so many, among them"."""
    found = [
        f"{path.relative_to(SOURCE)}: {{{number}}}{words}"
        for path in SOURCE.rglob("*.py")
        for number, words in numbers_in_text(path)
        if PLURAL.match(words) and not number.isupper() and "among them" not in words
    ]
    assert found == []


def numbers_in_text(path: Path) -> Iterator[tuple[str, str]]:
    """(expression, the words after it) in every f-string of a file; averages, such as {mean:.1f}, are left out."""
    for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for value, words in pairwise(text.values if isinstance(text, ast.JoinedStr) else []):
            if not isinstance(value, ast.FormattedValue) or not isinstance(words, ast.Constant):
                continue
            if value.format_spec is None or "." not in ast.unparse(value.format_spec):
                yield ast.unparse(value.value), words.value
