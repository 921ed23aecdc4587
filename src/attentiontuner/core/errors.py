"""The one exception that is a message to the user, and where in the user's own code something went wrong."""

import sysconfig
import traceback
from pathlib import Path


class UserError(ValueError):
    """Something the user can mend. The text is one line: what is wrong, where, and what to do.

    The command line prints it and exits with code 2; from Python it is an ordinary `ValueError`.
    """


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
