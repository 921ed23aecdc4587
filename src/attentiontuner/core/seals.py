"""Seals: checksums that files carry within themselves, so that a flipped bit is noticed wherever they were copied to.

A file without a seal is of an older version, or of somebody who wrote it by hand: it is read as it is.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import MOST_JSON, WRONG_CONTENT, opened, read_bytes

SEAL = "seal"
COMMANDS = re.compile(r"(?<!\\)(?:\\\\)*\\u00(?:[0189][0-9a-f]|7f)")
"""Control characters as JSON has them, but for ends of lines and the like."""

METADATA = "__metadata__"
"""Where safetensors files keep texts by name."""


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with its seal as the last entry."""
    text = _text(json.loads(json.dumps(value)))  # with keys as the file has them
    if COMMANDS.search(text):
        raise UserError("a name or a setting has control characters: leave them out")
    return {**value, SEAL: _digest(text)}


def unsealed(value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The object in `path` without its seal; a `UserError` where that is not its, or where a text in it would command a
    terminal."""
    content = {name: part for name, part in value.items() if name != SEAL}
    text = _text(content)
    if COMMANDS.search(text):
        raise UserError(f"{path} is damaged: a text in it has control characters; restore it from a copy")
    if SEAL in value and value[SEAL] != _digest(text):
        raise UserError(
            f"{path} is damaged: {not_its_checksum(path)}; restore it from a copy, "
            f'or, if you have changed it yourself, remove "{SEAL}" from it'
        )
    return content


def not_its_checksum(path: Path) -> str:
    """What is wrong with a file whose content is not what was written, and since when it may be."""
    with suppress(OSError):
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
        return f"its content does not have its checksum (the file was last changed on {written})"
    return "its content does not have its checksum"


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- safetensors -----------------------------------------------------------------------------------------------------


def seal_tensors(content: bytes) -> bytes:
    """The content of a safetensors file, with a seal among its texts."""
    header, numbers = _parts(content)
    texts = header.pop(METADATA, {})
    header = {METADATA: {**texts, SEAL: _tensor_digest(header, texts, numbers)}, **header}
    written = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    written += b" " * (-len(written) % 8)  # the format aligns the numbers
    return b"".join([len(written).to_bytes(8, "little"), written, numbers])


def read_tensors(path: Path) -> bytes:
    """The content of a safetensors file; one that is longer than it says itself, as of a gigabyte of holes, is a
    `UserError`."""
    try:
        with opened(path) as stream:
            size = min(int.from_bytes(stream.read(8), "little"), MOST_JSON)
            header = json.loads(stream.read(size))
            most = 8 + size + max(part["data_offsets"][1] for name, part in header.items() if name != METADATA)
    except (OSError, *WRONG_CONTENT):
        most = MOST_JSON  # it is none: whoever reads it will say so
    return read_bytes(path, most)


def check_tensors(content: bytes, path: Path) -> bool:
    """Whether the content of the safetensors file `path` has a seal; a wrong one is a `UserError`.

    What is no such file at all is left to whoever reads it.
    """
    try:
        header, numbers = _parts(content)
        texts = header.pop(METADATA, None)
        found = None if texts is None else texts.pop(SEAL, None)
    except (ValueError, AttributeError, RecursionError):
        return False
    if found is not None and found != _tensor_digest(header, texts, numbers):
        raise UserError(f"{path} is damaged: {not_its_checksum(path)}")
    return found is not None


def _parts(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header of a safetensors file, and the bytes of its tensors."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), memoryview(content)[end:]


def _tensor_digest(header: Mapping[str, Any], texts: Mapping[str, Any], numbers: memoryview) -> str:
    digest = hashlib.sha256(json.dumps([header, texts], sort_keys=True).encode())
    digest.update(numbers)
    return digest.hexdigest()
