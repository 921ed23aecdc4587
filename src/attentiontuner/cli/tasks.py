"""`attentiontuner tasks`."""

import json as json_format
from importlib.util import find_spec
from typing import Any


def tasks(json: bool = False) -> None:
    """List the tasks and what they ask for.

    Args:
        json: print JSON instead of a table.
    """
    from attentiontuner.tasks import all_tasks

    rows = [describe(task) for task in all_tasks().values()]
    if json:
        print(json_format.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "title", "observation", "actions", "horizon", "demonstrations", "expert", "installed")
    for row in rows:
        installed = "yes" if row["installed"] else "no"
        expert = "yes" if row["expert"] else "no"
        shape = "×".join(map(str, row["observation"]["shape"]))
        table.add_row(
            row["name"],
            row["title"],
            f"{row['observation']['kind']} {shape}",
            str(len(row["actions"])),
            str(row["horizon"]),
            f"{row['demonstrations']:,}",
            expert,
            installed,
        )
    Console(width=max(Console().width, 120)).print(table)
    # Commands stand below the table: broken over the lines of a cell they could not be copied.
    for row in rows:
        if not row["installed"]:
            print(f"{row['name']} is not installed: {row['install']}")


def describe(task: Any) -> dict[str, Any]:
    """One task as a JSON value."""
    installed = task.needs is None or find_spec(task.needs[0]) is not None
    return {
        "name": task.name,
        "title": task.title,
        "environment": task.env_id,
        "settings": dict(task.settings),
        "observation": task.observation.to_json(),
        "actions": list(task.actions),
        "horizon": task.max_steps,
        "demonstrations": task.demonstrations,
        "expert": task.expert is not None,
        "installed": installed,
        "install": None if task.needs is None else task.needs[1],
    }
