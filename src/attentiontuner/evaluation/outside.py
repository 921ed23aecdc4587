"""Policies of others: what `benchmark` plays, from an address.

A policy of one's own is any object with `act(observation)` → action, and `reset()`, called before each episode, if it
has one; it then plays one episode after another. With `restart(rows)` as well it is a `rollout.Policy` and plays many
at once.
"""

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.evaluation.workers import RowError
from attentiontuner.tasks.own_code import import_user_code
from attentiontuner.tasks.task import Task


class OneByOne:
    """A policy that knows of one episode only, as one that `rollout` can play, in a batch of one."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def reset(self, n: int) -> None:
        """`n` is 1."""

    def restart(self, rows: NDArray[np.int64]) -> None:
        """A new episode, where there is a row."""
        if len(rows) and hasattr(self.policy, "reset"):
            self._call("reset")

    def act(self, observations: Any) -> Any:
        """`[1, …]` observations → a list of one action."""
        one = (
            {name: part[0] for name, part in observations.items()}
            if isinstance(observations, Mapping)
            else observations[0]
        )
        return [self._call("act", one)]

    def _call(self, what: str, *given: Any) -> Any:
        try:
            return getattr(self.policy, what)(*given)
        except (UserError, MemoryError):
            raise
        except Exception as error:
            raise RowError(0, f"the policy's {what}: {where_and_what(error)}") from error


def is_address(text: str) -> bool:
    """Whether `text` names something in a module or a file: `my_policy.py:Mine`, `package.module:mine`."""
    return ":" in text and not Path(text).exists()


def load_outside(address: str, task: Task) -> Any:
    """The policy at an address; a class or function there is called with the task."""
    place, _, name = address.rpartition(":")
    import_user_code(place, f"POLICY {address}")
    module = sys.modules[Path(place).stem if place.endswith(".py") else place]
    if not hasattr(module, name):
        raise UserError(f"{address}: there is no {name!r} in {place}")
    found = getattr(module, name)
    if inspect.isclass(found) or not hasattr(found, "act"):
        try:
            found = found(task)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{address}: it cannot be called with the task: {where_and_what(error)}") from error
    if not callable(getattr(found, "act", None)):
        raise UserError(f"{address}: a {type(found).__name__} has no act(observation), which a policy must have")
    return found if hasattr(found, "restart") else OneByOne(found)
