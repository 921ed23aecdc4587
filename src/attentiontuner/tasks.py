"""The table of tasks. One row per task; nothing else in the package knows a task by its name."""

import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.errors import UserError, where_and_what
from attentiontuner.experts.base import Expert
from attentiontuner.observations import MINIGRID_SYMBOLS, ObservationSpec

Named = str | Callable[..., Any]
"""A callable, or its address as "package.module:name", looked up when it is first needed."""

PAPER_EPOCHS = 300


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
        observation: kind and shape of one observation, after `wrap`.
        actions: the names of the discrete actions, in order.
        horizon: the most steps an episode can have under `settings`; a number, or a function of the settings.
        settings: keyword arguments of `gym.make`.
        wrap: function env → env that makes observations arrays of `observation` and actions `Discrete`.
        expert: class called as `expert(env)` after each reset, see `experts.base`; None where nobody wrote one.
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
    actions: tuple[str, ...]
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
        """A fresh environment: observations as in `observation`, `Discrete` actions."""
        if self.needs is not None:
            module, command = self.needs
            try:
                importlib.import_module(module)
            except ImportError:
                raise UserError(
                    f"task {self.name!r} needs the package {module!r}, which is missing: {command}"
                ) from None
        if self.register is not None:
            importlib.import_module(self.register)
        if self.env_id is None:
            raise UserError(f"task {self.name!r} has no environment (env_id): it can be trained on, not played")
        options = {**self.settings, **({"render_mode": render_mode} if render_mode is not None else {})}
        try:
            env = gym.make(self.env_id, disable_env_checker=True, **options)
        except gym.error.NameNotFound as error:
            raise UserError(
                f"task {self.name!r}: Gymnasium does not know {self.env_id!r} ({error}); call gymnasium.register in "
                "the file that registers the task, or name the module that does so in Task(register=...)"
            ) from error
        except (TypeError, ValueError, gym.error.Error) as error:
            raise UserError(f"task {self.name!r} does not take these settings: {self._refusal(error)}") from error
        return env if self.wrap is None else resolve(self.wrap)(env)

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

    def seen(self, observation: Any) -> NDArray[Any]:
        """What the environment gave, as an array of `observation`; refused where it is something else."""
        spec, found = self.observation, np.asarray(observation)
        fits = found.dtype.kind in ("fiub" if spec.kind == "vector" else "iub")
        if fits and found.shape == spec.shape:
            if found.dtype == spec.dtype:
                return found
            if spec.kind == "vector" or (found.min() >= 0 and found.max() <= 255):
                return found.astype(spec.dtype)
        hint = (
            "; make bytes of it in the task's wrap: (255 * image).astype(numpy.uint8)" if spec.kind == "image" else ""
        )
        raise UserError(
            f"the environment gives observations of shape {found.shape} and type {found.dtype}, "
            f"task {self.name!r} promises {spec.shape} and {spec.dtype}{hint if found.shape == spec.shape else ''}"
        )

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
            point.load()()
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


# --- the paper's six tasks -------------------------------------------------------------------------------------------

MINIGRID_VIEW = ObservationSpec("grid", (7, 7, 3), MINIGRID_SYMBOLS)
MINIGRID_ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
MINIGRID_KEYS = {"ArrowLeft": 0, "ArrowRight": 1, "ArrowUp": 2, " ": 5}


def _hallway_steps(settings: Mapping[str, Any]) -> int:
    return 4 * int(settings["length"]) + 25


def _ordering_steps(settings: Mapping[str, Any]) -> int:
    return 18 + int(settings["length"])


def _counting_steps(settings: Mapping[str, Any]) -> int:
    return 7 * int(settings["length"])


