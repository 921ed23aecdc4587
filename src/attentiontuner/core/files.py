"""Atomic files: killed at any moment, a path holds its old content or its new content, never a part."""

import errno
import glob
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from attentiontuner.core.errors import UserError
from attentiontuner.core.signals import handled, leave

WRONG_CONTENT = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What reading something else than was written raises; `UnicodeDecodeError` and `JSONDecodeError` are `ValueError`s."""


os.umask(MASK := os.umask(0o077))
"""Rights that new files shall not give, as the process was told when it began: temporary ones give none."""

MOST_JSON, MOST_LINES = 2**26, 2**28
"""Bytes of a JSON file, and of one of lines, at most."""


def make_folder(path: Path) -> None:
    """Make the folder `path` and those above it, where they are not there yet; their names are on the disk then."""
    try:
        _make(path)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}: {error.strerror}") from error


def _make(path: Path) -> None:
    new = list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path` when the block ends: `path` appears whole, or not at all.

    An error, Ctrl-C or SIGTERM removes it, and what a killed process could not remove goes the next time. A `path` that
    holds something already is a `UserError`.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} is there already: give a new folder")
    make_folder(path.parent)
    _remove_unfilled(path)
    try:
        filling = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise UserError(f"cannot write in {path.parent}: {error.strerror}") from error
    with handled(leave, signal.SIGTERM), _held(filling):
        try:
            yield filling
            filling.chmod(0o777 & ~MASK)
            _sync_all(filling)
            if path.exists():
                path.rmdir()  # empty; not every system renames over it
            filling.rename(path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(filling, ignore_errors=True)
            raise


@contextmanager
def _held(folder: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder itself, where systems have such: an `OSError` where somebody else does."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, wait)
        yield
    finally:
        os.close(handle)


def _remove_unfilled(path: Path) -> None:
    """Delete folders that killed processes were filling to become `path`; one that is being filled is held."""
    if sys.platform == "win32":
        return
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError), _held(left, wait=False):
            shutil.rmtree(left)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically and durably; parent folders are made."""
    try:
        _make(path.parent)
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"cannot write {path}: it is a device or a pipe; give the path of a file")
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o666 & ~MASK)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        reason = "no room left on the disk" if error.errno == errno.ENOSPC else error.strerror
        raise UserError(f"cannot write {path}: {reason}; nothing was changed there") from error


def remove_leftovers(*paths: Path) -> None:
    """Delete what killed processes left of replacing these files; a lock must say that nobody is at it now."""
    for path in paths:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
            left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Put the names in `folder` on the disk: without it a loss of power can take back a rename."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_all(folder: Path) -> None:
    """Put a folder with all that is in it on the disk, whoever has written it."""
    for inside, _, names in os.walk(folder):
        for name in names:
            with open(Path(inside, name), "rb+") as stream:  # some systems sync only what may be written
                os.fsync(stream.fileno())
        sync_folder(Path(inside))


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, on the disk when it returns; one that somebody was cut off in is ended first."""
    _make(path.parent)
    new = not path.exists()
    with path.open("ab+") as stream:
        if stream.tell() and _last_byte(stream) != b"\n":
            stream.write(b"\n")
        stream.write(f"{line}\n".encode())
        stream.flush()
        os.fsync(stream.fileno())
    if new:
        sync_folder(path.parent)


def _last_byte(stream: BinaryIO) -> bytes:
    stream.seek(-1, os.SEEK_END)
    return stream.read(1)


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
    sync_folder(target.parent)


def write_text(path: Path, content: str) -> None:
    """Replace `path` with UTF-8 text atomically."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` with readable JSON (two-space indent, final newline) atomically."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_parts(path: Path, value: Mapping[str, Any]) -> None:
    """Replace `path` with a JSON object, one line per part so that a difference can be read, atomically."""
    lines = [f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in value.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


@contextmanager
def reading(path: Path, remedy: str = "") -> Iterator[None]:
    """Whatever a file of ours can hold but should not, such as wrong types or other bytes than UTF-8, is a `UserError`
    that names it. One that may not be read is not called damaged: nothing is wrong with it.

    `remedy` says what to do about a damaged one.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path} is damaged: {error}{remedy and f'; {remedy}'}") from error
    except WRONG_CONTENT as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if not isinstance(error, ValueError | RecursionError):  # their words alone say nothing
            what = repr(error)
        raise UserError(f"{path} is damaged: {shortened(what)}{remedy and f'; {remedy}'}") from error


def shortened(text: str, most: int = 200) -> str:
    """`text` in one line of at most `most` characters: what is wrong may be as long as the file."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def content_of(path: Path, most: int | None = None) -> bytes:
    """The content of a file, of at most so many bytes. A pipe or a device, which may never end, is a `UserError`:
    folders of others may hold one."""
    with opened(path) as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UserError(f"cannot read {path}: it is a device or a pipe, and no file")
        if most is not None and found.st_size > most:
            raise UserError(f"{path} is damaged: {found.st_size:,} bytes are more than such a file has")
        return stream.read()


def opened(path: Path) -> BinaryIO:
    """`path` to be read; nobody waits for the other end of a pipe."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a file that has to be there, as `content_of` reads it."""
    try:
        return content_of(path, most)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The JSON value in `path`; a missing or damaged file is a `UserError` that names it."""
    with reading(path):
        return json.loads(content_of(path, MOST_JSON).decode())


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
