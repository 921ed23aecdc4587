"""Blink-count: press a button as often as a lamp blinked."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from attentiontuner.envs.robot import ARM_NUMBERS, GREEN, LAMP, OFF, RobotEnv, check_setting

SHORTEST_GAP, LONGEST_GAP = 2, 4
"""Dark steps before each blink, which is lit for one step."""

SHORTEST_DELAY, LONGEST_DELAY = 4, 8
"""Dark steps between the last blink and the green light."""

STEPS_A_PRESS, OTHER_STEPS = 12, 30
"""What there is time for once the lamp is green."""

BLINK, GO, PRESSED, DEPTH = range(ARM_NUMBERS, ARM_NUMBERS + 4)
"""Places in `numbers()`: the lamp blinks; the light is green; the button has just been pressed; how far it is down."""

SHOWN: Final = 4
BUTTON, DONE = (0.34, -0.10), (0.34, 0.12)
"""Where the button and the pad are (x, y)."""

BUTTON_TOP = 0.034
TRAVEL, DOWN, UP = 0.014, 0.008, 0.004
"""Metres the button gives way; from which depth on it is pressed, and from which it can be pressed again."""

FLASH, CLICK = (1.0, 0.93, 0.65, 1.0), (0.35, 0.75, 1.0, 1.0)
BUTTON_COLOUR, DONE_COLOUR = (0.85, 0.15, 0.15, 1.0), (0.30, 0.62, 0.42, 1.0)

SCENE = f"""
{LAMP}
<geom type="cylinder" size="0.012 0.09" pos="0.02 -0.24 0.09" material="dark"/>
<geom name="blink" type="sphere" size="0.038" pos="0.02 -0.24 0.20" material="glow"/>
<geom name="ring" type="cylinder" size="0.052 0.006" pos="{BUTTON[0]} {BUTTON[1]} 0.006" material="glow"/>
<body name="button" pos="{BUTTON[0]} {BUTTON[1]} {BUTTON_TOP}">
  <joint name="button" type="slide" axis="0 0 -1" range="0 {TRAVEL}" stiffness="250" damping="3" armature="0.05"
         springref="-0.004"/>
  <geom name="button" class="touchable" type="cylinder" size="0.036 0.010" pos="0 0 -0.010" rgba="0.85 0.15 0.15 1"
        density="200"/>
</body>
<geom name="done" class="touchable" type="box" size="0.045 0.045 0.006" pos="{DONE[0]} {DONE[1]} 0.006"/>
"""


class BlinkCountEnv(RobotEnv):
    """
    ## Description

    A lamp blinks a few times, each time for one step. Some time later another lamp turns green: now the red button must
    be pressed as often as the lamp blinked, and then the green pad touched. The button springs back; a ring around it
    flashes for one step whenever a press is counted, and nothing else tells how many there were.

    What has to be remembered: every blink, and every press made so far.

    ## Action Space

    Three numbers from -1 to 1: the fingertip's velocity along x, y and z, in 0.2 m/s. Ten steps are a second.

    ## Observation Space

    18 numbers: joint positions (4), joint velocities (4), the tip's position (3) and velocity (3), then 1 if the lamp
    blinks, 1 if the light is green, 1 if the button has just been pressed (the ring flashes), and how far the button is
    down, in centimetres. With `cameras` a dictionary: `camera`, a picture of 128 × 128, and `state`, the first 14
    numbers.

    ## Rewards

    1 for touching the pad after the right number of presses, 0 otherwise.

    ## Termination

    1. The tip touches the pad while the light is green: a success if the button was pressed as often as the lamp
       blinked, else a failure. Presses count while the light is green.
    2. The steps are over, 5 · blinks + 8 to show and 12 · blinks + 30 to answer: a failure.

    ## Settings

    - `blinks` (6): the most blinks, 1 to 20; each episode draws from 1 to so many.
    - `cameras` (false; true, or a number: pixels a side), `disturbance` (0.08): see `RobotEnv`.

    The option `blinks` of `reset` is how often the lamp blinks.
    """

    cue: ClassVar[str] = "blinks"

    def __init__(
        self, blinks: int = 6, cameras: bool | int = False, disturbance: float = 0.08, render_mode: str | None = None
    ) -> None:
        self.blinks = check_setting("blinks", blinks, 1, 20)
        super().__init__(SCENE, SHOWN, longest_episode(blinks), cameras, disturbance, render_mode)
        self._slide = int(self._model.joint("button").qposadr[0])

    def _draw_episode(self, cue: Any) -> None:
        count = int(self.np_random.integers(1, self.blinks + 1))
        self._count = count if cue is None else check_setting("option 'blinks'", cue, 1, self.blinks)
        gaps = self.np_random.integers(SHORTEST_GAP, LONGEST_GAP + 1, self.blinks)
        delay = int(self.np_random.integers(SHORTEST_DELAY, LONGEST_DELAY + 1))
        ends = (gaps + 1).cumsum()  # each gap is dark, then one step is lit
        self._blinks_at = {int(end) - 1 for end in ends[: self._count]}
        self._go_at = int(ends[self._count - 1]) + delay
        self._presses, self._down, self._flash = 0, False, False

    @property
    def _blink(self) -> bool:
        return self.steps in self._blinks_at

    @property
    def _go(self) -> bool:
        return self.steps >= self._go_at

    def _depth(self) -> float:
        return float(self._data.qpos[self._slide])

    def _shows(self) -> list[float]:
        return [float(self._blink), float(self._go), float(self._flash), 100 * self._depth()]

    def _colours(self) -> Mapping[str, tuple[float, ...]]:
        return {
            "blink": FLASH if self._blink else OFF,
            "go": GREEN if self._go else OFF,
            "ring": CLICK if self._flash else OFF,
            "button": BUTTON_COLOUR,
            "done": DONE_COLOUR,
        }

    def _judge(self, touched: set[str]) -> bool | None:
        depth, was_down = self._depth(), self._down
        self._down = depth > (UP if was_down else DOWN)
        answering = self.steps > self._go_at  # the action was chosen when the light was green
        self._flash = answering and self._down and not was_down
        self._presses += self._flash
        return self._presses == self._count if answering and "done" in touched else None


def longest_episode(blinks: int) -> int:
    """Steps of an episode at most."""
    showing = (LONGEST_GAP + 1) * blinks + LONGEST_DELAY
    return showing + STEPS_A_PRESS * blinks + OTHER_STEPS
