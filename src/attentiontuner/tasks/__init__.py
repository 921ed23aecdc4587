"""The table of tasks: one row per task; nothing else in the package knows a task by its name."""

from attentiontuner.tasks import minigrid as _minigrid  # their import registers tasks
from attentiontuner.tasks import paper as _paper
from attentiontuner.tasks import popgym as _popgym
from attentiontuner.tasks import robots as _robots
from attentiontuner.tasks import unbounded as _unbounded
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import _TASKS, Task, all_tasks, get_task, list_tasks, register_task

OURS = frozenset(_TASKS)
"""The names of the tasks that come with this package."""

__all__ = ["OURS", "Instructions", "Task", "all_tasks", "get_task", "list_tasks", "register_task"]

del _minigrid, _paper, _popgym, _robots, _unbounded
