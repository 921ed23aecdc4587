"""The one exception that is a message to the user, and where in the user's own code something went wrong."""

import errno
import sysconfig
import traceback
from pathlib import Path


class UserError(ValueError):
    """Something the user can mend. The text is one line: what is wrong, where, and what to do.

    The command line prints it and exits with code 2; from Python it is an ordinary `ValueError`.
    """


def at_least(option: str, number: float | None, least: int = 1) -> None:
    """Refuse an option's number that is too small; None, which is none, is not."""
    if number is not None and number < least:
        raise UserError(f"{option} {number}: give {f'at least {least}' if least else '0 or more'}")


FULL = (errno.ENOSPC, errno.EDQUOT)


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is that a disk has no room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def as_user_error(error: BaseException) -> UserError | None:
    """In one line what a user can do about an error that the place where it happened did not expect; None where it is a
    mistake of ours, whose traceback is worth more."""
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        if error.errno in FULL:
            return UserError(f"no room left on the disk{place and ':'}{place}; what was saved is kept")
        return UserError(f"cannot use{place or ' a file'}: {error.strerror or error}")
    if isinstance(error, RecursionError):
        return UserError("something that was read is nested too deeply")
    if isinstance(error, UnicodeError):
        return UserError(f"a text is not UTF-8: {error}")
    if isinstance(error, MemoryError) or _is_torchs_allocation_failure(error):
        return UserError(
            "there is not enough memory for this: let it hold less at once (a smaller --batch-size, --batch or "
            "--memory-limit, fewer --workers), or run it where there is more; what was saved is kept"
        )
    return None


def _is_torchs_allocation_failure(error: BaseException) -> bool:
    """Torch raises a class of its own on a GPU, and any RuntimeError on a CPU; it is not imported to ask."""
    return isinstance(error, RuntimeError) and (
        type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    )


def where_and_what(error: BaseException) -> str:
    """`my_tasks.py, line 4: ZeroDivisionError: division by zero`, the line being the last of the user's own."""
    text = " ".join(str(error).split())  # others write in several lines
    what = text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    python = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib", "platlib")} | {Path(__file__).parents[1]}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith("<") and python.isdisjoint(Path(frame.filename).parents):
            return f"{frame.filename}, line {frame.lineno}: {what}"
    return what
