"""Remember-colour: touch the pad of the colour that a screen showed."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from attentiontuner.envs.robot import ARM_NUMBERS, OFF, RobotEnv, check_setting

SHOWN_STEPS = 5
SHORTEST_DELAY = 5
MOVING_STEPS = 50
"""Steps there are to touch a pad once they are lit."""

COLOURS: Mapping[str, tuple[float, float, float]] = {
    **{"red": (0.90, 0.16, 0.18), "green": (0.16, 0.75, 0.30), "blue": (0.15, 0.35, 0.95)},
    **{"yellow": (0.98, 0.85, 0.15), "magenta": (0.90, 0.25, 0.85), "cyan": (0.20, 0.85, 0.90)},
    **{"orange": (1.00, 0.52, 0.10), "white": (0.96, 0.96, 0.96), "brown": (0.34, 0.18, 0.06)},
}
"""Name → red, green, blue. With `pads` pads the first so many are used."""

MOST_PADS: Final = len(COLOURS)
SCREEN = slice(ARM_NUMBERS, ARM_NUMBERS + MOST_PADS)
"""Places in `numbers()`: 1 for the colour that the screen shows."""

PADS = slice(SCREEN.stop, SCREEN.stop + 3 * MOST_PADS)
"""Places in `numbers()`: for each colour 1 if its pad is lit, and then where that pad is (x, y), else 0."""

PAD_RADIUS, PAD_HEIGHT = 0.035, 0.008

PLACES = tuple(
    (distance * math.cos(angle), distance * math.sin(angle))
    for distance, angles in ((0.27, (-0.75, 0.0, 0.75)), (0.41, (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)))
    for angle in angles
)
"""Where pads are: three in a near row, then six in a far one. With `pads` pads the first so many are used."""

SCENE = """
<geom type="box" size="0.008 0.075 0.055" pos="-0.06 0.25 0.085" material="dark"/>
<geom type="box" size="0.006 0.012 0.02" pos="-0.06 0.25 0.02" material="dark"/>
<geom name="screen" type="box" size="0.002 0.066 0.046" pos="-0.0505 0.25 0.085" material="glow"/>
""" + "".join(
    f'<geom name="pad {place}" class="touchable" type="cylinder" size="{PAD_RADIUS} {PAD_HEIGHT}" '
    f'pos="{x:.4f} {y:.4f} {PAD_HEIGHT}" material="glow"/>\n'
    for place, (x, y) in enumerate(PLACES)
)


class RememberColourEnv(RobotEnv):
    """
    ## Description

    A screen shows a colour for the first 5 steps. After a while in the dark, pads on the table are lit, each in another
    colour; the finger must touch the one of the colour that was shown. Which pad has which colour is drawn for every
    episode.

    What has to be remembered: the colour, at every step of the movement.

    ## Action Space

    Three numbers from -1 to 1: the fingertip's velocity along x, y and z, in 0.2 m/s. Ten steps are a second.

    ## Observation Space

    50 numbers: joint positions (4), joint velocities (4), the tip's position (3) and velocity (3); nine of which one is
    1 while the screen shows that colour; and for each of the nine colours three: 1 if its pad is lit, and that pad's x
    and y, or 0. With `cameras` a dictionary: `camera`, a picture of 128 × 128, and `state`, the first 14 numbers.

    ## Rewards

    1 for touching the right pad, 0 otherwise.

    ## Termination

    1. The tip touches a lit pad: the one of the right colour is a success, any other a failure.
    2. 5 + delay + 50 steps are over, a failure.

    ## Settings

    - `pads` (3): lit pads and colours, 2 to 9.
    - `delay` (20): the most steps in the dark, 5 to 1,000; each episode draws from 5 to so many.
    - `cameras` (false; true, or a number: pixels a side), `disturbance` (0.08): see `RobotEnv`.

    The option `colour` of `reset` is the number of the colour shown.
    """

    cue: ClassVar[str] = "colour"

    def __init__(
        self,
        pads: int = 3,
        delay: int = 20,
        cameras: bool | int = False,
        disturbance: float = 0.08,
        render_mode: str | None = None,
    ) -> None:
        self.pads = check_setting("pads", pads, 2, MOST_PADS)
        self.delay = check_setting("delay", delay, SHORTEST_DELAY, 1000)
        steps = SHOWN_STEPS + delay + MOVING_STEPS
        super().__init__(SCENE, PADS.stop - ARM_NUMBERS, steps, cameras, disturbance, render_mode)

    def _draw_episode(self, cue: Any) -> None:
        drawn = int(self.np_random.integers(self.pads))
        self._lit_at = SHOWN_STEPS + int(self.np_random.integers(SHORTEST_DELAY, self.delay + 1))
        places = self.np_random.permutation(self.pads)
        self._place_of = [int(place) for place in places]  # colour → place
        self._colour = drawn if cue is None else check_setting("option 'colour'", cue, 0, self.pads - 1)

    @property
    def _shown(self) -> bool:
        return self.steps < SHOWN_STEPS

    @property
    def _lit(self) -> bool:
        return self.steps >= self._lit_at

    def _shows(self) -> list[float]:
        screen, pads = np.zeros(MOST_PADS), np.zeros((MOST_PADS, 3))
        screen[self._colour] = self._shown
        if self._lit:
            pads[: self.pads] = [(1, *PLACES[place]) for place in self._place_of]
        return [*screen, *pads.ravel()]

    def _colours(self) -> Mapping[str, tuple[float, ...]]:
        colours = list(COLOURS.values())
        painted: dict[str, tuple[float, ...]] = {f"pad {place}": OFF for place in range(len(PLACES))}
        painted["screen"] = (*colours[self._colour], 1.0) if self._shown else OFF
        if self._lit:
            painted |= {f"pad {place}": (*colours[n], 1.0) for n, place in enumerate(self._place_of)}
        return painted

    def _judge(self, touched: set[str]) -> bool | None:
        if self.steps <= self._lit_at:  # the action was chosen before they were lit
            return None
        answers = [colour for colour, place in enumerate(self._place_of) if f"pad {place}" in touched]
        return None if not answers else answers == [self._colour]
