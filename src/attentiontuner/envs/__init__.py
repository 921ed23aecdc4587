"""LTMB, the Long-term Memory Benchmark: importing this module registers its environments with Gymnasium."""

from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from numpy.typing import NDArray

LTMB = {
    "LTMB-Hallway-v0": "attentiontuner.envs.hallway:HallwayEnv",
    "LTMB-Ordering-v0": "attentiontuner.envs.ordering:OrderingEnv",
    "LTMB-Counting-v0": "attentiontuner.envs.counting:CountingEnv",
}
"""Gymnasium id → class. The defaults of each class are the paper's settings."""

for _id, _entry_point in LTMB.items():
    if _id not in gym.registry:
        gym.register(id=_id, entry_point=_entry_point)


class SymbolicView(gym.ObservationWrapper["NDArray[Any]", Any, Any]):
    """The `image` of a Minigrid observation alone: uint8 `[7, 7, 3]`, indexed [x, y] with the agent at [3, 6]."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Dict) or "image" not in space.spaces:
            raise ValueError(f"symbolic_view needs Minigrid's dict observation with an 'image', not {space}")
        self.observation_space = space["image"]

    def observation(self, observation: dict[str, Any]) -> "NDArray[Any]":
        image: NDArray[Any] = observation["image"]
        return image


def symbolic_view(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Wrap a Minigrid environment so that its observation is the symbolic view; all else stays as it is."""
    return SymbolicView(env)
