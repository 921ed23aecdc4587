"""Atomic files: killed at any moment, a path holds its old content or its new content, never a part."""

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from attentiontuner.errors import UserError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically and durably; parent folders are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = "no room left on the disk" if error.errno == errno.ENOSPC else error.strerror
        raise UserError(f"cannot write {path}: {reason}; nothing was changed there") from error


def write_text(path: Path, content: str) -> None:
    """Replace `path` with UTF-8 text atomically."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` with readable JSON (two-space indent, final newline) atomically."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON value in `path`; a missing or damaged file is a `UserError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
