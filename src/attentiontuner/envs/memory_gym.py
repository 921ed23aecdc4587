"""The Memory Gym games as environments that one process can hold by the hundred.

The games are those of the `memory-gym` package, unchanged to the pixel; importing this module registers them under
our own ids (`AttentionTuner/MortarMayhem-Grid-v0`, …). What differs from the package:

- The package draws every game on pygame's one display, and `close()` ends pygame for all. Here each game draws on a
  surface of its own and `close()` ends nothing but itself.
- Parameters are keyword arguments of `gym.make` (the package takes them at every reset).
- Searing Spotlights' two 3-way actions are one of 9, a: horizontal a // 3 (none, left, right), vertical a % 3
  (none, up, down).
- `info["success"]` of Mortar Mayhem is true only if the last command, too, was carried out: the package calls an
  episode that fails at its very last command a success.
- An episode that a time limit ended is `truncated`; the package says `terminated`.
"""

import os
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import memory_gym  # noqa: F401 -- registers the package's games
import pygame

Frame = NDArray[np.uint8]
"""`[84, 84, 3]` RGB, indexed [x, y] as the package's frames are: transpose the first two axes to look at one."""

GAMES = ("MortarMayhem-Grid-v0", "MysteryPath-Grid-v0", "SearingSpotlights-v0")

NAMESPACE = "AttentionTuner"

OPAQUE = 255


class MemoryGymEnv(gym.Env[Frame, int]):
    """One Memory Gym game.

    Observations are uint8 `[84, 84, 3]` (see `Frame`), actions `Discrete(4)` (stay, turn left, turn right, forward)
    or `Discrete(9)` (see above). The last step's `info` has `success` (bool) beside what the package reports. All is
    decided by `reset(seed=...)`: neither earlier episodes nor other environments of the process change a pixel.

    Args:
        game: the package's Gymnasium id, one of `GAMES`.
        render_mode: `rgb_array` is the present frame the right way up; `debug_rgb_array` also shows what is hidden.
        settings: the package's reset parameters; where it wants a list to draw from, one value will do.

    Attributes:
        game: the package's environment, for experts to look at.
        settings: the reset parameters of the present episode, complete.
    """

    metadata = {"render_modes": ["rgb_array", "debug_rgb_array"], "render_fps": 6}  # noqa: RUF012 -- Gymnasium's own

    def __init__(self, game: str, render_mode: str | None = None, **settings: Any) -> None:
        self.game = _package_game(game)
        self.render_mode = render_mode
        self._screen = _screen(self.game.screen_dim)
        self.game.screen = self._screen
        self.game._draw_surfaces = self._draw
        self.observation_space = self.game.observation_space
        self._two_actions = isinstance(self.game.action_space, gym.spaces.MultiDiscrete)
        self.action_space: Any = gym.spaces.Discrete(9 if self._two_actions else 4)
        self._settings = dict(settings)
        self.settings = self._checked({})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Start an episode; `options` replaces settings for this episode only."""
        super().reset(seed=seed)
        self.settings = self._checked(options or {})
        _need_display()
        self.game.reset(seed=seed, options=self.settings)
        return self._frame(), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """One step: the frame after it, reward, terminated, truncated, info."""
        _need_display()
        number = int(action)
        # A fresh list each time: Searing Spotlights keeps it to draw at the next step.
        _, reward, done, _, info = self.game.step([number // 3, number % 3] if self._two_actions else number)
        truncated = False
        if done:
            info = {**info, "success": bool(info["success"]) and self._last_command_done()}
            truncated = not info["success"] and self._out_of_time()
        return self._frame(), float(reward), bool(done and not truncated), truncated, info

    def render(self) -> Any:
        """The present frame `[84, 84, 3]`, indexed [y, x]; or the package's 336-pixel view of everything hidden."""
        if self.render_mode == "rgb_array":
            return self._frame().transpose(1, 0, 2)
        if self.render_mode == "debug_rgb_array":
            _need_display()
            return pygame.surfarray.array3d(self.game._build_debug_surface()).transpose(1, 0, 2)
        return None

    def close(self) -> None:
        """Nothing to end: pygame stays for the other environments."""

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The complete reset parameters; unknown names and values out of range are refused."""
        defaults: dict[str, Any] = type(self.game).default_reset_parameters
        given = {**self._settings, **options}
        for name, value in given.items():
            if name not in defaults:
                raise UserError(f"there is no setting {name!r}; there are {', '.join(defaults)}")
            if isinstance(defaults[name], list) and not isinstance(value, (list, tuple)):
                given[name] = [value]
        try:
            complete: dict[str, Any] = type(self.game).process_reset_params(given)
        except (AssertionError, TypeError) as error:
            raise UserError(f"a setting is out of the game's range: {given} {error}") from error
        return complete

    def _draw(self, surfaces: list[tuple[Any, Any]]) -> None:
        """What the package calls to draw a frame, back to front; the background covers the whole of our surface."""
        for surface, place in surfaces:
            if surface is None:
                continue
            if surface.get_alpha() == OPAQUE:
                # The same pixels as with alpha 255, 50 times as fast.
                surface.set_alpha(None)
                self._screen.blit(surface, place)
                surface.set_alpha(OPAQUE)
            else:
                self._screen.blit(surface, place)

    def _frame(self) -> Frame:
        """A copy of our surface. `surfarray.array3d` gives the same and takes five times as long."""
        width, height = self._screen.get_size()
        shifts = self._screen.get_shifts()
        rows = pygame.surfarray.pixels2d(self._screen).T
        pixels = rows.view(np.uint8).reshape(height, width, 4).transpose(1, 0, 2)
        frame = np.empty((width, height, 3), np.uint8)
        for channel in range(3):
            frame[:, :, channel] = pixels[:, :, shifts[channel] // 8]
        return frame

    def _last_command_done(self) -> bool:
        target = getattr(self.game, "_target_pos", None)
        return target is None or self.game.normalized_agent_position == target

    def _out_of_time(self) -> bool:
        """Whether the step limit ended the episode: the games with one count `t`, and a dead agent has no health."""
        alive = getattr(self.game, "current_agent_health", 1) > 0
        return alive and getattr(self.game, "t", 0) >= self.game.max_episode_steps


def _screen(side: int) -> Any:
    """A square surface to draw on. It is the right part of a wider one because SDL copies rows that begin at multiples
    of 16 bytes past the processor's cache, which makes drawing and reading small frames ten times as slow."""
    return pygame.Surface((side + 1, side)).subsurface((1, 0, side, side))


def _package_game(game: str) -> Any:
    """The package's environment. It asks for a display of its own size, which others of that package may be using."""
    display = pygame.display.get_surface() if pygame.display.get_init() else None
    in_use = display is not None and display.get_size() != (1, 1)
    made = gym.make(game, disable_env_checker=True).unwrapped
    if not in_use:
        _shrink_display()
    return made


def _shrink_display() -> None:
    """Nobody looks at the display, but the package copies it at every step: one pixel is quick to copy."""
    pygame.display.set_mode((1, 1), pygame.NOFRAME)


def _need_display() -> None:
    """Bring pygame back where somebody else's `close()` ended it."""
    if not pygame.display.get_init() or pygame.display.get_surface() is None:
        pygame.init()
        _shrink_display()


for _game in GAMES:
    gym.register(
        id=f"{NAMESPACE}/{_game}", entry_point="attentiontuner.envs.memory_gym:MemoryGymEnv", kwargs={"game": _game}
    )
