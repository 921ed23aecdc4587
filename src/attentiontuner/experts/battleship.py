"""The expert of POPGym's Battleship."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

UNKNOWN, MISS, HIT = 0, 1, 2

FOR_A_HIT = 8.0
"""How many times as likely a place for a ship is for each hit it covers; of 2 to 64 this needed the fewest shots."""


@cache
def places(side: int, size: int) -> NDArray[np.int64]:
    """Every place of a ship of `size` on a board of `side` × `side`, as numbers of its squares `[n, size]`."""
    square = np.arange(side * side).reshape(side, side)
    rows = np.lib.stride_tricks.sliding_window_view(square, size, axis=1).reshape(-1, size)
    columns = np.lib.stride_tricks.sliding_window_view(square, size, axis=0).reshape(-1, size)
    return np.concatenate([rows, columns])


class BattleshipExpert:
    """Shoots where the most ships can lie: each place of a ship that no miss forbids speaks for its squares, more so
    the more hits it covers; of equal squares the first.

    It recalls every earlier step that told of a shot. Which ships there are is a rule, read from `env`; where they lie
    it does not read. Nobody says that a ship is sunk, and ships may touch: play that needs the fewest shots on average
    would have to weigh all boards, and this does not.
    """

    def __init__(self, env: Any) -> None:
        self._side, self._ships = env.unwrapped.board_size, tuple(env.unwrapped.ship_sizes)
        self._board = np.zeros(self._side**2, np.int64)
        self._step = -1

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        hit, row, column = (int(part.argmax()) for part in np.split(observation, [2, 3 + self._side]))
        if row:
            self._board[(row - 1) * self._side + column - 1] = HIT if hit else MISS
        target = int(np.where(self._board == UNKNOWN, self._likely(), -1.0).argmax())
        return Decision(np.array(divmod(target, self._side)), range(1, self._step))

    def _likely(self) -> NDArray[np.float64]:
        """How much speaks for each square `[side²]`."""
        likely = np.zeros(self._side**2)
        for size in self._ships:
            squares = places(self._side, size)
            there = self._board[squares]
            weight = np.where((there == MISS).any(1), 0.0, FOR_A_HIT ** (there == HIT).sum(1))
            likely += np.bincount(squares.ravel(), np.repeat(weight, size), len(likely))
        return likely
