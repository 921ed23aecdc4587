"""The world as an array of Minigrid's codes: what the cells mean, the agent's view of them, and their `Grid`.

A code is three bytes (kind, colour, state), a world is uint8 `[W, H, 3]` indexed [x, y].
"""

from typing import Any

import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj
from numpy.typing import NDArray

Codes = NDArray[np.uint8]

UNSEEN, EMPTY_KIND, WALL_KIND, DOOR_KIND, BOX_KIND = (
    OBJECT_TO_IDX[kind] for kind in ("unseen", "empty", "wall", "door", "box")
)
OPEN, CLOSED = STATE_TO_IDX["open"], STATE_TO_IDX["closed"]

EMPTY = (EMPTY_KIND, 0, 0)
WALL = (WALL_KIND, COLOR_TO_IDX["grey"], 0)

COLOURS = len(COLOR_TO_IDX)
OBJECTS: Codes = np.array(
    [(OBJECT_TO_IDX[shape], colour, 0) for shape in ("key", "ball", "box") for colour in range(COLOURS)], np.uint8
)
"""`[18, 3]`: the codes of all objects, object = shape · 6 + colour."""
OBJECTS.setflags(write=False)


def closed_door(colour: str) -> tuple[int, int, int]:
    """The code of a closed door."""
    return (DOOR_KIND, COLOR_TO_IDX[colour], CLOSED)


def walled(width: int, height: int) -> Codes:
    """`[width, height, 3]`: an empty world with walls around it."""
    world = np.full((width, height, 3), WALL, np.uint8)
    world[1:-1, 1:-1] = EMPTY
    return world


def turned(cut: Codes, direction: int) -> Codes:
    """A cut of the world as the agent sees it: ahead is towards [:, 0], its right hand towards [-1, :]."""
    if direction == 0:
        return cut.swapaxes(0, 1)[:, ::-1]
    if direction == 1:
        return cut[::-1, ::-1]
    if direction == 2:
        return cut.swapaxes(0, 1)[::-1]
    return cut


def visible(view: Codes) -> NDArray[np.bool_]:
    """`[v, v]`: which cells of a turned view can be seen from the agent's place, in the middle of the last row.

    Minigrid's rule: walls and doors that are not open hide what is behind them. Light fills a row from each lit cell
    to the next opaque cells on both sides; each lit clear cell lights the three cells ahead of it.
    """
    size = len(view)
    clear = ~((view[..., 0] == WALL_KIND) | ((view[..., 0] == DOOR_KIND) & (view[..., 2] != OPEN)))
    places = np.arange(size)
    clear_rows: list[int] = (clear.T @ (1 << places)).tolist()  # a row of the view is the bits of a number
    lit_rows = [0] * size
    arriving = 1 << (size // 2)
    for row in range(size - 1, -1, -1):
        shining, before = arriving & clear_rows[row], -1
        while shining != before:
            before = shining
            shining |= (shining << 1 | shining >> 1) & clear_rows[row]
        spread = shining | shining << 1 | shining >> 1
        lit_rows[row] = arriving | spread
        arriving = spread
    seen: NDArray[np.bool_] = (np.array(lit_rows)[None, :] >> places[:, None] & 1).astype(bool)
    return seen


class WorldGrid(Grid):  # type: ignore[misc]  # Minigrid is not typed
    """Minigrid's objects for a world of codes: made when somebody asks for `env.grid`.

    The array stays the truth. `set` writes through to it; changing an object taken from the grid does not.
    """

    def __init__(self, cells: Codes) -> None:
        super().__init__(*cells.shape[:2])
        self._cells = cells
        for x, y in np.argwhere(cells[..., 0] != EMPTY_KIND).tolist():
            self.show(x, y, cells[x, y])

    def set(self, i: int, j: int, v: WorldObj | None) -> None:
        super().set(i, j, v)
        self._cells[i, j] = EMPTY if v is None else v.encode()

    def show(self, x: int, y: int, code: Any) -> None:
        """Put the object that the code stands for into cell (x, y)."""
        thing = WorldObj.decode(*(int(part) for part in code))
        if thing is not None:
            thing.init_pos = thing.cur_pos = (x, y)
        super().set(x, y, thing)

    def render(
        self,
        tile_size: int,
        agent_pos: tuple[int, int],
        agent_dir: int | None = None,
        highlight_mask: NDArray[np.bool_] | None = None,
    ) -> Codes:
        """Minigrid's picture, uint8 `[H · tile_size, W · tile_size, 3]`; each kind of tile is drawn once."""
        shape = (self.width, self.height)
        lit = np.zeros(shape, bool) if highlight_mask is None else highlight_mask
        looks = np.column_stack([self._cells.reshape(-1, 3), lit.reshape(-1)])
        weights = np.array([2 << 16, 2 << 8, 2, 1])
        _, first, kinds = np.unique(looks @ weights, return_index=True, return_inverse=True)
        tiles = np.stack(
            [
                Grid.render_tile(WorldObj.decode(*looks[at, :3].tolist()), None, bool(looks[at, 3]), tile_size)
                for at in first
            ]
        ).astype(np.uint8)
        picture: Codes = tiles[kinds.reshape(shape).T].swapaxes(1, 2).reshape(*(tile_size * n for n in shape[::-1]), 3)
        x, y = (int(place) for place in agent_pos)
        if 0 <= x < self.width and 0 <= y < self.height:
            tile = Grid.render_tile(self.get(x, y), agent_dir, bool(lit[x, y]), tile_size)
            picture[y * tile_size : (y + 1) * tile_size, x * tile_size : (x + 1) * tile_size] = tile
        return picture
