"""LTMB Ordering: of two objects, pick the one that was shown earlier."""

from typing import Any

from attentiontuner.envs.ltmb import LEFT, RIGHT, LTMBEnv, check_length
from attentiontuner.envs.world import EMPTY, OBJECTS

SHOWN = len(OBJECTS)
"""Steps of the first phase: one for each of the 18 objects."""


class OrderingEnv(LTMBEnv):
    """
    ## Description

    The agent stands still at (3, 6) of an empty 7×7 room and faces north. In steps 0 to 17 the 18 objects (every
    shape in every colour) appear at (3, 3), one a step, in random order. In each of the `length` steps after that,
    two different ones stand at (2, 3) and (4, 3), and the agent picks the one that appeared earlier.

    What has to be remembered: the steps at which the two objects were shown.

    ## Mission Space

    "remember the order of eighteen objects, then always pick of two the one that was shown first"

    ## Action Space

    | Num | Name    | Action                                            |
    |-----|---------|---------------------------------------------------|
    | 0   | left    | Pick the left object                              |
    | 1   | right   | Pick the right object                             |
    | 2–6 | others  | Nothing; where a choice is due, a wrong answer    |

    The agent never moves or turns. While objects are shown, every action only lets time pass.

    ## Observation Encoding

    Minigrid's: `image` is uint8 [7, 7, 3], the whole room (the agent at [3, 6]) as (OBJECT_IDX, COLOR_IDX, STATE);
    `direction`; `mission`.

    ## Rewards

    1 for the last right pick, −1 for a wrong one, 0 otherwise.

    ## Termination

    1. A wrong pick ends the episode, a failure.
    2. After `length` right picks (18 + length steps) it ends as a success.

    `info["success"]` of the last step says which. An episode is never cut off.

    ## Settings

    - `length` (50): choices, 1 to 10000.

    Any other keyword is one of `MiniGridEnv` (`render_mode`, `tile_size`, `agent_pov`, …).

    ## Registered Configurations

    - `LTMB-Ordering-v0`
    """

    def __init__(self, length: int = 50, **kwargs: Any) -> None:
        self.length = check_length(length, longest=10_000)
        super().__init__(mission=self._gen_mission, width=7, height=7, max_steps=SHOWN + self.length, **kwargs)

    @staticmethod
    def _gen_mission() -> str:
        return "remember the order of eighteen objects, then always pick of two the one that was shown first"

    def _draw_episode(self) -> None:
        """Draw the order (a list of the 18 objects) and the choices (lists of `length` left and right objects)."""
        rng = self.np_random
        self._order: list[int] = rng.permutation(SHOWN).tolist()
        left = rng.integers(SHOWN, size=self.length)
        right = (left + rng.integers(1, SHOWN, size=self.length)) % SHOWN  # any but the left one
        self._left: list[int] = left.tolist()
        self._right: list[int] = right.tolist()
        self._shown_at = {thing: step for step, thing in enumerate(self._order)}

    def _gen_grid(self, width: int, height: int) -> None:
        self._draw_episode()
        self.cells[:] = EMPTY
        self.agent_pos = (3, 6)
        self.agent_dir = 3
        self._show(0)

    def _show(self, step: int) -> None:
        """Set the room as it is before step `step`."""
        if step < SHOWN:
            self._put(3, 3, OBJECTS[self._order[step]])
            return
        if step == SHOWN:
            self._put(3, 3, EMPTY)
        self._put(2, 3, OBJECTS[self._left[step - SHOWN]])
        self._put(4, 3, OBJECTS[self._right[step - SHOWN]])

    def _move(self, action: int) -> None:
        pass

    def _judge(self, action: int) -> bool | None:
        choice = min(self.step_count - 1 - SHOWN, self.length - 1)  # steps after the end repeat the last choice
        if choice >= 0:
            left_first = self._shown_at[self._left[choice]] < self._shown_at[self._right[choice]]
            if action != (LEFT if left_first else RIGHT):
                return False
            if choice == self.length - 1:
                return True
        self._show(self.step_count)
        return None

    def _payoff(self, success: bool) -> float:
        return 1.0 if success else -1.0
