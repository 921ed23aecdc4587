"""Remember-reach: touch the table where a target was lit."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.envs.robot import ARM_NUMBERS, GREEN, LAMP, OFF, RobotEnv, check_setting

LIT_STEPS = 5
SHORTEST_DELAY = 5
MOVING_STEPS = 50
"""Steps there are to touch the table once the lamp is green."""

RADIUS = 0.05
"""How near the middle of the target the tip must touch."""

GO, LIT, TARGET = ARM_NUMBERS, ARM_NUMBERS + 1, slice(ARM_NUMBERS + 2, ARM_NUMBERS + 4)
"""Places in `numbers()`: the lamp is green; the target is lit; where it is, 0 and 0 unless it is lit."""

SHOWN: Final = 4
NEAR, FAR, WIDE = 0.22, 0.46, 1.1
"""The target's distance from the base, and the most it lies to either side, in radians."""

TARGET_COLOUR = (1.0, 0.83, 0.25, 1.0)

SCENE = f"""
{LAMP}
<body name="target" mocap="true">
  <geom name="target" type="cylinder" size="{RADIUS} 0.0015" material="glow"/>
</body>
"""


class RememberReachEnv(RobotEnv):
    """
    ## Description

    A disc on the table is lit for the first 5 steps, then it is gone. After a while in the dark the lamp turns green,
    and the finger must touch the table where the disc was.

    What has to be remembered: where the disc was, at every step of the movement.

    ## Action Space

    Three numbers from -1 to 1: the fingertip's velocity along x, y and z, in 0.2 m/s. Ten steps are a second.

    ## Observation Space

    18 numbers: joint positions (4), joint velocities (4), the tip's position (3) and velocity (3), then 1 if the lamp
    is green, 1 if the disc is lit, and its x and y (0 unless it is lit). With `cameras` a dictionary: `camera`, a
    picture of 128 × 128, and `state`, the first 14 numbers.

    ## Rewards

    1 for touching the right place, 0 otherwise.

    ## Termination

    1. The tip touches the table while the lamp is green: within 5 cm of the disc's middle is a success, elsewhere a
       failure. Touching it before changes nothing.
    2. 5 + delay + 50 steps are over, a failure.

    ## Settings

    - `delay` (20): the most steps in the dark, 5 to 1,000; each episode draws from 5 to so many.
    - `cameras` (false; true, or a number: pixels a side), `disturbance` (0.08): see `RobotEnv`.

    The option `target` of `reset` is the disc's (x, y).
    """

    cue: ClassVar[str] = "target"

    def __init__(
        self, delay: int = 20, cameras: bool | int = False, disturbance: float = 0.08, render_mode: str | None = None
    ) -> None:
        self.delay = check_setting("delay", delay, SHORTEST_DELAY, 1000)
        steps = LIT_STEPS + delay + MOVING_STEPS
        super().__init__(SCENE, SHOWN, steps, cameras, disturbance, render_mode)

    def _draw_episode(self, cue: Any) -> None:
        distance, angle = self.np_random.uniform((NEAR, -WIDE), (FAR, WIDE))
        self._go_at = LIT_STEPS + int(self.np_random.integers(SHORTEST_DELAY, self.delay + 1))
        drawn = (distance * math.cos(angle), distance * math.sin(angle))
        self._target = np.asarray(drawn if cue is None else cue, np.float64)
        if self._target.shape != (2,) or not np.isfinite(self._target).all():
            raise UserError(f"option 'target' is (x, y), not {cue!r}")
        self._data.mocap_pos[0] = [*self._target, 0.0015]

    @property
    def _lit(self) -> bool:
        return self.steps < LIT_STEPS

    @property
    def _go(self) -> bool:
        return self.steps >= self._go_at

    def _shows(self) -> list[float]:
        where = self._target.tolist() if self._lit else [0.0, 0.0]
        return [float(self._go), float(self._lit), *where]

    def _colours(self) -> Mapping[str, tuple[float, ...]]:
        return {
            "target": TARGET_COLOUR if self._lit else (0, 0, 0, 0),
            "go": GREEN if self._go else OFF,
        }

    def _judge(self, touched: set[str]) -> bool | None:
        # The lamp as it was when the action was chosen: before this step was counted.
        if "table" not in touched or self.steps <= self._go_at:
            return None
        tip = self._data.site_xpos[self._tip_site][:2]
        return bool(np.linalg.norm(tip - self._target) <= RADIUS)
