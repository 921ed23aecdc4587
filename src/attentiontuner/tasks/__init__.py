"""The table of tasks: one row per task; nothing else in the package knows a task by its name."""

from attentiontuner.tasks import paper as _paper  # their import registers tasks
from attentiontuner.tasks import robots as _robots
from attentiontuner.tasks.task import Task, all_tasks, get_task, register_task

__all__ = ["Task", "all_tasks", "get_task", "register_task"]

del _paper, _robots
