"""The table of tasks. One row per task; nothing else in the package knows a task by its name."""

import importlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError, where_and_what
from attentiontuner.core.success import reported_success, with_totals
from attentiontuner.core.wording import counted, meant
from attentiontuner.experts.expert import Expert
from attentiontuner.spaces import ActionSpec, ObservationSpec, SpaceError
from attentiontuner.tasks import environment
from attentiontuner.tasks.instructions import Instructions

Named = str | Callable[..., Any]
"""A callable, or its address as "package.module:name", looked up when it is first needed."""


class Recorded(Protocol):
    """What a task must know of a data set (`demos.DemoStore`): `lengths` are the steps of its episodes."""

    path: Path
    lengths: NDArray[np.int64]

    @property
    def task(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def observation(self) -> ObservationSpec: ...

    @property
    def actions(self) -> ActionSpec: ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. `Task.from_env` takes most of it from an environment, `Task.from_data` from a data set.

    Attributes:
        name: what commands call it (`hallway`).
        title: what people call it (`Hallway`).
        env_id: Gymnasium id; None: there are only recordings. `register` names the module whose import registers it.
        observation: what one observation is, after `wrap`.
        observes: function settings → `observation`, where these change it; `observation` is then as it says.
        actions: what one action is; the names of discrete actions, in order, are enough.
        horizon: the most steps an episode can have under `settings`; a number, or a function of the settings. None:
            what the environment says.
        settings: keyword arguments of `gym.make`.
        wrap: function env → env that makes observations and actions what is promised here.
        expert: class called as `expert(env)` after each reset, see `experts.expert`; None where nobody wrote one.
        success: function (last reward, terminated, last info) → bool, such as `ReturnAtLeast(475)` or
            `LengthAtLeast(500)`; the sum of all rewards is `info["episode"]["r"]`, the number of steps
            `info["episode"]["l"]`.
        keys: browser key names → number of the action (else of the move), for playing by hand.
        moves: name → action: what can be played where actions are not discrete.
        needs: (module, command that installs it) where the environment's package is not a dependency.
        demonstrations: how many the paper (or its owner) trains on.
        epochs: training epochs by method.
        every_attempt_succeeds: False where the expert can fail and only successes are kept as demonstrations.
        instructions: what the studio tells people who play or annotate: `Instructions`, or a text, which is the goal.
    """

    name: str
    title: str
    env_id: str | None = None
    observation: ObservationSpec
    actions: ActionSpec
    horizon: int | Callable[[Mapping[str, Any]], int] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    observes: Named | None = None
    register: str | None = None
    wrap: Named | None = None
    expert: Named | None = None
    success: Named = reported_success
    keys: Mapping[str, int] = field(default_factory=dict)
    moves: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, str] | None = None
    demonstrations: int = 1000
    epochs: Mapping[str, int] = field(default_factory=dict)
    every_attempt_succeeds: bool = True
    instructions: Instructions | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", ActionSpec.of(self.actions))
        object.__setattr__(self, "instructions", Instructions.of(self.instructions))
        if self.observes is not None:
            object.__setattr__(self, "observation", resolve(self.observes)(self.settings))

    @classmethod
    def of(cls, task: "Task | str") -> "Task":
        """`task` itself, or the one of that name."""
        if isinstance(task, Task):
            return task
        if isinstance(task, str):
            return get_task(task)
        raise UserError(f"a {type(task).__name__} is no task: give a Task, or the name of one")

    @classmethod
    def from_env(cls, env_id: str, **fields: Any) -> "Task":
        """A task of an environment, which is made once and asked what it does not leave to be said.

        Of the environment are the observation, the actions (with their names, where it has some), the horizon (under
        any settings), and, where Gymnasium knows a reward threshold and `info` says nothing, from which sum of rewards
        on an episode is solved. The task is called as the environment, in small letters and without its version. Of
        Minigrid's observations it sees the symbolic view alone, unless there is a `wrap`.

        Args:
            env_id: Gymnasium id; `module:id` where importing that module makes it known.
            fields: whatever else `Task` has, and what shall differ: name, expert, settings, wrap, success, …
        """
        module, _, env_id = env_id.rpartition(":")
        title = environment.name_of_id(env_id)
        nothing_yet: dict[str, Any] = {"observation": ObservationSpec("vector", (1,)), "actions": 1}
        known = {"register": module or environment.registering_module(env_id), "name": title.lower(), "title": title}
        task = cls(env_id=env_id, **{**nothing_yet, **known, **fields})
        env = task.make_env()
        if task.wrap is None and environment.is_minigrid(env):
            task = replace(task, wrap=environment.SYMBOLIC_VIEW)
            env = resolve(environment.SYMBOLIC_VIEW)(env)
        try:
            found: dict[str, Any] = {}
            if "observation" not in fields:
                found["observation"] = environment.observation_of(env)
            if "actions" not in fields:
                found["actions"] = environment.actions_of(env)
            if "success" not in fields and (threshold := environment.reward_threshold(env)) is not None:
                found["success"] = partial(reported_success, threshold=threshold)
        except UserError as error:
            raise UserError(f"task {task.name!r}, environment {env_id!r}: {error}") from error
        finally:
            env.close()
        task = replace(task, **found)
        if task.max_steps < 1:
            raise UserError(f"task {task.name!r}: its horizon is {task.max_steps}: give at least 1")
        return task

    @classmethod
    def from_data(cls, data: Recorded) -> "Task":
        """The task of a data set: the one registered under its name, with its settings, if the two fit each other; else
        what the data set itself knows, which can be trained on but has no environment to play."""
        longest = int(data.lengths.max(initial=1))
        if data.task not in all_tasks():
            return cls(
                name=data.task,
                title=data.task,
                observation=data.observation,
                actions=data.actions,
                settings=data.settings,
                horizon=longest,
            )
        task = get_task(data.task, data.settings)
        named = data.actions.names and task.actions.names
        if data.actions != task.actions or (named and data.actions.names != task.actions.names):
            there, wanted = (", ".join(spec.names) or str(spec) for spec in (data.actions, task.actions))
            raise UserError(f"{data.path} has the actions {there}, task {task.name!r} has {wanted}")
        if longest > task.max_steps:
            raise UserError(
                f"{data.path} has an episode of {counted(longest, 'step')}, task {task.name!r} a horizon of "
                f"{task.max_steps}: raise the task's horizon"
            )
        return task

    @cached_property
    def max_steps(self) -> int:
        """The horizon under the present settings, in steps."""
        if self.horizon is None:
            env = self.make_env()
            env.close()
            longest = environment.longest_episode(env)
            if longest is None:
                raise UserError(
                    f"task {self.name!r}: its environment does not say how long an episode can be: give horizon=, or "
                    "max_episode_steps= when registering it with Gymnasium"
                )
            return longest
        if not callable(self.horizon):
            return self.horizon
        try:
            return int(self.horizon(self.settings))
        except (TypeError, ValueError, KeyError) as error:
            raise UserError(
                f"task {self.name!r}: its horizon cannot be told from the settings {dict(self.settings)} "
                f"({where_and_what(error)})"
            ) from error

    @property
    def installed(self) -> bool:
        """Whether the package is there that its environment needs."""
        try:
            return self.needs is None or find_spec(self.needs[0]) is not None
        except ImportError:  # of a package that it would lie in, or by whoever keeps it from being imported
            return False

    @property
    def playable(self) -> list[tuple[str, Any]]:
        """(name, action) of everything a person can do at a step: the discrete actions, else the moves."""
        if self.actions.kind != "discrete":
            return list(self.moves.items())
        return [(self.actions.name(action), action) for action in range(self.actions.count)]

    def with_settings(self, settings: Mapping[str, Any]) -> "Task":
        """The same task with some environment settings replaced; unknown ones are refused by the environment."""
        return replace(self, settings={**self.settings, **settings})

    def make_env(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """A fresh environment with observations as in `observation` and actions as in `actions`."""
        if self.needs is not None and not self.installed:
            module, command = self.needs
            raise UserError(f"task {self.name!r} needs the package {module!r}, which is missing: {command}")
        if self.env_id is None:
            raise UserError(f"task {self.name!r} has no environment (env_id): it can be trained on, not played")
        options = {**self.settings, **({"render_mode": render_mode} if render_mode is not None else {})}
        try:
            if self.register is not None:
                importlib.import_module(self.register)
            env = gym.make(self.env_id, disable_env_checker=True, **options)
        except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
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
        if unknown is None or unknown[1] not in self.settings:
            return text
        known = [name for name in self._parameters() if name != unknown[1]]
        return f"there is no setting {unknown[1]!r}; it takes {', '.join(known) or 'none'}"

    def all_settings(self) -> dict[str, Any]:
        """Every setting that its environment takes, as it is now: those of `settings`, others as the environment has
        them where nothing is said. `settings` alone where the environment cannot be asked."""
        if self.env_id is None or not self.installed:
            return dict(self.settings)
        try:
            if self.register is not None:
                importlib.import_module(self.register)
            known = {name: one.default for name, one in self._parameters().items() if _can_be_written(one.default)}
            return {**known, **gym.spec(self.env_id).kwargs, **self.settings}
        except (ImportError, gym.error.Error):
            return dict(self.settings)

    def _parameters(self) -> dict[str, inspect.Parameter]:
        """What its environment is made with, by name."""
        creator = gym.spec(self.env_id or "").entry_point
        parameters = inspect.signature(resolve(creator)).parameters if creator is not None else {}
        taken = (one for one in parameters.values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
        return {one.name: one for one in taken if one.name != "render_mode"}

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

    def solved(self, reward: float, terminated: bool, info: Mapping[str, Any], total: float, steps: int) -> bool:
        """Whether the episode of so many `steps` was solved that ended with this last step; `total` is the sum of its
        rewards."""
        return bool(resolve(self.success)(reward, terminated, with_totals(info, total, steps)))


def _can_be_written(value: Any) -> bool:
    """Whether a setting of this kind can be given in words, `--set name=value`."""
    return value is None or isinstance(value, bool | int | float | str)


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
    if here := _known_here_alone(task):
        return (
            f"task {task.name!r} cannot be sent to worker processes, which do not know the {here} of a notebook: "
            "put it into a file and import that"
        )
    return ""


def _known_here_alone(task: Task) -> str:
    """What of a task is defined in a notebook or an interactive session: a new process imports no such thing."""
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) is not None or getattr(main, "__spec__", None) is not None:
        return ""
    spec = gym.registry.get(task.env_id or "")
    parts = {
        "environment": spec and spec.entry_point,
        "expert": task.expert,
        "wrap": task.wrap,
        "success": task.success,
    }
    return next((name for name, part in parts.items() if getattr(part, "__module__", "") == "__main__"), "")


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


def list_tasks() -> list[str]:
    """The names of all tasks, those of one's own included; `get_task` has each of them."""
    return list(all_tasks())


def get_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """The task called `name`, with some of its settings replaced."""
    tasks = all_tasks()
    if name not in tasks:
        raise UserError(
            f"unknown task {name!r}: {meant(name, tasks)}`attentiontuner tasks` lists them; for a task of your own "
            "write `attentiontuner --import FILE ...`"
        )
    return tasks[name].with_settings(settings or {})
