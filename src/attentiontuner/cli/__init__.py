"""The command line: one thin function per verb, each in a file of its own name, imported only when called."""

import importlib
import os
import signal
import sys
from collections.abc import Sequence

from attentiontuner.core.errors import UserError, as_user_error
from attentiontuner.core.signals import Interrupted
from attentiontuner.core.terminal import plain, tame
from attentiontuner.core.threads import wait_briefly
from attentiontuner.core.wording import meant

COMMANDS = {
    "tasks": "List the tasks, or say everything about one.",
    "collect": "Record demonstrations of a task with its scripted expert, memory pairs included.",
    "convert": "Bring a LeRobot or Minari data set in, or write one.",
    "inspect": "Say what a data set holds; check it; draw it.",
    "memory-report": "Say which steps of a data set need a memory, and what to annotate first.",
    "train": "Train a policy on demonstrations and their memory pairs.",
    "evaluate": "Play many episodes with a policy, count successes, film what it recalls.",
    "publish": "Make a folder of a run to give away: weights, what it solves, and a card.",
    "benchmark": "Play a task with any policy on the episodes all are judged on; print the leaderboard.",
    "reproduce": "Run the cells of a table or figure of the paper, as records; stopped, it goes on.",
    "report": "Make the tables, figures and page from records, next to the paper's numbers.",
    "annotate": "Open a page where people mark what they remembered.",
    "merge": "Merge the labels of several annotators into those of a new one.",
    "play": "Open a page where a person plays a task, and record the episodes.",
    "studio-times": "Print how long people needed to play and to annotate.",
    "doctor": "Say what is installed, how to mend what is missing, and what will be slow and why.",
}
"""verb → what it does; the function is `attentiontuner.cli.<verb with _>:<verb with _>`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Errors the user can mend are one line on stderr and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    wait_briefly()
    try:
        if arguments is None:
            tame()
        _stand_somewhere()
        while words[:1] == ["--import"]:
            if len(words) < 2:
                raise UserError("--import needs a module name or the path of a .py file with your tasks or methods")
            from attentiontuner.tasks.own_code import import_user_code

            import_user_code(words[1])
            words = words[2:]
        if not words or words[0] in ("-h", "--help"):
            print(overview())
            return 0
        if words[0] == "--version":
            from attentiontuner import __version__

            print(f"attentiontuner {__version__}")
            return 0
        return run(words[0], words[1:])
    except UserError as error:
        return _refuse(error)
    except KeyboardInterrupt as stop:
        if arguments is None:  # the process ends: pressed again it adds nothing
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("attentiontuner: stopped; the same command goes on from what is finished", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Interrupted) else 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        if (mended := as_user_error(error)) is None:
            raise
        return _refuse(mended)


def _stand_somewhere() -> None:
    """Libraries say odd things of a current folder that was deleted."""
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(f"the current folder cannot be used ({error.strerror}): go to another one") from error


def _refuse(error: UserError) -> int:
    """Say in one line what is wrong, even about names that are no text; the exit code."""
    print(f"attentiontuner: {plain(str(error))}", file=sys.stderr)
    return 2


def run(verb: str, words: Sequence[str]) -> int:
    """Parse `words` for `verb` and call its function."""
    if verb not in COMMANDS:
        raise UserError(
            f"unknown command {verb!r}: {meant(verb, COMMANDS)}the commands are {', '.join(COMMANDS)}; "
            "`attentiontuner --help` explains them"
        )
    if "--import" in words:
        raise UserError(f"--import stands before the command: attentiontuner --import FILE {verb} ...")
    from attentiontuner.cli.options import call

    name = verb.replace("-", "_")
    function = getattr(importlib.import_module(f"attentiontuner.cli.{name}"), name)
    return int(call(function, f"attentiontuner {verb}", words) or 0)


def overview() -> str:
    """The text of `attentiontuner --help`."""
    from attentiontuner.cli.options import wrapped

    width = max(map(len, COMMANDS)) + 2
    lines = [wrapped(f"  {verb:<{width}}{text}", " " * (width + 2)) for verb, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: attentiontuner [--import MODULE_OR_FILE] COMMAND ...",
            "",
            "Imitation learning that is shown what the expert remembered.",
            "",
            *lines,
            "",
            wrapped(
                "attentiontuner COMMAND --help tells more. --import loads your own code first, so that tasks and "
                "methods it registers (attentiontuner.register_task, register_method) work in every command.",
                "",
            ),
        ]
    )
