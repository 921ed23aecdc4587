"""`attentiontuner tasks`."""

import json as json_format
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from attentiontuner.core.terminal import console
from attentiontuner.core.wording import counted

if TYPE_CHECKING:
    from attentiontuner.spaces import ActionSpec
    from attentiontuner.tasks.task import Task


def tasks(name: Positional[str | None] = None, /, json: bool = False) -> None:
    """List the tasks, or say everything about one.

    Args:
        name: the task to tell of: what is seen, done and remembered, its settings.
        json: print JSON instead of a table.
    """
    from attentiontuner.tasks.task import all_tasks, get_task

    known = list(all_tasks().values()) if name is None else [get_task(name)]
    if json:
        rows = [describe(task) for task in known]
        print(json_format.dumps(rows if name is None else rows[0], indent=2))
    elif name is None:
        print_all(known)
    else:
        print_one(known[0])


def print_all(known: "list[Task]") -> None:
    """A line a task, which may be copied, grepped and sorted; below it how to install what is missing."""
    heads, ends = ("task", "seen", "actions", "steps"), (str.ljust, str.ljust, str.ljust, str.rjust)
    rows = [(task.name, str(task.observation), short(task.actions), f"{task.max_steps:,}") for task in known]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        print("  ".join(end(cell, width) for end, cell, width in zip(ends, row, widths, strict=True)))
    missing: dict[str, list[str]] = {}
    for task in known:
        if not task.installed and task.needs is not None:
            missing.setdefault(task.needs[1], []).append(task.name)
    for command, names in missing.items():
        others = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        print(f"{names[0]}{others} not installed: {command}")
    print("`attentiontuner tasks NAME` tells more of one.")


def short(actions: "ActionSpec") -> str:
    """What one action is, in a word or two."""
    return counted(actions.count, "number") if actions.kind == "box" else str(actions)


def print_one(task: "Task") -> None:
    """One task for people."""
    from rich.table import Table

    from attentiontuner.tasks.instructions import Instructions

    told = Instructions.of(task.instructions)
    names = ", ".join(task.actions.names)
    rows = {
        "goal": told.goal,
        "recalled (p)": told.p,
        "decided (q)": told.q,
        "advice": told.advice,
        "seen": str(task.observation),
        "actions": f"{task.actions}: {names}" if names else str(task.actions),
        "steps": f"{task.max_steps:,} at most",
        "settings": ", ".join(f"{setting}={written(value)}" for setting, value in task.all_settings().items()),
        "environment": task.env_id or "none: it can be trained on, not played",
        "expert": "scripted; it says what it recalls" if task.expert is not None else "none: play it by hand",
        "data set": f"{counted(task.demonstrations, 'demonstration', form=',')}, where nothing is said",
        "install": task.needs[1] if task.needs is not None and not task.installed else "",
    }
    table = Table(show_header=False, title=f"{task.name}: {task.title}", title_justify="left")
    for row, text in rows.items():
        if text:
            table.add_row(row, text)
    console().print(table)


def written(value: Any) -> str:
    """A setting's value as `--set` reads it."""
    return value if isinstance(value, str) else json_format.dumps(value)


def describe(task: "Task") -> dict[str, Any]:
    """One task as a JSON value."""
    from dataclasses import asdict

    from attentiontuner.tasks.instructions import Instructions

    return {
        "name": task.name,
        "title": task.title,
        "environment": task.env_id,
        "settings": dict(task.settings),
        "observation": task.observation.to_json(),
        "actions": task.actions.to_json(),
        "horizon": task.max_steps,
        "demonstrations": task.demonstrations,
        "expert": task.expert is not None,
        "installed": task.installed,
        "install": None if task.needs is None else task.needs[1],
        "instructions": asdict(Instructions.of(task.instructions)),
    }
