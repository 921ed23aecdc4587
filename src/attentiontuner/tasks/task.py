"""The table of tasks. One row per task; nothing else in the package knows a task by its name."""

import importlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

import gymnasium as gym

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.experts.expert import Expert
from attentiontuner.spaces import ActionSpec, ObservationSpec, SpaceError

Named = str | Callable[..., Any]
"""A callable, or its address as "package.module:name", looked up when it is first needed."""


def reported_success(reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
    """Whether an episode that ended with this last step was solved: what `info` says under `success` or `is_success`;
    else whether it terminated with a positive last reward."""
    for key in ("success", "is_success"):
        if key in info:
            return bool(info[key])
    return terminated and reward > 0


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: what commands call it (`hallway`).
        title: what people call it (`Hallway`).
        env_id: Gymnasium id; None: there are only recordings. `register` names the module whose import registers it.
        observation: what one observation is, after `wrap`.
        actions: what one action is; the names of discrete actions, in order, are enough.
        horizon: the most steps an episode can have under `settings`; a number, or a function of the settings.
        settings: keyword arguments of `gym.make`.
        wrap: function env → env that makes observations and actions what is promised here.
        expert: class called as `expert(env)` after each reset, see `experts.expert`; None where nobody wrote one.
        success: function (last reward, terminated, last info) → bool.
        keys: browser key names → action, for playing by hand.
        needs: (module, command that installs it) where the environment's package is not a dependency.
        demonstrations: how many the paper (or its owner) trains on.
        epochs: training epochs by method.
        every_attempt_succeeds: False where the expert can fail and only successes are kept as demonstrations.
    """

    name: str
    title: str
    env_id: str | None = None
    observation: ObservationSpec
    actions: ActionSpec
    horizon: int | Callable[[Mapping[str, Any]], int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    register: str | None = None
    wrap: Named | None = None
    expert: Named | None = None
    success: Named = reported_success
    keys: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[str, str] | None = None
    demonstrations: int = 1000
    epochs: Mapping[str, int] = field(default_factory=dict)
    every_attempt_succeeds: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", ActionSpec.of(self.actions))

    @property
    def max_steps(self) -> int:
        """The horizon under the present settings, in steps."""
        if not callable(self.horizon):
            return self.horizon
        try:
            return int(self.horizon(self.settings))
        except (TypeError, ValueError, KeyError) as error:
            raise UserError(
                f"task {self.name!r}: its horizon cannot be told from the settings {dict(self.settings)} "
                f"({where_and_what(error)})"
            ) from error

    def with_settings(self, settings: Mapping[str, Any]) -> "Task":
        """The same task with some environment settings replaced; unknown ones are refused by the environment."""
        return replace(self, settings={**self.settings, **settings})

    def make_env(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """A fresh environment with observations as in `observation` and actions as in `actions`."""
        if self.needs is not None:
            module, command = self.needs
            try:
                importlib.import_module(module)
            except ImportError:
                raise UserError(
                    f"task {self.name!r} needs the package {module!r}, which is missing: {command}"
                ) from None
        if self.env_id is None:
            raise UserError(f"task {self.name!r} has no environment (env_id): it can be trained on, not played")
        options = {**self.settings, **({"render_mode": render_mode} if render_mode is not None else {})}
        try:
            if self.register is not None:
                importlib.import_module(self.register)
            env = gym.make(self.env_id, disable_env_checker=True, **options)
        except gym.error.NameNotFound as error:
            raise UserError(
                f"task {self.name!r}: Gymnasium does not know {self.env_id!r} ({error}); call gymnasium.register in "
                "the file that registers the task, or name the module that does so in Task(register=...)"
            ) from error
        except (TypeError, ValueError, gym.error.Error) as error:
            raise UserError(f"task {self.name!r} does not take these settings: {self._refusal(error)}") from error
        except Exception as error:
            raise UserError(f"task {self.name!r}: its environment cannot be made: {where_and_what(error)}") from error
        try:
            return env if self.wrap is None else resolve(self.wrap)(env)
        except Exception as error:
            raise UserError(f"task {self.name!r}: its wrap fails: {where_and_what(error)}") from error

    def _refusal(self, error: Exception) -> str:
        """Why the environment could not be made, in words for who chose the settings."""
        text = str(error).partition(" was raised from the environment creator")[0]
        unknown = re.search(r"keyword argument '(\w+)'", text)
        refused = unknown is not None and unknown[1] in self.settings
        creator = gym.spec(self.env_id).entry_point if refused and self.env_id is not None else None
        if unknown is None or creator is None:
            return text
        parameters = inspect.signature(resolve(creator)).parameters.values()
        known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name != "render_mode"]
        return f"there is no setting {unknown[1]!r}; it takes {', '.join(known) or 'none'}"

    def seen(self, observation: Any) -> Any:
        """What the environment gave, checked, as a copy: an array, or a dictionary of them where `observation` has
        several parts."""
        try:
            return self.observation.one(observation)
        except SpaceError as error:
            raise UserError(
                f"the environment gives observations that task {self.name!r} does not promise: {error.problem}; "
                f"mend the task's wrap, or its observation ({self.observation})"
            ) from error

    def make_expert(self, env: gym.Env[Any, Any]) -> Expert:
        """The expert for the episode that `env` was just reset to."""
        if self.expert is None:
            raise UserError(
                f"task {self.name!r} has no scripted expert; record demonstrations with `attentiontuner play`"
            )
        expert: Expert = resolve(self.expert)(env)
        return expert

    def solved(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        """Whether the episode that ended with this last step was solved."""
        return bool(resolve(self.success)(reward, terminated, info))


def resolve(named: Named) -> Callable[..., Any]:
    """The callable itself, importing it where only its address is given."""
    if callable(named):
        return named
    module, _, attribute = named.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


_TASKS: dict[str, Task] = {}
_entry_points_loaded = False


def why_it_cannot_travel(task: Task) -> str:
    """What keeps a task from being sent to a worker process, "" where nothing does."""
    try:
        pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        problem = f"task {task.name!r} cannot be sent to worker processes ({error})"
        return f"{problem}: define its functions at the top of a file"
    return ""


def register_task(task: Task) -> Task:
    """Add a task (or replace the one of the same name); every command then works with it."""
    _TASKS[task.name] = task
    return task


def all_tasks() -> dict[str, Task]:
    """Every task by name: ours, installed packages' (entry points `attentiontuner.tasks`), and registered ones."""
    global _entry_points_loaded
    if not _entry_points_loaded:
        _entry_points_loaded = True
        for point in entry_points(group="attentiontuner.tasks"):
            try:
                point.load()()
            except Exception as error:  # somebody else's package must not break every command
                problem = " ".join(where_and_what(error).split())
                place = f"entry point {point.name!r} ({point.value})"
                print(f"attentiontuner: {place} is left out: {problem}", file=sys.stderr)
    return dict(_TASKS)


def get_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """The task called `name`, with some of its settings replaced."""
    tasks = all_tasks()
    if name not in tasks:
        raise UserError(
            f"unknown task {name!r}: the tasks are {', '.join(tasks)}; `attentiontuner tasks` describes them; "
            "for a task of your own write `attentiontuner --import FILE ...`"
        )
    return tasks[name].with_settings(settings or {})
