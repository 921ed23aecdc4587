"""LTMB environments: steps a second, resets included, against the same tasks on Minigrid's own stepping.

The twins below share the rules and the random draws of our environments, but build a `Grid` of objects at every reset
and new room, move by `MiniGridEnv.step` and observe by `MiniGridEnv.gen_obs`. Both replay the expert's actions on the
same seeds, in turns, and must give equal observations.
"""

import time
from typing import Any

import numpy as np
from minigrid.core.constants import IDX_TO_COLOR
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from attentiontuner.envs.counting import GALLERY_DOOR, QUERY_DOORS, QUERY_OBJECT, SLOTS, CountingEnv
from attentiontuner.envs.hallway import HallwayEnv
from attentiontuner.envs.ltmb import DROP, PICKUP, TOGGLE, LTMBEnv
from attentiontuner.envs.ordering import OrderingEnv
from attentiontuner.envs.world import OBJECTS
from attentiontuner.tasks.task import get_task
from benchmarks import Row

EPISODES = {"hallway": 24, "ordering": 24, "counting": 16}
ROUNDS = 3


def thing(index: int) -> WorldObj:
    return WorldObj.decode(*OBJECTS[index].tolist())


class OnMinigrid:
    """What the twins share. `grid` is a plain attribute again."""

    grid: Any = None
    _moving = False

    @property
    def cells(self) -> np.ndarray:
        return np.empty((self.width, self.height, 3), np.uint8)  # our own building writes into the void

    def _put(self, x: int, y: int, code: Any) -> None:
        self.grid.set(x, y, WorldObj.decode(*(int(part) for part in code)))

    def _move(self, action: int) -> None:
        self._moving = True
        MiniGridEnv.step(self, TOGGLE if action == PICKUP else action)
        self._moving = False
        self.step_count -= 1  # our step has counted already

    def gen_obs(self) -> dict[str, Any]:
        # One observation a step, as ours: a new room may follow the move.
        return {} if self._moving else MiniGridEnv.gen_obs(self)


class HallwayOnMinigrid(OnMinigrid, HallwayEnv):
    def _gen_grid(self, width: int, height: int) -> None:
        self._draw_episode()
        grid, mid = Grid(width, height), height // 2
        self.grid = grid
        grid.wall_rect(0, 0, width, height)
        for outward in (-1, 1):
            grid.horz_wall(1, mid + 2 * outward, 4)
            grid.horz_wall(4, mid + outward, width - 6)
        for pair, x in enumerate(self._door_columns()):
            for side, outward in enumerate((-1, 1)):
                for column, row in ((-1, 2), (-1, 3), (0, 3), (1, 3), (1, 2)):
                    grid.set(x + column, mid + outward * row, Wall())
                self.put_obj(Door(IDX_TO_COLOR[int(self._door_colours[pair, side])]), x, mid + outward)
                self.put_obj(thing(self._objects[pair, side]), x, mid + 2 * outward)
        self.put_obj(thing(self._target), 1, mid - 1)
        self.agent_pos = (2, mid)
        self.agent_dir = 0


class OrderingOnMinigrid(OnMinigrid, OrderingEnv):
    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        super()._gen_grid(width, height)

    def _move(self, action: int) -> None:
        super()._move(DROP)


class CountingOnMinigrid(OnMinigrid, CountingEnv):
    def _room(self) -> None:
        self.grid = Grid(5, 5)
        self.grid.wall_rect(0, 0, 5, 5)

    def _build_query_room(self, wanted: int) -> None:
        self._room()
        for place, colour in QUERY_DOORS[: self.modulus]:
            self.put_obj(Door(colour), *place)
        self.put_obj(thing(wanted), *QUERY_OBJECT)

    def _build_gallery(self, things: list[int]) -> None:
        self._room()
        self.put_obj(Door("blue"), *GALLERY_DOOR)
        for place, index in zip(SLOTS, things, strict=True):
            if index >= 0:
                self.put_obj(thing(index), *place)


TWINS: dict[str, tuple[type[LTMBEnv], type[LTMBEnv]]] = {
    "hallway": (HallwayEnv, HallwayOnMinigrid),
    "ordering": (OrderingEnv, OrderingOnMinigrid),
    "counting": (CountingEnv, CountingOnMinigrid),
}


def expert_actions(task_name: str, seed: int) -> list[int]:
    task = get_task(task_name)
    env = task.make_env()
    observation, _ = env.reset(seed=seed)
    expert = task.make_expert(env)
    actions, over = [], False
    while not over:
        actions.append(expert.decide(observation).action)
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return actions


def replay(env: LTMBEnv, seed: int, actions: list[int]) -> list[tuple[np.ndarray, float, bool, bool]]:
    observation, _ = env.reset(seed=seed)
    steps = [(observation["image"], 0.0, False, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        steps.append((observation["image"], reward, terminated, truncated))
        if terminated or truncated:
            break
    return steps


def check_equal(ours: LTMBEnv, twin: LTMBEnv, rng: np.random.Generator, seeds: int = 3) -> None:
    """Both do the same under random actions, mostly forward and toggle."""
    for seed in range(seeds):
        actions = rng.choice(7, p=[0.15, 0.15, 0.35, 0.05, 0.05, 0.2, 0.05], size=50).tolist()
        for mine, stock in zip(replay(ours, seed, actions), replay(twin, seed, actions), strict=True):
            if not np.array_equal(mine[0], stock[0]) or mine[1:] != stock[1:]:
                raise AssertionError(f"{type(ours).__name__} and its twin differ on seed {seed}")


def bench() -> list[Row]:
    rows = []
    for name, (our_class, twin_class) in TWINS.items():
        settings = get_task(name).settings
        ours, twin = our_class(**settings), twin_class(**settings)
        check_equal(ours, twin, np.random.default_rng(0))
        episodes = [(seed, expert_actions(name, seed)) for seed in range(EPISODES[name])]
        spent = {ours: 0.0, twin: 0.0}
        for _ in range(ROUNDS):
            for env in (ours, twin):
                started = time.perf_counter()
                for seed, actions in episodes:
                    replay(env, seed, actions)
                spent[env] += time.perf_counter() - started
        steps = ROUNDS * sum(len(actions) for _, actions in episodes)
        rows.append(Row(f"{name}: steps, resets included", steps / spent[ours], "steps/s"))
        rows.append(Row(f"{name}: the same on Minigrid's stepping", steps / spent[twin], "steps/s"))
        rows.append(Row(f"{name}: speed-up", spent[twin] / spent[ours], "x", ">= 5x"))
    return rows
