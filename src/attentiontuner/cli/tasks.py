"""`attentiontuner tasks`."""

import json as json_format
from typing import Any

from attentiontuner.core.terminal import console


def tasks(json: bool = False) -> None:
    """List the tasks and what they ask for.

    Args:
        json: print JSON instead of a table.
    """
    from attentiontuner.tasks.task import all_tasks

    known = list(all_tasks().values())
    rows = [describe(task) for task in known]
    if json:
        print(json_format.dumps(rows, indent=2))
        return
    from rich.table import Column, Table

    name = Column("task", no_wrap=True)  # it is there to be copied
    table = Table(name, "title", "observation", "actions", "horizon", "demonstrations", "expert", "installed")
    for task, row in zip(known, rows, strict=True):
        installed = "yes" if row["installed"] else "no"
        expert = "yes" if row["expert"] else "no"
        table.add_row(
            row["name"],
            row["title"],
            str(task.observation),
            str(task.actions.count if task.actions.kind == "discrete" else task.actions),
            str(row["horizon"]),
            f"{row['demonstrations']:,}",
            expert,
            installed,
        )
    console(least=120).print(table)
    # Commands stand below the table: broken over the lines of a cell they could not be copied.
    missing: dict[str, list[str]] = {}
    for row in rows:
        if not row["installed"]:
            missing.setdefault(row["install"], []).append(row["name"])
    for command, names in missing.items():
        others = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        print(f"{names[0]}{others} not installed: {command}")


def describe(task: Any) -> dict[str, Any]:
    """One task as a JSON value."""
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
    }
