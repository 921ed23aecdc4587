"""Where things are in Hallway, and what ends an episode."""

from collections import Counter

import numpy as np
import pytest

from attentiontuner.envs.hallway import HallwayEnv
from attentiontuner.envs.world import OBJECTS

LEFT, RIGHT, FORWARD, PICKUP, TOGGLE = 0, 1, 2, 3, 5
DOOR, WALL, EMPTY = 4, 2, 1


@pytest.fixture(params=[1, 2, 30])
def env(request):
    env = HallwayEnv(length=request.param)
    env.reset(seed=0)
    return env


def walk_to(env, pair, side, use=TOGGLE):
    """Enter a door; returns what the last step returned."""
    actions = [FORWARD] * (5 + 4 * pair) + [(LEFT, RIGHT)[side], use, FORWARD]
    for action in actions[:-1]:
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    return env.step(actions[-1])


def right_door(env):
    """Found in the cells alone: (pair, side) of the object that equals the one of the start room."""
    mid = env.height // 2
    target = env.cells[1, mid - 1].tolist()
    found = [
        (pair, side)
        for pair in range(env.length)
        for side, row in enumerate((mid - 2, mid + 2))
        if env.cells[7 + 4 * pair, row].tolist() == target
    ]
    assert len(found) == 1, "the target lies behind exactly one door"
    return found[0]


def test_where_things_are(env):
    side, mid = 4 * env.length + 5, env.height // 2
    assert env.cells.shape == (side, side, 3)
    assert (env.agent_pos, env.agent_dir) == ((2, mid), 0)
    kinds = env.cells[..., 0]
    assert kinds[1, mid - 1] in OBJECTS[:, 0]
    assert (kinds[[0, -1]] == WALL).all()
    assert (kinds[:, [0, -1]] == WALL).all()
    assert (kinds[1:-1, mid] == EMPTY).all()
    assert (kinds[1:5, [mid - 2, mid + 2]] == WALL).all()
    assert (kinds[4, [mid - 1, mid + 1]] == WALL).all()
    doors = np.arange(7, side, 4)
    assert len(doors) == env.length
    for outward in (-1, 1):
        beside = kinds[5 : side - 1, mid + outward]
        assert (beside[2::4] == DOOR).all()
        assert (np.delete(beside, np.arange(2, len(beside), 4)) == WALL).all()
        assert (env.cells[doors, mid + outward, 2] == 1).all()
        assert np.isin(kinds[doors, mid + 2 * outward], OBJECTS[:, 0]).all()
        assert (kinds[doors, mid + 3 * outward] == WALL).all()
        assert (kinds[doors - 1, mid + 2 * outward] == WALL).all()
        assert (kinds[doors + 1, mid + 2 * outward] == WALL).all()
    things = np.isin(kinds, OBJECTS[:, 0]).sum()
    assert things == 2 * env.length + 1


def test_the_right_door_is_a_success():
    env = HallwayEnv(length=6)
    for seed in range(40):
        env.reset(seed=seed)
        pair, side = right_door(env)
        _, reward, terminated, truncated, info = walk_to(env, pair, side, use=(TOGGLE, PICKUP)[seed % 2])
        assert (terminated, truncated, info) == (True, False, {"success": True})
        assert reward == pytest.approx(1 - 0.9 * (8 + 4 * pair) / 49)


def test_any_other_door_is_a_failure():
    env = HallwayEnv(length=4)
    for seed in range(20):
        env.reset(seed=seed)
        right = right_door(env)
        for pair in range(4):
            for side in range(2):
                if (pair, side) != right:
                    env.reset(seed=seed)
                    _, reward, terminated, _, info = walk_to(env, pair, side)
                    assert (reward, terminated, info) == (0.0, True, {"success": False})


def test_a_closed_door_does_not_let_through():
    env = HallwayEnv(length=2)
    env.reset(seed=0)
    for action in [FORWARD] * 5 + [LEFT]:
        env.step(action)
    _, _, terminated, _, _ = env.step(FORWARD)
    assert not terminated
    assert env.agent_pos == (7, env.height // 2)


def test_the_step_limit_is_a_failure():
    env = HallwayEnv(length=3)
    env.reset(seed=0)
    for step in range(37):
        _, reward, terminated, truncated, info = env.step(LEFT)
        assert truncated == (step == 36)
    assert (reward, terminated, info) == (0.0, False, {"success": False})


def test_the_agent_cannot_leave_the_corridor():
    """Wherever it turns, without opening doors it stays in the start room and the corridor."""
    env = HallwayEnv(length=2)
    rng = np.random.default_rng(0)
    mid, columns = env.height // 2, set()
    for seed in range(30):
        env.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, over, _ = env.step(int(rng.choice([LEFT, RIGHT, FORWARD, FORWARD, FORWARD])))
            x, y = env.agent_pos
            columns.add(x)
            assert not terminated
            assert y == mid or (x <= 3 and abs(y - mid) == 1)
    assert max(columns) == env.width - 2


def test_what_is_drawn_is_spread_evenly():
    env = HallwayEnv(length=3)
    places, targets, same_shape = Counter(), Counter(), 0
    for seed in range(1200):
        env.reset(seed=seed)
        places[right_door(env)] += 1
        target = env.cells[1, env.height // 2 - 1]
        targets[tuple(target.tolist())] += 1
        others = np.concatenate([env.cells[7::4, env.height // 2 + row] for row in (-2, 2)])
        same_shape += int((others[:, 0] == target[0]).sum()) - 1
    assert len(places) == 6
    assert min(places.values()) > 140  # 200 expected
    assert len(targets) == 18
    assert min(targets.values()) > 35  # 67 expected
    assert same_shape / (1200 * 5) == pytest.approx(1 / 3, abs=0.03)  # a clash changes the colour, not the shape
