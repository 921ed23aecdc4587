"""A Minigrid environment that keeps its world as an array and cuts observations out of it."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, SupportsInt

import numpy as np
from minigrid.core.actions import Actions
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.minigrid_env import MiniGridEnv

from attentiontuner.core.errors import UserError
from attentiontuner.envs.world import (
    BOX_KIND,
    CLOSED,
    DOOR_KIND,
    EMPTY,
    EMPTY_KIND,
    OPEN,
    UNSEEN,
    WALL,
    Codes,
    WorldGrid,
    turned,
    visible,
)

STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""One step east, south, west, north: Minigrid's directions 0 to 3."""

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = (int(action) for action in Actions)


def check_length(length: object, longest: int) -> int:
    """`length` as an int; refuses anything but a whole number from 1 to `longest`."""
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or not 1 <= length <= longest:
        raise UserError(f"length must be a whole number from 1 to {longest}, not {length!r}")
    return int(length)


def check_frequency(name: str, value: object) -> float:
    """`value` as a float; refuses anything but a number from 0 to 1."""
    if not isinstance(value, int | float | np.integer | np.floating) or not 0 <= value <= 1:
        raise UserError(f"{name} must be a number from 0 to 1, not {value!r}")
    return float(value)


class LTMBEnv(MiniGridEnv):  # type: ignore[misc]  # Minigrid is not typed
    """What the LTMB environments share.

    To callers it is a `MiniGridEnv`: spaces, actions, rendering, wrappers and `gen_obs` are Minigrid's. Inside, the
    world is an array of codes with walls around it, an observation is a turned cut of that array, and Minigrid's
    objects exist only after somebody asked for `env.grid` (rendering and some wrappers do).

    As in Minigrid's own memory task nothing can be carried: `pickup` does what `toggle` does (a door opens or closes,
    a box vanishes), `drop` and `done` only let time pass.

    A task writes `_gen_grid`, `_judge` and `_payoff`. `info["success"]` of the last step is a bool.
    """

    agent_pos: tuple[int, int]
    agent_dir: int
    _padding: int  # cells of wall around the world, as many as a view can reach beyond it
    _world: Codes  # [W + 2 · padding, H + 2 · padding, 3]
    _grid: WorldGrid | None  # None until somebody asks for it

    def __init__(self, *, mission: Callable[[], str], width: int, height: int, max_steps: int, **kwargs: Any) -> None:
        kwargs.setdefault("see_through_walls", True)
        super().__init__(
            mission_space=MissionSpace(mission_func=mission),
            width=width,
            height=height,
            max_steps=max_steps,
            **kwargs,
        )

    # --- the world ---

    @property
    def cells(self) -> Codes:
        """`[W, H, 3]`: a writable window on the world. Who writes through it calls `_world_changed` afterwards."""
        pad = self._padding
        return self._world[pad:-pad, pad:-pad]

    def _world_changed(self) -> None:
        self._grid = None

    def _put(self, x: int, y: int, code: tuple[int, int, int] | Codes) -> None:
        self._world[x + self._padding, y + self._padding] = code
        if self._grid is not None:
            self._grid.show(x, y, code)

    @property
    def grid(self) -> WorldGrid:
        """The world as Minigrid's objects."""
        if self._grid is None:
            self._grid = WorldGrid(self.cells)
        return self._grid

    @grid.setter
    def grid(self, grid: Grid) -> None:
        self._padding = self.agent_view_size - 1
        around = 2 * self._padding
        self._world = np.full((grid.width + around, grid.height + around, 3), WALL, np.uint8)
        self.cells[:] = grid.encode() if any(grid.grid) else EMPTY
        self._grid = None

    def __getstate__(self) -> dict[str, Any]:
        # The objects of `grid` write into the array they were made from; a copy of the environment makes its own.
        return {**self.__dict__, "_grid": None}

    # --- an episode ---

    @abstractmethod
    def _gen_grid(self, width: int, height: int) -> None:
        """Draw a new episode from `self.np_random`; set the cells, `agent_pos` and `agent_dir`."""

    @abstractmethod
    def _judge(self, action: int) -> bool | None:
        """After the agent has moved: True ends the episode as solved, False as failed, None goes on."""

    @abstractmethod
    def _payoff(self, success: bool) -> float:
        """The reward of the step that ends the episode."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        super(MiniGridEnv, self).reset(seed=seed)  # only the generator; Minigrid's own reset asks for the grid
        self.carrying = None
        self.step_count = 0
        self._gen_grid(self.width, self.height)
        self._world_changed()
        if self.render_mode == "human":
            self.render()
        return self.gen_obs(), {}

    def step(self, action: SupportsInt) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        action = int(action)
        if not 0 <= action <= DONE:
            raise UserError(f"action must be a whole number from 0 to {DONE}, not {action}")
        self.step_count += 1
        self._move(action)
        success = self._judge(action)
        terminated = success is not None
        truncated = not terminated and self.step_count >= self.max_steps
        reward = 0.0 if success is None else self._payoff(success)
        info = {"success": bool(success)} if terminated or truncated else {}
        if self.render_mode == "human":
            self.render()
        return self.gen_obs(), reward, terminated, truncated, info

    def _move(self, action: int) -> None:
        """What Minigrid does with the action, given that nothing can be carried."""
        if action == LEFT:
            self.agent_dir = (self.agent_dir - 1) % 4
        elif action == RIGHT:
            self.agent_dir = (self.agent_dir + 1) % 4
        elif action in (FORWARD, TOGGLE, PICKUP):
            dx, dy = STEPS[self.agent_dir]
            x, y = self.agent_pos[0] + dx, self.agent_pos[1] + dy
            kind, colour, state = self._world[x + self._padding, y + self._padding].tolist()
            if action == FORWARD:
                if kind == EMPTY_KIND or (kind == DOOR_KIND and state == OPEN):
                    self.agent_pos = (x, y)
            elif kind == DOOR_KIND:
                self._put(x, y, (kind, colour, CLOSED if state == OPEN else OPEN))
            elif kind == BOX_KIND:
                self._put(x, y, EMPTY)

    def render(self) -> Any:
        """Minigrid's picture: uint8 `[height, width, 3]` with render mode `rgb_array`, a window with `human`."""
        with warnings.catch_warnings():
            # Minigrid looks its font up by file name; the default font it then gets is the one it meant.
            warnings.filterwarnings("ignore", message="The system font")
            return super().render()

    def gen_obs(self) -> dict[str, Any]:
        """Minigrid's observation: `image` uint8 `[7, 7, 3]`, `direction`, `mission`. The image is a fresh array."""
        size, direction = self.agent_view_size, self.agent_dir
        half, far = size // 2, size - 1
        # The cut starts at the agent or at `far` or `half` cells before it; the padding of the world is `far`.
        x = int(self.agent_pos[0]) + (far, far - half, 0, far - half)[direction]
        y = int(self.agent_pos[1]) + (far - half, far, far - half, 0)[direction]
        image = turned(self._world[x : x + size, y : y + size], direction).copy()
        if not self.see_through_walls:
            image[~visible(image)] = UNSEEN
        image[half, far] = EMPTY if self.carrying is None else self.carrying.encode()
        return {"image": image, "direction": direction, "mission": self.mission}