register_task(
    Task(
        name="hallway",
        title="Hallway",
        env_id="LTMB-Hallway-v0",
        register="attentiontuner.envs",
        wrap="attentiontuner.envs:symbolic_view",
        expert="attentiontuner.experts.hallway:HallwayExpert",
        observation=MINIGRID_VIEW,
        actions=MINIGRID_ACTIONS,
        keys=MINIGRID_KEYS,
        settings={"length": 30},
        horizon=_hallway_steps,
        demonstrations=5000,
        epochs={"attentiontuner": 300, "vanilla": 600},
    )
)
register_task(
    Task(
        name="ordering",
        title="Ordering",
        env_id="LTMB-Ordering-v0",
        register="attentiontuner.envs",
        wrap="attentiontuner.envs:symbolic_view",
        expert="attentiontuner.experts.ordering:OrderingExpert",
        observation=MINIGRID_VIEW,
        actions=MINIGRID_ACTIONS,
        keys=MINIGRID_KEYS,
        settings={"length": 50},
        horizon=_ordering_steps,
        demonstrations=5000,
        epochs={"attentiontuner": 300, "vanilla": 600},
    )
)
register_task(
    Task(
        name="counting",
        title="Counting",
        env_id="LTMB-Counting-v0",
        register="attentiontuner.envs",
        wrap="attentiontuner.envs:symbolic_view",
        expert="attentiontuner.experts.counting:CountingExpert",
        observation=MINIGRID_VIEW,
        actions=MINIGRID_ACTIONS,
        keys=MINIGRID_KEYS,
        settings={"length": 20, "test_freq": 0.3, "empty_freq": 0.1},
        horizon=_counting_steps,
        demonstrations=10_000,
        epochs={"attentiontuner": 600, "vanilla": 600},
    )
)

MEMORY_GYM = ("memory_gym", "pip install --no-deps memory-gym==1.0.2")
MEMORY_GYM_FRAME = ObservationSpec("image", (84, 84, 3), upright=False)
TURN_ACTIONS = ("stay", "turn left", "turn right", "forward")
TURN_KEYS = {" ": 0, "ArrowLeft": 1, "ArrowRight": 2, "ArrowUp": 3}

SEARING_ACTIONS = (
    *("stay", "up", "down"),
    *("left", "left and up", "left and down"),
    *("right", "right and up", "right and down"),
)
SEARING_KEYS = {
    **{" ": 0, "ArrowUp": 1, "ArrowDown": 2, "ArrowLeft": 3, "ArrowRight": 6},
    **{"q": 4, "y": 5, "z": 5, "e": 7, "c": 8},  # the corners around S; Y and Z change places between keyboards
}


def _mortar_steps(settings: Mapping[str, Any]) -> int:
    def most(name: str, default: int) -> int:
        value = settings.get(name, default)
        return int(max(value) if isinstance(value, (list, tuple)) else value)

    commands, time = most("command_count", 10), most("explosion_delay", 6)
    showing = commands * (most("command_show_duration", 3) + most("command_show_delay", 1))
    return showing + commands * time + (commands - 1) * most("explosion_duration", 2)


def _mystery_steps(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_steps", 128))


def _searing_steps(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_steps", 256))


register_task(
    Task(
        name="mortar-mayhem",
        title="Mortar Mayhem",
        env_id="AttentionTuner/MortarMayhem-Grid-v0",
        register="attentiontuner.envs.memory_gym",
        needs=MEMORY_GYM,
        expert="attentiontuner.experts.mortar_mayhem:MortarMayhemExpert",
        observation=MEMORY_GYM_FRAME,
        actions=TURN_ACTIONS,
        keys=TURN_KEYS,
        settings={"command_count": 10},
        horizon=_mortar_steps,
        demonstrations=4000,
        epochs={"attentiontuner": 300, "vanilla": 600},
    )
)
register_task(
    Task(
        name="mystery-path",
        title="Mystery Path",
        env_id="AttentionTuner/MysteryPath-Grid-v0",
        register="attentiontuner.envs.memory_gym",
        needs=MEMORY_GYM,
        expert="attentiontuner.experts.mystery_path:MysteryPathExpert",
        observation=MEMORY_GYM_FRAME,
        actions=TURN_ACTIONS,
        keys=TURN_KEYS,
        settings={"show_origin": False, "show_goal": False},
        horizon=_mystery_steps,
        demonstrations=4000,
        epochs={"attentiontuner": 300, "vanilla": 300},
        every_attempt_succeeds=False,
    )
)
register_task(
    Task(
        name="searing-spotlights",
        title="Searing Spotlights",
        env_id="AttentionTuner/SearingSpotlights-v0",
        register="attentiontuner.envs.memory_gym",
        needs=MEMORY_GYM,
        expert="attentiontuner.experts.searing_spotlights:SearingSpotlightsExpert",
        observation=MEMORY_GYM_FRAME,
        actions=SEARING_ACTIONS,
        keys=SEARING_KEYS,
        settings={"light_dim_off_duration": 6, "num_coins": 1},
        horizon=_searing_steps,
        demonstrations=40_000,
        epochs={"attentiontuner": 120, "vanilla": 120, "recall": 24, "recall-vanilla": 24},
        every_attempt_succeeds=False,
    )
)
