"""LTMB Hallway: find the door behind which the object of the start room lies again."""

from typing import Any

import numpy as np

from attentiontuner.envs.ltmb import LTMBEnv, check_length
from attentiontuner.envs.world import CLOSED, COLOURS, DOOR_KIND, EMPTY, OBJECTS, WALL, Codes, walled


class HallwayEnv(LTMBEnv):
    """
    ## Description

    The agent starts in a small room that holds one object, then walks along a corridor with doors on both sides. An
    object lies behind every door and can be seen through the wall. Exactly one of them equals the object of the start
    room, in shape and colour; the agent opens the door before it and enters. The other objects are random: any shape
    and colour but the target's.

    The world is a square of side 4 · length + 5; mid is its middle row. The agent starts at (2, mid) and faces east, so
    that the target at (1, mid − 1) is behind it. The corridor is row mid. The doors, of random colours, are at
    (7 + 4k, mid ± 1) for k = 0 … length − 1, the objects at (7 + 4k, mid ± 2).

    What has to be remembered: the object of the start room, seen once at the beginning, at every pair of doors.

    ## Mission Space

    "enter the door that hides the same object, in shape and colour, as the one in the start room"

    ## Action Space

    | Num | Name    | Action                                 |
    |-----|---------|----------------------------------------|
    | 0   | left    | Turn left                              |
    | 1   | right   | Turn right                             |
    | 2   | forward | Move forward                           |
    | 3   | pickup  | The same as toggle                     |
    | 4   | drop    | Nothing                                |
    | 5   | toggle  | Open or close a door; a box vanishes   |
    | 6   | done    | Nothing                                |

    ## Observation Encoding

    Minigrid's: `image` is uint8 [7, 7, 3], the cells ahead of the agent (itself at [3, 6]) as
    (OBJECT_IDX, COLOR_IDX, STATE), seen through walls; `direction`; `mission`.

    ## Rewards

    1 − 0.9 · step_count / max_steps for entering the right door, 0 otherwise.

    ## Termination

    1. The agent enters a door cell: the right one is a success, any other a failure.
    2. After 4 · length + 25 steps the episode is cut off, a failure.

    `info["success"]` of the last step says which.

    ## Settings

    - `length` (30): pairs of doors, 1 to 500.

    Any other keyword is one of `MiniGridEnv` (`render_mode`, `tile_size`, `agent_pov`, …).

    ## Registered Configurations

    - `LTMB-Hallway-v0`
    """

    def __init__(self, length: int = 30, tile_size: int = 12, **kwargs: Any) -> None:
        self.length = check_length(length, longest=500)
        side = 4 * self.length + 5
        super().__init__(
            mission=self._gen_mission,
            width=side,
            height=side,
            max_steps=4 * self.length + 25,
            tile_size=tile_size,
            **kwargs,
        )
        self._walls = self._empty_hallway(side)

    @staticmethod
    def _gen_mission() -> str:
        return "enter the door that hides the same object, in shape and colour, as the one in the start room"

    def _empty_hallway(self, side: int) -> Codes:
        """`[side, side, 3]`: the walls. Doors and objects, which every reset draws anew, are missing."""
        world, mid = walled(side, side), side // 2
        world[1:5, [mid - 2, mid + 2]] = WALL
        world[4:-2, [mid - 1, mid + 1]] = WALL
        for x in self._door_columns():
            for outward in (-1, 1):
                for column, row in ((-1, 2), (-1, 3), (0, 3), (1, 3), (1, 2)):
                    world[x + column, mid + outward * row] = WALL
                world[x, mid + outward] = world[x, mid + 2 * outward] = EMPTY
        return world

    def _door_columns(self) -> range:
        return range(7, 7 + 4 * self.length, 4)

    def _draw_episode(self) -> None:
        """Draw the target (0 … 17), the right (pair, side), door colours `[length, 2]` and objects `[length, 2]`."""
        rng, shape = self.np_random, (self.length, 2)
        self._target = int(rng.integers(len(OBJECTS)))
        self._right_door = (int(rng.integers(self.length)), int(rng.integers(2)))
        self._door_colours = rng.integers(COLOURS, size=shape)
        objects = rng.integers(len(OBJECTS), size=shape)
        # A distractor that happens to equal the target takes one of the five other colours.
        other_colours = (self._target + rng.integers(1, COLOURS, size=shape)) % COLOURS
        objects = np.where(objects == self._target, self._target // COLOURS * COLOURS + other_colours, objects)
        objects[self._right_door] = self._target
        self._objects = objects
        pair, side = self._right_door
        self._success_pos = (self._door_columns()[pair], self.height // 2 + (-1, 1)[side])

    def _gen_grid(self, width: int, height: int) -> None:
        self._draw_episode()
        cells, mid = self.cells, height // 2
        cells[:] = self._walls
        cells[1, mid - 1] = OBJECTS[self._target]
        doors = cells[7::4, mid - 1 : mid + 2 : 2]
        doors[..., 0] = DOOR_KIND
        doors[..., 1] = self._door_colours
        doors[..., 2] = CLOSED
        cells[7::4, mid - 2 : mid + 3 : 4] = OBJECTS[self._objects]
        self.agent_pos = (2, mid)
        self.agent_dir = 0

    def _judge(self, action: int) -> bool | None:
        if self.agent_pos[1] == self.height // 2 or self.agent_pos[0] < 7:
            return None  # in the corridor or in the start room: the only other cells one can enter are doors
        return bool(self.agent_pos == self._success_pos)

    def _payoff(self, success: bool) -> float:
        return float(self._reward()) if success else 0.0
