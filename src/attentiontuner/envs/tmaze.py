"""T-maze: a cue, a corridor of any length, and a turn at its end."""

from typing import Any, Final

import gymnasium as gym
import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

LEFT, RIGHT, FORWARD = range(3)
SHORTEST, LONGEST = 10, 1_000_000
SPARE = 10
"""Steps that may be wasted against walls."""

WIDTH, HEIGHT = 3, 2
"""Cells in view: the row ahead, and the agent's own."""

HERE: Final = HEIGHT - 1
NICHE = (0, HERE)
"""Where what lies beside the agent is in view."""

WALL = (OBJECT_TO_IDX["wall"], COLOR_TO_IDX["grey"], 0)
EMPTY = (OBJECT_TO_IDX["empty"], 0, 0)
BALL = OBJECT_TO_IDX["ball"]
GREEN, RED = COLOR_TO_IDX["green"], COLOR_TO_IDX["red"]
CUES = ((BALL, GREEN, 0), (BALL, RED, 0))
OTHERS = (
    *((OBJECT_TO_IDX[kind], colour, 0) for kind in ("key", "box") for colour in (GREEN, RED)),
    *((BALL, COLOR_TO_IDX[colour], 0) for colour in ("blue", "purple", "yellow")),
)
"""Distractors: other things of the cues' colours, and balls of other colours."""

THINGS = (WALL, *CUES, *OTHERS)
"""What can be beside the agent in the corridor; the first is nothing."""


class TMazeEnv(gym.Env[NDArray[np.uint8], int]):
    """
    ## Description

    A corridor with a niche in its left wall at every step. In the first lies a cue, a green or a red ball. At the end
    the corridor opens to both sides: green says to turn left, red to turn right. With two cues the second lies
    somewhere in the first half of the corridor, and the turn is left if both have the same colour, else right.

    What has to be remembered: the cues, for as long as the corridor is.

    ## Action Space

    0 left, 1 right, 2 forward. In the corridor the walls are in the way of left and right, at its end of forward: the
    agent stays where it is.

    ## Observation Space

    Symbols of Minigrid, uint8 `[3, 2, 3]`: the three cells ahead at [0 to 2, 0], and the agent's row at [0 to 2, 1],
    the agent in its middle, the niche at [0, 1]. What lies in a niche is seen only beside it.

    ## Rewards

    1 for the right turn, 0 otherwise.

    ## Termination

    1. A turn at the end of the corridor: a success if it is the right one.
    2. `length` + 10 steps: a failure.

    ## Settings

    - `length` (100): steps of an episode without detours, from 10 to 1,000,000. The cue is seen at step 0, the turn is
      made at step `length` - 1.
    - `cues` (1): 1 or 2.
    - `distractors` (0): the share of the other niches, 0 to 1, that hold something which means nothing: a key or a box,
      green or red, or a ball of another colour.

    The option `cue` of `reset` is the turn that is right, 0 or 1.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 -- Gymnasium's own

    def __init__(
        self, length: int = 100, cues: int = 1, distractors: float = 0.0, render_mode: str | None = None
    ) -> None:
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in (length, cues))
        if not whole or not SHORTEST <= length <= LONGEST:
            raise UserError(f"length must be a whole number from {SHORTEST} to {LONGEST:,}, not {length}")
        if cues not in (1, 2):
            raise UserError(f"cues must be 1 or 2, not {cues}")
        if not isinstance(distractors, int | float) or not 0 <= distractors <= 1:
            raise UserError(f"distractors must be a share from 0 to 1, not {distractors}")
        self.length, self.cues, self.distractors, self.render_mode = length, cues, distractors, render_mode
        self.observation_space = gym.spaces.Box(0, 10, (WIDTH, HEIGHT, 3), np.uint8)
        self.action_space: gym.spaces.Discrete = gym.spaces.Discrete(3)  # type: ignore[assignment]
        self._views = [_view(ahead=EMPTY, niche=thing, right=WALL) for thing in THINGS]
        self._end = _view(ahead=WALL, niche=EMPTY, right=EMPTY)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        turn = int(self.np_random.integers(2))
        self.turn = turn if options is None or "cue" not in options else int(options["cue"])
        first = self.turn if self.cues == 1 else int(self.np_random.integers(2))
        corridor = self.length - 1
        self._niches = np.zeros(corridor, np.uint8)  # of `THINGS`
        if self.distractors:
            held = self.np_random.random(corridor) < self.distractors
            held[0] = False
            self._niches[held] = self.np_random.integers(3, len(THINGS), int(held.sum()))
        self._niches[0] = 1 + first
        if self.cues == 2:
            second = first if self.turn == LEFT else 1 - first
            self._niches[self.np_random.integers(1, corridor // 2 + 1)] = 1 + second
        self.place = self.steps = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        if action not in (LEFT, RIGHT, FORWARD):
            raise UserError(f"action must be a whole number from 0 to {FORWARD}, not {action}")
        self.steps += 1
        at_the_end = self.place == self.length - 1
        if not at_the_end and action == FORWARD:
            self.place += 1
        terminated = at_the_end and action != FORWARD
        success = terminated and action == self.turn
        truncated = not terminated and self.steps >= longest_episode(self.length)
        info = {"success": success} if terminated or truncated else {}
        return self._seen(), float(success), terminated, truncated, info

    def _seen(self) -> NDArray[np.uint8]:
        view = self._end if self.place == self.length - 1 else self._views[self._niches[self.place]]
        return view.copy()


def _view(ahead: tuple[int, ...], niche: tuple[int, ...], right: tuple[int, ...]) -> NDArray[np.uint8]:
    view = np.empty((WIDTH, HEIGHT, 3), np.uint8)
    view[:, 0] = WALL
    view[1, 0] = ahead
    view[1, HERE] = EMPTY
    view[NICHE], view[2, HERE] = niche, right
    return view


def longest_episode(length: int) -> int:
    """Steps of an episode at most."""
    return length + SPARE
