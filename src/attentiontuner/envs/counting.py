"""LTMB Counting: leave a query room by the door that says how often its object was seen."""

from typing import Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.envs.ltmb import LTMBEnv, check_frequency, check_length
from attentiontuner.envs.world import EMPTY, OBJECTS, Codes, closed_door, walled

SLOTS = ((1, 1), (3, 1), (1, 2), (3, 2), (1, 3), (3, 3))
GALLERY_DOOR = (2, 0)
QUERY_OBJECT = (2, 1)
QUERY_DOORS = (((1, 0), "green"), ((3, 0), "red"), ((0, 2), "yellow"))
"""Place and colour of the door for remainder 0, 1 and, with modulus 3, 2."""

_SLOTS_X, _SLOTS_Y = (list(places) for places in zip(*SLOTS, strict=True))
_OBJECTS_AND_EMPTY: Codes = np.vstack([OBJECTS, np.array([EMPTY], np.uint8)])  # the index −1 is an empty place


class CountingEnv(LTMBEnv):
    """
    ## Description

    The agent passes through `length` rooms of 5×5 cells. It enters each at (2, 3), facing north.

    - A gallery has six places for objects, (1, 1), (1, 2), (1, 3), (3, 1), (3, 2) and (3, 3). Each is empty with
      probability `empty_freq` and otherwise holds an object of random shape and colour. The way on is the blue door
      at (2, 0).
    - A query room has one random object at (2, 1), a green door at (1, 0) and a red door at (3, 0). Green is right when
      the galleries so far held an even number of objects of that shape and colour (none is even), red when odd.

    The first room is a gallery; every other is a query room with probability `test_freq`. The object of a query room is
    not counted.

    With `modulus` 3 a query room has a third door, yellow, at (0, 2) in the west wall, and nothing else changes: with n
    objects seen, green is right when n mod 3 = 0, red when 1, yellow when 2. The agent reaches the yellow door over
    (2, 2) and (1, 2), so that the first step already tells the three ways apart: left, right or forward.

    What has to be remembered: every gallery that held the object of the query room, and how many of them it held.

    ## Mission Space

    - "take the green door if this shape and colour appeared an even number of times, else the red"
    - With modulus 3: "count this shape and colour in threes, nothing left over is green, one is red, two is yellow"

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

    A box that vanished stays counted.

    ## Observation Encoding

    Minigrid's: `image` is uint8 [7, 7, 3], the cells ahead of the agent (itself at [3, 6]) as
    (OBJECT_IDX, COLOR_IDX, STATE), with walls outside the room; `direction`; `mission`.

    ## Rewards

    1 for passing the last room's right door, 0 otherwise.

    ## Termination

    1. Entering a wrong door ends the episode, a failure.
    2. Entering the right door of the last room ends it, a success.
    3. After 7 · length steps the episode is cut off, a failure wherever the agent is.

    `info["success"]` of the last step says which.

    ## Settings

    - `length` (20): rooms, 1 to 10000.
    - `test_freq` (0.3): probability of a query room, 0 to 1.
    - `empty_freq` (0.1): probability of an empty place, 0 to 1.
    - `modulus` (2): doors of a query room, 2 (the paper's) or 3.

    Any other keyword is one of `MiniGridEnv` (`render_mode`, `tile_size`, `agent_pov`, …).

    ## Registered Configurations

    - `LTMB-Counting-v0`
    """

    def __init__(
        self, length: int = 20, test_freq: float = 0.3, empty_freq: float = 0.1, modulus: int = 2, **kwargs: Any
    ) -> None:
        self.length = check_length(length, longest=10_000)
        self.test_freq = check_frequency("test_freq", test_freq)
        self.empty_freq = check_frequency("empty_freq", empty_freq)
        if modulus not in (2, 3):
            raise UserError(f"modulus must be 2 or 3, not {modulus!r}")
        self.modulus = int(modulus)
        mission = self._gen_mission if modulus == 2 else self._gen_mission_of_three
        super().__init__(mission=mission, width=5, height=5, max_steps=7 * self.length, **kwargs)
        self._gallery: Codes = walled(5, 5)
        self._gallery[GALLERY_DOOR] = closed_door("blue")
        self._query_room: Codes = walled(5, 5)
        for place, colour in QUERY_DOORS[: self.modulus]:
            self._query_room[place] = closed_door(colour)

    @staticmethod
    def _gen_mission() -> str:
        return "take the green door if this shape and colour appeared an even number of times, else the red"

    @staticmethod
    def _gen_mission_of_three() -> str:
        return "count this shape and colour in threes, nothing left over is green, one is red, two is yellow"

    def _draw_episode(self) -> None:
        """Draw all rooms: which are queries `[length]`, their objects `[length]`, the galleries `[length][6]`.

        A place of a gallery is an object (0 … 17) or −1 where it is empty.
        """
        rng, length = self.np_random, self.length
        is_query = rng.random(length) < self.test_freq
        is_query[0] = False
        self._is_query: list[bool] = is_query.tolist()
        self._queries: list[int] = rng.integers(len(OBJECTS), size=length).tolist()
        things = rng.integers(len(OBJECTS), size=(length, len(SLOTS)))
        empty = rng.random(things.shape) < self.empty_freq
        self._galleries: list[list[int]] = np.where(empty, -1, things).tolist()

    def _gen_grid(self, width: int, height: int) -> None:
        self._draw_episode()
        self._counts = [0] * len(OBJECTS)
        self._enter_room(0)

    def _enter_room(self, room: int) -> None:
        self.room = room
        self.agent_pos = (2, 3)
        self.agent_dir = 3
        if self._is_query[room]:
            thing = self._queries[room]
            self._right_door = QUERY_DOORS[self._counts[thing] % self.modulus][0]
            self._build_query_room(thing)
        else:
            things = self._galleries[room]
            self._right_door = GALLERY_DOOR
            for thing in things:
                if thing >= 0:
                    self._counts[thing] += 1
            self._build_gallery(things)

    def _build_query_room(self, thing: int) -> None:
        self.cells[:] = self._query_room
        self.cells[QUERY_OBJECT] = OBJECTS[thing]
        self._world_changed()

    def _build_gallery(self, things: list[int]) -> None:
        self.cells[:] = self._gallery
        self.cells[_SLOTS_X, _SLOTS_Y] = _OBJECTS_AND_EMPTY[things]
        self._world_changed()

    def _judge(self, action: int) -> bool | None:
        x, y = self.agent_pos
        if x > 0 and y > 0:
            return None  # inside the room: the cells of its walls that one can enter are doors
        if self.agent_pos != self._right_door:
            return False
        if self.room == self.length - 1:
            return True
        self._enter_room(self.room + 1)
        return None

    def _payoff(self, success: bool) -> float:
        return 1.0 if success else 0.0
