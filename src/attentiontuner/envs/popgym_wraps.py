"""What POPGym's games leave out of what is seen, or of what is told at their end; docs/tasks/popgym.md: their rules."""

from typing import Any, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

RANKS: Final = 13
OF_A_RANK: Final = 4
"""Cards of each rank in a deck."""

HIGHER, LOWER = 0, 1


def likelier(rank: int, seen: NDArray[np.int64], decks: int) -> int:
    """Whether the next card is rather higher or lower than `rank`, ranks `[13]` of all cards up to it having been seen
    so often; equally likely: higher."""
    left = OF_A_RANK * decks - seen
    return HIGHER if left[rank + 1 :].sum() >= left[:rank].sum() else LOWER


class BesideCounter(gym.Wrapper[Any, Any, Any, Any]):
    """HigherLower that says at its end whether it was solved: with a return at least that of somebody who counts cards
    and always guesses what is likelier. What comes next depends on nobody's guesses, so both saw the same cards."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self.rank, self.behind = int(observation), 0
        self.seen = np.bincount([self.rank], minlength=RANKS)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        counted = likelier(self.rank, self.seen, self.unwrapped.num_decks)  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.behind += self._right(counted, int(observation)) - self._right(int(action), int(observation))
        self.rank = int(observation)
        self.seen[self.rank] += 1
        if terminated or truncated:
            info = {**info, "success": self.behind <= 0}
        return observation, reward, terminated, truncated, info

    def _right(self, guess: int, following: int) -> int:
        if following == self.rank:
            return 0
        return 1 if (following > self.rank) == (guess == HIGHER) else -1


class LastShot(gym.Wrapper[Any, Any, Any, Any]):
    """Battleship that shows where the last shot went: (hit, row, column), row and column from 1, all 0 before the
    first. POPGym says of this game that its observation needs the previous action."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        side = env.unwrapped.board_size  # type: ignore[attr-defined]
        self.observation_space = gym.spaces.MultiDiscrete([2, side + 1, side + 1])

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        _, info = self.env.reset(**options)
        return np.zeros(3, np.int64), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        hit, reward, terminated, truncated, info = self.env.step(action)
        return np.array([hit, action[0] + 1, action[1] + 1], np.int64), reward, terminated, truncated, info
