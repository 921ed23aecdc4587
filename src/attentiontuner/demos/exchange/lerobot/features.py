"""LeRobot's features and our specifications, each made of the other.

| LeRobot | ours |
| --- | --- |
| `observation.images.front`, dtype `video` or `image` | the image part `front` |
| `observation.state` and other numbers under `observation` | the vector part `state`, float32 |
| `task_index`, where there are several tasks | the vector part `task`, a one among zeros |
| `action`, floats | a box without bounds: the format says none |
| `action`, whole numbers | discrete, or multi-discrete |
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json, reading
from attentiontuner.core.wording import counted
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.exchange.lerobot.layout import INFO, OURS, STATISTICS, Feature, Layout
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part

ACTION, TASK_INDEX, EVENTS = "action", "task_index", "language_events"
REWARD, DONE, TRUNCATED, SUCCESS = "next.reward", "next.done", "next.truncated", "next.success"
OUTCOMES = (REWARD, DONE, TRUNCATED, SUCCESS)
COUNTERS = ("timestamp", "frame_index", "episode_index", "index", TASK_INDEX)
TASK_PART = "task"
ALONE = {"image": "observation.image", "vector": "observation.state", "grid": "observation.grid"}
"""What a plain observation, whose part has no name, is called in LeRobot."""

Storage = Literal["png", "video", "numbers", "task"]


@dataclass(frozen=True)
class Source:
    """Where one part of our observations is in a LeRobot data set, and how it is stored there."""

    part: str
    spec: Part
    feature: str
    storage: Storage

    @property
    def upright_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image, which LeRobot has upright."""
        first, second, channels = self.spec.shape
        return (first, second, channels) if self.spec.upright else (second, first, channels)


@dataclass(frozen=True)
class Plan:
    """What is taken from a LeRobot data set. `left_out`: the other features → why they are not."""

    sources: tuple[Source, ...]
    observation: ObservationSpec
    actions: ActionSpec
    left_out: Mapping[str, str] = field(default_factory=dict)


def plan_of(layout: Layout, actions: ActionSpec | None = None) -> Plan:
    """How `layout`'s features become ours: as `meta/attentiontuner.json` says, where we wrote them ourselves."""
    if ACTION not in layout.features:
        raise UserError(f"{layout.root / INFO}: there is no feature {ACTION!r}: nothing says what was done")
    if layout.ours is not None:
        return _as_written(layout, layout.ours, actions)
    sources, left_out = [], {}
    for name, feature in layout.features.items():
        if name.split(".")[0] != "observation":
            if name not in (ACTION, *COUNTERS, *OUTCOMES, EVENTS):
                left_out[name] = "neither an observation nor 'action'"
        elif why := _unusable(feature):
            left_out[name] = why
        else:
            sources.append(Source(name, _part(layout, name, feature), name, _storage(feature)))
    sources = _named(sources)
    if len(layout.tasks) > 1:
        count = len(layout.tasks)
        sources.append(Source(TASK_PART, Part("vector", (count,), choices=(count,)), TASK_INDEX, "task"))
    if not sources:
        raise UserError(f"{layout.root / INFO}: no feature called observation.… is an image or numbers")
    observation = ObservationSpec(parts={source.part: source.spec for source in sources})
    return Plan(tuple(sources), observation, actions or _actions(layout), left_out)


def _as_written(layout: Layout, ours: Mapping[str, Any], actions: ActionSpec | None) -> Plan:
    path = layout.root / OURS
    try:
        observation = ObservationSpec.from_json(ours["observation"])
        acted = actions or ActionSpec.from_json(ours["actions"])
        sources = []
        for part, spec in observation.parts:
            name = ours["features"][part]
            storage: Storage = "task" if name == TASK_INDEX else _storage(layout.features[name])
            sources.append(Source(part, spec, name, storage))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wrong = f"it does not fit {INFO} ({type(error).__name__} {error})"
        raise UserError(f"{path}: {wrong}: without that file the data set is read as any other") from error
    return Plan(tuple(sources), observation, acted)


def _storage(feature: Feature) -> Storage:
    return "png" if feature.dtype == "image" else "video" if feature.is_camera else "numbers"


def _unusable(feature: Feature) -> str:
    if feature.is_camera:
        return "a depth map" if feature.is_depth else ""
    if feature.dtype != "bool" and not feature.dtype.startswith(("float", "int", "uint")):
        return f"of type {feature.dtype}"
    return ""


def _part(layout: Layout, name: str, feature: Feature) -> Part:
    if not feature.is_camera:
        return Part("vector", (math.prod(feature.shape),))
    if len(feature.shape) != 3:
        raise UserError(f"{layout.root / INFO}: {name} has shape {feature.shape}, an image has three sizes")
    names = [str(axis).lower() for axis in feature.names] if isinstance(feature.names, list) else []
    first, last = feature.shape[0], feature.shape[2]
    channels_first = names[0].startswith("channel") if len(names) == 3 else first in (1, 3) and last not in (1, 3)
    height, width, channels = (*feature.shape[1:], first) if channels_first else feature.shape
    if channels not in (1, 3):
        raise UserError(f"{layout.root / INFO}: {name} has {counted(channels, 'channel')}: 1 or 3 are read")
    return Part("image", (height, width, channels))


