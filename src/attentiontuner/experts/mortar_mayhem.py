"""Mortar Mayhem: watch ten commands, then carry them out one by one."""

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision
from attentiontuner.experts.turning import FORWARD, HEADINGS, STAY, Cell, towards, turned, turns

WHITE = 255
"""Blue channel of a command symbol; nothing else on the screen is pure white (the agent's hands are 250)."""

BURNING = 81
"""Red channel of a burning tile; nothing else on the screen has this value."""

SYMBOL = slice(31, 63)
"""Where command symbols are drawn, in pixels of both axes; the slanted ones reach further than the straight ones."""


class MortarMayhemExpert:
    """Stays while commands are shown; then turns towards each command's tile, steps on it, and stays until told.

    It reads nothing but the observations: the symbol in the middle of the screen, and whether tiles burn. It knows
    the rules: that it starts facing up, how long a command is shown, and how long the pause between two commands is.
    When a pause lasts longer, the showing is over and the first command is due; each of the others is due when the
    fire of the one before is out.

    Recalled at each step of carrying out a command: the first observation that showed it. Carrying out ends with the
    step onto the tile, or, where the command is to stay, when the tiles begin to burn.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        settings: dict[str, Any] = env.unwrapped.settings  # type: ignore[attr-defined]
        self._duration, self._pause = max(settings["command_show_duration"]), max(settings["command_show_delay"])
        self._step = -1
        self._commands: list[tuple[int, Cell]] = []
        """(step at which it was first seen, offset of its tile) of every command."""
        self._due = -1
        """Number of the command to carry out; -1 while commands are shown."""
        self._way_to_go: Cell = (0, 0)
        self._shown: Cell | None = None
        self._shown_for = 0
        self._was_burning = False
        self._heading = 0

    def decide(self, observation: NDArray[Any]) -> Decision:
        """The decision at the next step."""
        self._step += 1
        if self._due < 0:
            self._watch(observation)
            if self._due < 0:
                return Decision(STAY)
        burning = bool((observation[::4, ::4, 0] == BURNING).any())  # tiles are 14 pixels wide: every one is looked at
        if self._was_burning and not burning:
            self._begin(self._due + 1)
        self._was_burning = burning
        if burning or self._due >= len(self._commands):
            return Decision(STAY)
        return self._carry_out(*self._commands[self._due])

    def _watch(self, observation: NDArray[Any]) -> None:
        """Note a command that is new on the screen; see when the showing is over."""
        shown = _symbols()[(observation[SYMBOL, SYMBOL, 2] == WHITE).tobytes()]
        if shown != self._shown or (shown is not None and self._shown_for == self._duration):
            self._shown, self._shown_for = shown, 0
            if shown is not None:
                self._commands.append((self._step, shown))
        self._shown_for += 1
        if shown is None and self._shown_for > self._pause:
            self._begin(0)

    def _begin(self, number: int) -> None:
        self._due = number
        if number < len(self._commands):
            self._way_to_go = self._commands[number][1]

    def _carry_out(self, seen: int, offset: Cell) -> Decision:
        """The next action of the due command, seen first at step `seen`."""
        if offset == (0, 0):
            return Decision(STAY, (seen,))
        x, y = self._way_to_go
        open_ways = [n for n, (dx, dy) in enumerate(HEADINGS) if x * dx > 0 or y * dy > 0]
        if not open_ways:
            return Decision(STAY)
        wanted = min(open_ways, key=lambda way: turns(self._heading, way))
        action = towards(self._heading, wanted)
        self._heading = turned(self._heading, action)
        if action == FORWARD:
            self._way_to_go = (x - HEADINGS[wanted][0], y - HEADINGS[wanted][1])
        return Decision(action, (seen,))


@cache
def _symbols() -> dict[bytes, Cell | None]:
    """Pure white pixels inside `SYMBOL` → offset of the tile that this symbol means; None where there is no symbol."""
    import pygame
    from memory_gym.pygame_assets import Command

    size = SYMBOL.stop - SYMBOL.start
    symbols: dict[bytes, Cell | None] = {}
    for name, offset in {"": None, **Command.COMMANDS}.items():
        drawn = pygame.surfarray.array3d(Command(name, 0.25).surface)[:, :, 2] == WHITE
        white = np.zeros((size, size), np.bool_)
        white[: len(drawn), : drawn.shape[1]] = drawn[:size, :size]
        symbols[white.tobytes()] = offset
    return symbols
