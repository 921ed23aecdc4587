"""MIKASA-Robo-VLA's RememberColor as one environment with numbers to see; docs/tasks/mikasa.md: installing it."""

from typing import Any, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

STEPS = 25
"""Of an episode, as the package says."""

ARM_NUMBERS: Final = 21
"""Of the arm: joint positions (9), joint velocities (9) and the position of the point between its fingers (3)."""

TIP = slice(18, 21)
MOST_COLOURS: Final = 9
CUBES = slice(ARM_NUMBERS, ARM_NUMBERS + 4 * MOST_COLOURS)
"""Places in an observation: for each colour 1 if its cube is on the table, and then where (x, y, z), else 0."""

HIGHEST = 10.0
"""Metres: what is above was put out of sight."""


class MikasaRememberColourEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """
    ## Description

    `RememberColor3-VLA-v0`, `…5` or `…9` of the package `mikasa-robo-suite`, unchanged: a cube is shown for 1 to 5
    steps, the table is empty for 1 to 5, then there are cubes of all colours; the gripper must come to rest within 5 cm
    of the one that was shown. The arm is ManiSkill's Panda, on a CPU.

    ## Action Space

    Four numbers from -1 to 1 (`pd_ee_delta_pos`): how far the gripper moves along x, y and z, in 10 cm, and its
    opening.

    ## Observation Space

    57 numbers: joint positions (9), joint velocities (9), the gripper's position (3), and for each of nine colours
    whether its cube is on the table, and where. The package's own state observation names the right colour at every
    step, so it is not used.

    ## Rewards

    1 for success, 0 otherwise.

    ## Termination

    At the first success, or after 25 steps.

    ## Settings

    - `colours` (3): 3, 5 or 9.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 -- Gymnasium's own

    def __init__(self, colours: int = 3, render_mode: str | None = None) -> None:
        if colours not in (3, 5, 9):
            raise UserError(f"colours must be 3, 5 or 9, not {colours!r}")
        import mikasa_robo_suite.vla.memory_envs  # noqa: F401 -- registers the package's environments

        try:
            made = gym.make(
                f"RememberColor{colours}-VLA-v0",
                num_envs=1,
                obs_mode="none",
                control_mode="pd_ee_delta_pos",
                sim_backend="physx_cpu",
                render_backend="cpu",
                disable_env_checker=True,
            )
        except RuntimeError as error:
            raise UserError(
                f"ManiSkill cannot make a world ({' '.join(str(error).split())}): it needs a Vulkan device even where "
                "nothing is drawn; docs/tasks/mikasa.md says how to get one"
            ) from error
        self._world: Any = made.unwrapped
        self.render_mode = render_mode
        self.action_space = gym.spaces.Box(-1, 1, (4,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (CUBES.stop,), np.float32)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._world.reset(seed=int(self.np_random.integers(2**31)))
        self.steps = 0
        return self._numbers(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        *_, info = self._world.step(np.asarray(action, np.float32)[None])
        self.steps += 1
        success = bool(info["success"][0])
        truncated = not success and self.steps >= STEPS
        return self._numbers(), float(success), success, truncated, {"success": success}

    def close(self) -> None:
        self._world.close()

    def _numbers(self) -> NDArray[np.float32]:
        robot, tip = self._world.agent.robot, self._world.agent.tcp.pose.p
        cubes = np.zeros((MOST_COLOURS, 4), np.float32)
        for colour, cube in self._world.cubes.items():
            place = cube.pose.p[0].cpu().numpy()
            if place[2] < HIGHEST:
                cubes[colour] = (1, *place)
        arm = [part[0].cpu().numpy() for part in (robot.get_qpos(), robot.get_qvel(), tip)]
        return np.concatenate([*arm, cubes.ravel()]).astype(np.float32)
