"""What people write for an option's value: settings, times, sizes and seeds."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import shortened

TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

LONGEST = 10 * 365 * 24 * 3600.0
"""Seconds of a budget, at most."""

LARGEST = 2**60
"""Bytes of a limit, at most."""

MOST_SEEDS = 100_000


def parse_settings(words: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """`length=30` → {"length": 30}: the value is a JSON scalar (true and false in any case), or else text."""
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {word}: write name=value, such as {name or 'length'}=30")
        try:
            said = text.lower() if text.lower() in ("true", "false") else text
            value = json.loads(said, parse_constant=str)  # NaN and the like are words
        except (ValueError, RecursionError):  # no JSON; or numbers of thousands of digits, or lists in lists
            value = text
        if isinstance(value, dict | list):
            raise UserError(f"{option} {word}: the value must be a number, true, false, null or text")
        settings[name] = value
    return settings


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `25m`, `1.5h` or `1h30m`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"--budget {text}: write a time such as 90s, 25m or 1h30m")
    seconds = sum(float(number) * TIMES[unit] for number, unit in parts)
    if seconds > LONGEST:
        raise UserError(f"--budget {shortened(text, 40)}: that is more than {LONGEST:,.0f} seconds; leave it out")
    return seconds


def parse_bytes(text: str) -> int:
    """`4GB` → 4 000 000 000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
    if match is None or (match[2].lower() or "b") not in SIZES:
        raise UserError(f"--memory-limit {text!r}: write a number of bytes such as 4GB or 500MB")
    size = float(match[1]) * SIZES[match[2].lower() or "b"]
    if size > LARGEST:
        raise UserError(f"--memory-limit {shortened(text, 40)}: no machine has so much; leave it out")
    return int(size)


def parse_seeds(text: str) -> list[int]:
    """Seeds in `1-5`, `1,3` or `1-3,7`."""
    seeds: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip())
        if match is None:
            raise UserError(f"--seeds {shortened(text, 40)}: write seeds such as 1-5 or 1,3,7")
        found = range(int(match[1]), int(match[2] or match[1]) + 1)
        if len(seeds) + len(found) > MOST_SEEDS:
            raise UserError(f"--seeds {shortened(text, 40)}: these are more than {MOST_SEEDS:,}")
        seeds.extend(found)
    if text and not seeds:
        raise UserError(f"--seeds {text}: that is none; write seeds such as 1-5 or 1,3,7")
    return seeds


def check_folder(option: str, folder: Path | None) -> None:
    """Refuse what cannot become a folder because it is a file."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {folder} is a file: give a folder")


def check_device(name: str | None) -> None:
    """Refuse what is no name of a device; whether there is one of that name only torch can tell."""
    if name is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise UserError(f"--device {name}: there is no such device; use cpu, cuda or cuda:0")
