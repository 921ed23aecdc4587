"""Atomic files: killed at any moment, a path holds its old content or its new content, never a part."""

import errno
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.signals import handled, leave


def make_folder(path: Path) -> None:
    """Make the folder `path` and those above it, where they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}") from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` when the block ends: `path` appears whole, or not at all.

    An error, Ctrl-C or SIGTERM removes it. A `path` that holds something already is a `UserError`.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} is there already: give a new folder")
    make_folder(path.parent)
    try:
        filling = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise UserError(f"cannot write in {path.parent}: {error.strerror}") from error
    with handled(leave, signal.SIGTERM):
        try:
            yield filling
            filling.chmod(0o755)
            if path.exists():
                path.rmdir()  # empty; not every system renames over it
            filling.rename(path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(filling, ignore_errors=True)
            raise


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
        sync_folder(path.parent)
    except OSError as error:
        reason = "no room left on the disk" if error.errno == errno.ENOSPC else error.strerror
        raise UserError(f"cannot write {path}: {reason}; nothing was changed there") from error


def sync_folder(folder: Path) -> None:
    """Put the names in `folder` on the disk: without it a loss of power can take back a rename."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def link_file(source: Path, target: Path) -> None:
    """Give `source` the second name `target`, atomically; a copy where the disk has no links."""
    if target.exists() and target.samefile(source):
        return
    fresh = target.with_name(f".{target.name}")
    fresh.unlink(missing_ok=True)
    try:
        os.link(source, fresh)
    except OSError:
        write_bytes(target, source.read_bytes())
        return
    os.replace(fresh, target)


def write_text(path: Path, content: str) -> None:
    """Replace `path` with UTF-8 text atomically."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` with readable JSON (two-space indent, final newline) atomically."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_bytes(path: Path) -> bytes:
    """The content of a file that has to be there."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The JSON value in `path`; a missing or damaged file is a `UserError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the inter-process lock file `path`; it is let go when the block or the process ends, however it ends.

    With `wait=False` a lock that somebody else holds is a `UserError` at once.
    """
    try:
        stream = open(path, "ab")  # noqa: SIM115 - closed below; a `with` would hide whose error it was
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    with stream:
        try:
            _lock(stream.fileno(), wait)
        except OSError as error:
            raise UserError(f"{path.parent} is being written by another process: wait until it has ended") from error
        yield


def _lock(handle: int, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                if not wait:
                    raise
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
