"""Searing Spotlights: fetch a coin and leave by the exit in the dark, without being seen."""

from math import dist, sqrt
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

SPARSE_ANNOTATOR = "sparse"
"""Name of the second annotator: only the lit frames, and the frame in which the coin was taken."""

DETOUR_STEPS = 12
"""How many steps of an episode may go into walking around lights."""

CLOSE = 4
"""It turns from the coin to the exit this near to the coin's centre, in pixels. Touching the coin's rim would do, but
who imitates that and is a few pixels wrong about where it is misses the coin."""

BERTH = 1
"""Pixels kept between agent and light."""

Point = tuple[int, int]


class SearingSpotlightsExpert:
    """Walks to the coin and then to the exit, on the diagonal until level with it, then straight.

    It reads from the simulator what a person sees on the screen, when they see it: at step 0, with the lights on,
    where agent, coin and exit are, and never again; at every step the spotlights, which shine in the dark. Where it is
    later it reckons from where it started and what it did: 3 pixels a step straight, 2 and 2 on the diagonal, never
    outside the floor. Where its next step would end in a light while the goal can be touched outside that light, it
    takes the unlit step that brings it nearest to the goal, on at most `DETOUR_STEPS` steps of an episode. In a light
    it does not go to the middle of the coin: its rim will do.

    Recalled at step q: everything, steps 0 … q − 1, as it takes all of its actions to know where it is. The annotator
    `sparse` recalls the lit frames and the first frame in which the coin was touched.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        game: Any = env.unwrapped.game  # type: ignore[attr-defined]
        self._game = game
        self._floor = _shrunk(game.walkable_rect, game.agent.radius)
        speed = game.reset_params["agent_speed"]
        self._straight, self._diagonal = int(speed), int(speed / sqrt(2))
        self._position: Point = game.agent.rect.center
        coins = _nearest_first(self._position, [(coin.location, coin.radius) for coin in game.coins])
        self._goals = [*coins, (game.exit.location, game.exit.radius)]
        """(centre, radius) of what it still has to touch, in order; the last is the exit."""
        self._lit = max(game.reset_params["light_dim_off_duration"], 1)
        self._coin_frames: list[int] = []
        self._touched = False
        self._detours = 0
        self._step = -1

    def decide(self, observation: NDArray[Any]) -> Decision:
        """The decision at the next step."""
        self._step += 1
        self._take_coin()
        action = self._action()
        self._position = self._after(action)
        frames = {*range(min(self._lit, self._step)), *(p for p in self._coin_frames if p < self._step)}
        return Decision(action, range(self._step), {SPARSE_ANNOTATOR: sorted(frames)})

    def _take_coin(self) -> None:
        """Go on to the next goal once this coin is safely taken."""
        if len(self._goals) == 1:
            return
        centre, radius = self._goals[0]
        touched = dist(self._position, centre) <= radius + self._game.agent.radius
        if touched and not self._touched:
            self._coin_frames.append(self._step)
        self._touched = self._touched or touched
        near = dist(self._position, centre) <= CLOSE or not self._towards(centre)
        if near or (self._touched and self._in_light(self._position)):
            self._goals.pop(0)
            self._touched = False

    def _action(self) -> int:
        centre, radius = self._goals[0]
        action = self._towards(centre)
        touchable = not self._in_light(centre, reach=radius + self._game.agent.radius)
        if self._detours >= DETOUR_STEPS or not touchable or not self._in_light(self._after(action)):
            return action
        dark = [a for a in range(1, 9) if self._after(a) != self._position and not self._in_light(self._after(a))]
        if not dark:
            return action
        self._detours += 1
        return min(dark, key=lambda a: dist(self._after(a), centre))

    def _towards(self, point: Point) -> int:
        """The action that goes there: on each axis the way that is left, if it is more than half a step."""
        x, y = _within(point, self._floor)
        return 3 * self._axis(x - self._position[0]) + self._axis(y - self._position[1])

    def _axis(self, way: float) -> int:
        return 0 if abs(way) <= self._straight / 2 else 2 if way > 0 else 1

    def _after(self, action: int) -> Point:
        """Where an action leads from where it is."""
        x, y = (0, -1, 1)[action // 3], (0, -1, 1)[action % 3]
        pixels = self._diagonal if x and y else self._straight
        return _within((self._position[0] + x * pixels, self._position[1] + y * pixels), self._floor)

    def _in_light(self, point: Point, reach: float = 0.0) -> bool:
        """Whether a light falls on the agent there; with `reach`, on every place from which it reaches `point`."""
        margin = self._game.agent.radius + BERTH - reach
        return any(dist(light.current_location, point) <= light.radius + margin for light in self._game.spotlights)


def _shrunk(floor: Any, radius: int) -> tuple[int, int, int, int]:
    """The smallest and largest x, then y, of the agent's centre."""
    return floor.left + radius, floor.right - radius, floor.top + radius, floor.bottom - radius


def _within(point: Point, floor: tuple[int, int, int, int]) -> Point:
    left, right, top, bottom = floor
    return min(max(point[0], left), right), min(max(point[1], top), bottom)


def _nearest_first(start: Point, coins: list[tuple[Point, float]]) -> list[tuple[Point, float]]:
    """The coins in the order of a walk that always goes to the nearest one left."""
    order: list[tuple[Point, float]] = []
    while coins:
        start_now = order[-1][0] if order else start
        nearest = min(coins, key=lambda coin: dist(coin[0], start_now))
        coins = [coin for coin in coins if coin is not nearest]
        order.append(nearest)
    return order
