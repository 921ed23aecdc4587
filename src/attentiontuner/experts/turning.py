"""How a figure that can only turn and walk forward gets to the next cell (Memory Gym's grid games)."""

STAY, LEFT, RIGHT, FORWARD = range(4)
"""The four actions."""

Cell = tuple[int, int]
"""(x, y), y growing downwards."""

HEADINGS: tuple[Cell, ...] = ((0, -1), (-1, 0), (0, 1), (1, 0))
"""Up, left, down, right: a left turn is the next of these, a right turn the one before."""


def turns(heading: int, wanted: int) -> int:
    """How many turns it takes from one heading to another: 0, 1 or 2."""
    left = (wanted - heading) % 4
    return min(left, 4 - left)


def towards(heading: int, wanted: int) -> int:
    """The next action of who wants to go that way: forward once it faces there, turns before (half turns leftwards)."""
    return (FORWARD, LEFT, LEFT, RIGHT)[(wanted - heading) % 4]


def turned(heading: int, action: int) -> int:
    """The heading after an action."""
    return (heading + (0, 1, -1, 0)[action]) % 4


def neighbour(cell: Cell, heading: int) -> Cell:
    """The cell one step that way."""
    return cell[0] + HEADINGS[heading][0], cell[1] + HEADINGS[heading][1]
