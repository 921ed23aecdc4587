"""Two families of MIKASA-Robo-VLA as environments with numbers to see; docs/tasks/mikasa.md: installing it."""

import functools
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

ARM_NUMBERS: Final = 21
"""Of the arm: joint positions (9), joint velocities (9) and the position of the point between its fingers (3)."""

TIP = slice(18, 21)
MOST_COLOURS: Final = 9
CUBES = slice(ARM_NUMBERS, ARM_NUMBERS + 4 * MOST_COLOURS)
"""Places in an observation of RememberColor: for each colour 1 if its cube is on the table, and then where (x, y, z),
else 0."""

LIT, GREEN, PRESSED = range(ARM_NUMBERS, ARM_NUMBERS + 3)
"""Places in one of BlinkCount: the lamp is lit; the phase lamp is green; the red button has just gone down."""

RED, BLACK = slice(ARM_NUMBERS + 3, ARM_NUMBERS + 6), slice(ARM_NUMBERS + 6, ARM_NUMBERS + 9)
"""Of each button where it is (x and y, metres), and how far it is down, in centimetres."""

HIGHEST = 10.0
"""Metres: what is above was put out of sight."""

LEVELS = {3: ("Easy", 150), 5: ("Medium", 200), 7: ("Hard", 300)}
"""Most blinks → what the package calls that, and its longest episode."""


class MikasaEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A world of the package `mikasa-robo-suite`, unchanged, with ManiSkill's Panda arm on a CPU. Its own state
    observations name what is to be remembered at every step, so they are not used.

    Args:
        name: the environment's, as the package registered it.
        shown: how many numbers the table shows.
        steps: after which an episode is cut off, as the package says.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 -- Gymnasium's own

    def __init__(self, name: str, shown: int, steps: int, render_mode: str | None) -> None:
        import mikasa_robo_suite.vla.memory_envs  # noqa: F401 -- registers the package's environments

        try:
            made = gym.make(
                name,
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
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (ARM_NUMBERS + shown,), np.float32)
        self.max_steps, self.steps = steps, 0

    @abstractmethod
    def _shows(self) -> NDArray[np.float32]:
        """What the table shows at present, as numbers."""

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
        over = success or bool(info.get("failed", [False])[0])
        return self._numbers(), float(success), over, not over and self.steps >= self.max_steps, {"success": success}

    def close(self) -> None:
        self._world.close()

    def _numbers(self) -> NDArray[np.float32]:
        robot, tip = self._world.agent.robot, self._world.agent.tcp.pose.p
        arm = [part[0].cpu().numpy() for part in (robot.get_qpos(), robot.get_qvel(), tip)]
        return np.concatenate([*arm, self._shows()]).astype(np.float32)


class MikasaRememberColourEnv(MikasaEnv):
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
    whether its cube is on the table, and where.

    ## Rewards

    1 for success, 0 otherwise.

    ## Termination

    At the first success, or after 25 steps.

    ## Settings

    - `colours` (3): 3, 5 or 9.
    """

    def __init__(self, colours: int = 3, render_mode: str | None = None) -> None:
        if colours not in (3, 5, 9):
            raise UserError(f"colours must be 3, 5 or 9, not {colours!r}")
        super().__init__(f"RememberColor{colours}-VLA-v0", 4 * MOST_COLOURS, 25, render_mode)

    def _shows(self) -> NDArray[np.float32]:
        cubes = np.zeros((MOST_COLOURS, 4), np.float32)
        for colour, cube in self._world.cubes.items():
            place = cube.pose.p[0].cpu().numpy()
            if place[2] < HIGHEST:
                cubes[colour] = (1, *place)
        return cubes.ravel()


class MikasaBlinkCountEnv(MikasaEnv):
    """
    ## Description

    `BlinkCountButtonPressEasy-VLA-v0`, `…Medium…` or `…Hard…` of the package `mikasa-robo-suite`: a lamp blinks some
    times, for 3 steps each; then another turns green, and the red button must be pressed as often, with the gripper
    lifted 8.5 cm after each press, and then the black one. The arm is ManiSkill's Panda, on a CPU.

    The package lacks the file with the bulbs' looks; a ball takes their place. Nothing touches them, so that all
    numbers are those of the package.

    ## Action Space

    Four numbers from -1 to 1 (`pd_ee_delta_pos`): how far the gripper moves along x, y and z, in 10 cm, and its
    opening.

    ## Observation Space

    30 numbers: joint positions (9), joint velocities (9), the gripper's position (3), 1 if the lamp is lit, 1 if the
    other is green, 1 if the red button has just gone down, and of the red button and of the black one where it is (x
    and y) and how far it is down, in centimetres. Nothing tells how many presses there were.

    ## Rewards

    1 for success, 0 otherwise.

    ## Termination

    1. The black button is pressed under the green light: a success after the right number of presses.
    2. The red button was pressed too often, a failure.
    3. 150, 200 or 300 steps are over, a failure.

    ## Settings

    - `blinks` (3): the most blinks, 3, 5 or 7: Easy, Medium or Hard; each episode draws from 1 to so many.
    """

    def __init__(self, blinks: int = 3, render_mode: str | None = None) -> None:
        if blinks not in LEVELS:
            raise UserError(f"blinks must be 3, 5 or 7, not {blinks!r}")
        level, steps = LEVELS[blinks]
        with tempfile.TemporaryDirectory() as folder:
            _with_bulbs(Path(folder) / "bulb.glb")
            name, shown = f"BlinkCountButtonPress{level}-VLA-v0", BLACK.stop - ARM_NUMBERS
            super().__init__(name, shown, steps, render_mode)

    def _shows(self) -> NDArray[np.float32]:
        world = self._world
        lamps = (world.lamp_bulb_on.pose.p, world.phase_lamp_green.pose.p)
        shown = [*(lamp[0, 2] < HIGHEST for lamp in lamps), world.new_raw_press_event[0]]
        for place, depth in (
            (world.button_xy, world.button_press_depth),
            (world.confirm_button_xy, world.confirm_button_press_depth),
        ):
            shown += [*place[0], 100 * depth[0]]
        return np.array([float(number) for number in shown], np.float32)


def _with_bulbs(looks: Path) -> None:
    """Have the package's lamps look like a ball in the file `looks`, in place of the file that it lacks."""
    import trimesh
    from mikasa_robo_suite.vla.utils import shapes

    trimesh.creation.icosphere(radius=0.01).export(looks)
    build = shapes.build_color_switch_lamp
    shapes.build_color_switch_lamp = functools.partial(getattr(build, "func", build), bulb_asset_path=str(looks))
