"""What an environment says of itself, for `Task.from_env`."""

import re
from typing import Any

import gymnasium as gym

from attentiontuner.spaces import MINIGRID_SYMBOLS, ActionSpec, ObservationSpec

REGISTERED_BY = {"MiniGrid": "minigrid", "BabyAI": "minigrid"}
"""First word of a Gymnasium id → the module whose import registers it, of packages that we need anyway."""

SYMBOLIC_VIEW = "attentiontuner.envs:symbolic_view"


def registering_module(env_id: str) -> str | None:
    """The module that makes an id known, where we can tell."""
    return REGISTERED_BY.get(env_id.partition("-")[0])


def name_of_id(env_id: str) -> str:
    """`MiniGrid-MemoryS13-v0` → `MiniGrid-MemoryS13`; of `ALE/Pong-v5` the last part."""
    return re.sub(r"-v\d+$", "", env_id.rpartition("/")[2])


def is_minigrid(env: gym.Env[Any, Any]) -> bool:
    """Whether it gives Minigrid's observations: a symbolic image, and its mission in words."""
    space = env.unwrapped.observation_space
    return isinstance(space, gym.spaces.Dict) and {"image", "mission"} <= set(space.spaces)


def observation_of(env: gym.Env[Any, Any]) -> ObservationSpec:
    """What one observation is. Minigrid's symbolic view has the type of an image, and is none."""
    space = env.observation_space
    if is_minigrid(env) and space == env.unwrapped.observation_space["image"]:  # type: ignore[index]
        return ObservationSpec("grid", space.shape or (), MINIGRID_SYMBOLS)
    return ObservationSpec.from_space(space)


def actions_of(env: gym.Env[Any, Any]) -> ActionSpec:
    """What one action is, with the names that the environment lists in an enumeration `actions` (Minigrid) or tells by
    `get_action_meanings` (Atari)."""
    spec, bare = ActionSpec.from_space(env.action_space), env.unwrapped
    names = [str(name) for name in getattr(getattr(bare, "actions", None), "__members__", ())]
    if not names and callable(meanings := getattr(bare, "get_action_meanings", None)):
        names = [str(name).lower() for name in meanings()]
    return ActionSpec.discrete(names) if spec.kind == "discrete" and len(names) == spec.count else spec


def longest_episode(env: gym.Env[Any, Any]) -> int | None:
    """The most steps of an episode: what Gymnasium's time limit allows, or the environment's own `max_steps`."""
    limits = [env.spec.max_episode_steps if env.spec else None, getattr(env.unwrapped, "max_steps", None)]
    known = [int(limit) for limit in limits if isinstance(limit, int | float) and 1 <= limit < float("inf")]
    return min(known, default=None)


def reward_threshold(env: gym.Env[Any, Any]) -> float | None:
    """The sum of rewards from which Gymnasium calls it solved."""
    return None if env.spec is None or env.spec.reward_threshold is None else float(env.spec.reward_threshold)