def _named(sources: list[Source]) -> list[Source]:
    """Parts called as short as they can be: `observation.images.front` is `front` where nothing else is."""
    short = [source.feature.removeprefix("observation.").removeprefix("images.") for source in sources]
    return [
        replace(source, part=name) if short.count(name) == 1 and name != TASK_PART else source
        for name, source in zip(short, sources, strict=True)
    ]


def _actions(layout: Layout) -> ActionSpec:
    feature = layout.features[ACTION]
    if feature.dtype.startswith("float"):
        return ActionSpec.box(np.full(feature.shape, -np.inf), np.full(feature.shape, np.inf))
    if not feature.dtype.startswith(("int", "uint")) or len(feature.shape) != 1:
        raise UserError(f"{layout.root / INFO}: actions of type {feature.dtype} and shape {feature.shape} are not read")
    path = layout.root / STATISTICS
    try:
        highest = [int(n) for n in np.ravel(read_json(path)[ACTION]["max"])]
        choices = [n + 1 for n in highest] if len(highest) == feature.shape[0] and min(highest) >= 0 else []
    except (KeyError, TypeError, ValueError, IndexError):
        choices = []
    if not choices:
        raise UserError(
            f"{path} does not say how many actions there are: from_lerobot(…, actions=ActionSpec.discrete(n)) does"
        )
    return ActionSpec.discrete(choices[0]) if len(choices) == 1 else ActionSpec.multi_discrete(choices)


def written_parts(observation: ObservationSpec, cameras: Literal["image", "video"]) -> list[Source]:
    """Where each part goes. Colour images are what `cameras` says, images of one channel always PNG; other channels and
    symbol grids go as numbers."""
    sources = []
    for name, part in observation.parts:
        storage: Storage = "numbers"
        feature = f"observation.{name}" if name else ALONE[part.kind]
        if part.kind == "image" and part.shape[2] in (1, 3):
            storage = "video" if cameras == "video" and part.shape[2] == 3 else "png"
            feature = f"observation.images.{name}" if name else ALONE["image"]
        sources.append(Source(name, part, feature, storage))
    return sources


def described(sources: list[Source], actions: ActionSpec, events: bool, names: Mapping[str, Any]) -> dict[str, Any]:
    """The features of `info.json`. `names` are what a data set that came from LeRobot called its numbers."""
    features: dict[str, Any] = {}
    for source in sources:
        if source.storage == "task":
            continue
        if source.storage == "numbers":
            features[source.feature] = _entry(source.spec.dtype.name, source.spec.shape, names.get(source.feature))
        else:
            kind = "image" if source.storage == "png" else "video"
            features[source.feature] = _entry(kind, source.upright_shape, ["height", "width", "channels"])
    features[ACTION] = _entry(actions.dtype.name, actions.shape or (1,), names.get(ACTION))
    features[REWARD] = _entry("float32", (1,), None)
    features |= {name: _entry("bool", (1,), None) for name in (DONE, TRUNCATED, SUCCESS)}
    features["timestamp"] = _entry("float32", (1,), None)
    features |= {name: _entry("int64", (1,), None) for name in COUNTERS[1:]}
    if events:
        features[EVENTS] = _entry("language", (1,), None)
    return features


def _entry(dtype: str, shape: tuple[int, ...], names: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "names": names}


CAME = "lerobot.json"
"""In a data set of ours that came from LeRobot: what that said for which ours has no place."""


def came_with(layout: Layout) -> dict[str, Any]:
    """What `lerobot.json` keeps for the way back."""
    names = {name: f.names for name, f in layout.features.items() if not f.is_camera and f.names is not None}
    return {
        "fps": layout.info["fps"],
        "robot_type": layout.info.get("robot_type"),
        "tasks": list(layout.tasks),
        "names": names,
    }


def read_came_with(root: Path) -> Mapping[str, Any]:
    """What the data set in `root` keeps of the LeRobot data set that it was; nothing where it was none."""
    path = root / CAME
    if not path.exists():
        return {}
    value = read_json(path)
    with reading(path, "delete it, or restore it from a copy"):
        json.dumps(value, allow_nan=False)  # numbers that nobody can have written
        fps, named = value.get("fps"), value.get("names", {})
        wrong = [
            not isinstance(value["tasks"], list),
            not isinstance(fps, int | float | None) or (fps is not None and not 0 < fps < math.inf),
            not isinstance(named, dict),
        ]
        if any(wrong):
            raise ValueError("it is not what was said of a LeRobot data set")
    return dict(value)


def words_of(came: Mapping[str, Any], demonstration: Demonstration) -> str:
    """The task of a demonstration as its LeRobot data set put it; several, one after the other, joined by arrows."""
    tasks, seen = [str(words) for words in came.get("tasks", [])], demonstration.observations
    numbers = [0] if len(tasks) == 1 else []
    if len(tasks) > 1 and isinstance(seen, Mapping) and TASK_PART in seen and seen[TASK_PART].shape[1] == len(tasks):
        numbers = list(dict.fromkeys(seen[TASK_PART].argmax(1).tolist()))
    return " → ".join(tasks[number] for number in numbers)
