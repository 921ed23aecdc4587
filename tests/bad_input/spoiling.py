"""Ways to spoil a file: bits, cuts, and JSON that says something else. Each is a function of a seed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEEP = 100_000
WRONG: list[Any] = [
    None, True, False, 0, -1, 1, 10**30, -(2**63), 2**31, 1e308, -0.5, float("nan"), float("inf"), "", "x", "0", "-1",
    "9" * 50, "1e999", "\x00", "ü" * 70, "../../x", "/etc/passwd", [], {}, [[]], {"a": 1}, [None], [0], ["x"], [1e308],
    {"kind": "image", "shape": [10**6, 10**6, 3]}, {"kind": "box", "shape": [1], "low": [0], "high": [None]},
]  # fmt: skip
"""What may stand where something else belongs."""

TEXTS = ["", "null", "[]", "{}", "0", '"x"', "{", "\x00", "NaN", "[" * DEEP, '{"a":' * DEEP, "9" * 5000, "\ufeff{}"]
"""What a whole file or a line of one may be instead."""


def spoil(content: bytes, rng: random.Random, lines: bool = False) -> bytes:
    """`content` with something wrong; `lines`: each of its lines is a JSON value, else the whole may be one."""
    ways = [_bits, _cut, _stuffed, _text]
    try:
        whole = content.decode()
        values = [json.loads(line) for line in whole.splitlines()] if lines else [json.loads(whole)]
        ways += [lambda given, rng: _said_otherwise(values, rng)] * 6
    except ValueError:
        pass
    return rng.choice(ways)(content, rng)


def _bits(content: bytes, rng: random.Random) -> bytes:
    spoiled = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        place = rng.randrange(len(spoiled))
        spoiled[place] = rng.choice([spoiled[place] ^ (1 << rng.randrange(8)), rng.randrange(256), 0xFF])
    return bytes(spoiled)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _stuffed(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice([1, 4, 64])) + content[place:]


def _text(content: bytes, rng: random.Random) -> bytes:
    return rng.choice(TEXTS).encode()


def _said_otherwise(values: list[Any], rng: random.Random) -> bytes:
    """JSON in which one value, or one key, is another."""
    values = json.loads(json.dumps(values))
    places = list(_places(values))
    holder, key = rng.choice(places)
    way = rng.randrange(4)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice(["x", "", "0", key * 2])] = holder.pop(key)
    elif way == 2 and isinstance(holder[key], str):
        text = holder[key]
        holder[key] = text + rng.choice([text, ",", "x", "-", "9" * 20, "~", "@", "\n", "\x00"])
    else:
        holder[key] = rng.choice(WRONG)
    return "\n".join(json.dumps(value) for value in values).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything within a JSON value, as what holds it and under which key."""
    for key in list(value.keys() if isinstance(value, dict) else range(len(value))):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def without_seals(root: Path) -> None:
    """Who spoils a file on purpose leaves out its seal."""
    for path in root.rglob("*.json"):
        try:
            value = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.pop("seal", None):
            path.write_text(json.dumps(value))
