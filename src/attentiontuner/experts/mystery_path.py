"""Mystery Path: find a path nobody shows, by falling off it."""

from collections import deque
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision
from attentiontuner.experts.turning import STAY, Cell, neighbour, towards

SIDE = 7
"""Cells on each side of the board."""


class MysteryPathExpert:
    """Walks what it knows of the path to the newest cell that has an untried neighbour, and tries that neighbour.

    Among untried neighbours it tries those away from the border it started at first, then those along that border
    (towards the side with more room first), then those back. (From a corner, away is two ways.) After a fall it is put
    back at the start and walks the known cells by the shortest way. Where it goes next depends only on which cells it
    has been on or fallen into, and in what order, so that it can be imitated.

    It reads from the simulator what the screen shows at every step: the cell the agent is on, the way it faces, and
    whether it lies beside the path (the red cross). Recalled at each step: the step at which each known neighbour of
    the present cell was first stood on or fallen into. While it lies beside the path there is nothing to decide.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._game: Any = env.unwrapped.game  # type: ignore[attr-defined]
        self._step = -1
        self._path: dict[Cell, int] = {}
        """Cells known to be on the path → step at which it first stood there."""
        self._off: dict[Cell, int] = {}
        """Cells known to be beside the path → step at which it lay there."""

    def decide(self, observation: NDArray[Any]) -> Decision:
        """The decision at the next step."""
        self._step += 1
        x, y = self._game.agent.grid_position
        cell = (int(x), int(y))
        if self._game.is_off_path:
            self._off[cell] = self._step
            return Decision(STAY)
        self._path.setdefault(cell, self._step)
        known = [self._path.get(beside, self._off.get(beside)) for beside in _beside(cell).values()]
        recalled = sorted(step for step in known if step is not None)
        return Decision(towards(self._game.agent.rotation // 90, self._way(cell)), recalled)

    def _way(self, cell: Cell) -> int:
        """The heading in which to leave `cell`."""
        open_cells = [c for c in self._path if self._untried(c)]
        goal = max(open_cells, key=self._path.__getitem__)
        if goal == cell:
            return min(self._untried(cell), key=lambda heading: self._order(cell, heading))
        return self._shortest(cell, goal)

    def _untried(self, cell: Cell) -> list[int]:
        """The headings that lead from `cell` to cells it knows nothing about."""
        return [h for h, beside in _beside(cell).items() if beside not in self._path and beside not in self._off]

    def _order(self, cell: Cell, heading: int) -> tuple[int, int, int]:
        """What is tried first: smaller comes earlier."""
        start = next(iter(self._path))
        away = [h for h in range(4) if neighbour(start, (h + 2) % 4) not in _BOARD]
        rank = 0 if heading in away else 2 if (heading + 2) % 4 in away else 1
        room = (cell[1], cell[0], SIDE - 1 - cell[1], SIDE - 1 - cell[0])[heading]
        return rank, -room, heading

    def _shortest(self, cell: Cell, goal: Cell) -> int:
        """The first heading of the shortest way from `cell` to `goal` over known cells, newer cells first."""
        distance = {goal: 0}
        queue = deque([goal])
        while queue:
            here = queue.popleft()
            for beside in _beside(here).values():
                if beside in self._path and beside not in distance:
                    distance[beside] = distance[here] + 1
                    queue.append(beside)
        ways = [(distance[c], -self._path[c], h) for h, c in _beside(cell).items() if c in distance]
        return min(ways)[2]


_BOARD = {(x, y) for x in range(SIDE) for y in range(SIDE)}


def _beside(cell: Cell) -> dict[int, Cell]:
    """Heading → the neighbour of `cell` that way, where the board has one."""
    cells = {heading: neighbour(cell, heading) for heading in range(4)}
    return {heading: beside for heading, beside in cells.items() if beside in _BOARD}
