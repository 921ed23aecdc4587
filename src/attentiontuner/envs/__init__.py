"""Importing this module registers our environments with Gymnasium: the Long-term Memory Benchmark, the T-maze, and the
robots.

MuJoCo and ManiSkill, which robots need, are imported when one of them is made.
"""

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

HORIZON = {"AttentionTuner/TMaze-v0": "attentiontuner.envs.tmaze:TMazeEnv"}
"""Gymnasium id → class: of episodes as long as one likes."""

ROBOTS = {
    "AttentionTuner/RememberReach-v0": "attentiontuner.envs.remember_reach:RememberReachEnv",
    "AttentionTuner/RememberColour-v0": "attentiontuner.envs.remember_colour:RememberColourEnv",
    "AttentionTuner/BlinkCount-v0": "attentiontuner.envs.blink_count:BlinkCountEnv",
}
"""Gymnasium id → class, in MuJoCo."""

MIKASA = {
    "AttentionTuner/MikasaRememberColor-v0": "attentiontuner.envs.mikasa:MikasaRememberColourEnv",
    "AttentionTuner/MikasaBlinkCount-v0": "attentiontuner.envs.mikasa:MikasaBlinkCountEnv",
}
"""Gymnasium id → class, in ManiSkill."""

for _id, _entry_point in (LTMB | HORIZON | ROBOTS | MIKASA).items():
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
