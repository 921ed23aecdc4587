"""The table of tasks: one row per task; nothing else in the package knows a task by its name."""

from attentiontuner.tasks import paper as _paper  # its import registers the paper's tasks
from attentiontuner.tasks.task import Task, all_tasks, get_task, register_task

__all__ = ["Task", "all_tasks", "get_task", "register_task"]

del _paper
