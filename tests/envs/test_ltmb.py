"""What every LTMB environment must do; the registration table enrols them."""

import copy
import hashlib
import os
import pickle
import random
import subprocess
import sys
import warnings
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.envs import TWINS, check_equal
from gymnasium.utils.env_checker import check_env
from minigrid import wrappers
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Door
from minigrid.manual_control import ManualControl
from minigrid.minigrid_env import MiniGridEnv

from attentiontuner.envs import LTMB, symbolic_view
from attentiontuner.tasks.task import all_tasks

ACTION_ODDS = [0.15, 0.15, 0.4, 0.05, 0.05, 0.15, 0.05]
"""A random walk that gets somewhere: it also opens doors."""


@pytest.fixture(params=sorted(LTMB))
def env_id(request):
    return request.param


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


def make(env_id, **settings):
    return gym.make(env_id, disable_env_checker=True, **settings).unwrapped


def random_walk(env, steps, seed=0):
    """Yield (observation, ended) along a random walk over several episodes."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for action in rng.choice(7, p=ACTION_ODDS, size=steps).tolist():
        yield observation, False
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            yield observation, True
            observation, _ = env.reset()


def digest(env_id):
    env, total = make(env_id), hashlib.sha256()
    for observation, _ in random_walk(env, 300, seed=7):
        total.update(observation["image"].tobytes())
    return total.hexdigest()


def test_the_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("see_through_walls", [True, False])
@pytest.mark.parametrize("agent_view_size", [5, 7, 9])
def test_observations_are_minigrids(env_id, see_through_walls, agent_view_size):
    env = make(env_id, see_through_walls=see_through_walls, agent_view_size=agent_view_size)
    directions, unseen = set(), 0
    for observation, _ in random_walk(env, 500, seed=agent_view_size):
        stock = MiniGridEnv.gen_obs(env)
        np.testing.assert_array_equal(observation["image"], stock["image"])
        assert observation["image"].dtype == np.uint8
        assert (observation["direction"], observation["mission"]) == (stock["direction"], stock["mission"])
        directions.add(observation["direction"])
        unseen += int((observation["image"][..., 0] == 0).sum())
    if "Ordering" not in env_id:  # there the agent never turns, and nothing hides anything
        assert directions == {0, 1, 2, 3}
        assert (unseen > 0) == (not see_through_walls)


def test_a_world_of_random_walls_and_doors_is_seen_as_minigrid_sees_it():
    rng = np.random.default_rng(3)
    env = make("LTMB-Counting-v0", see_through_walls=False, agent_view_size=7)
    env.reset(seed=0)
    for _ in range(200):
        for x in range(5):
            for y in range(5):
                kind = rng.integers(5)
                thing = {1: Ball("red"), 2: Door("blue", is_open=True), 3: Door("grey"), 4: Ball("grey")}.get(int(kind))
                env.grid.set(x, y, thing)
        env.agent_pos, env.agent_dir = tuple(rng.integers(5, size=2).tolist()), int(rng.integers(4))
        np.testing.assert_array_equal(env.gen_obs()["image"], MiniGridEnv.gen_obs(env)["image"])


@pytest.mark.parametrize("name", sorted(TWINS))
def test_steps_are_minigrids(name):
    """The twin moves by `MiniGridEnv.step` and builds its grid of objects."""
    ours, twin = (env_class(length=3) for env_class in TWINS[name])
    check_equal(ours, twin, np.random.default_rng(1), seeds=40)


def test_reset_with_a_seed_fixes_everything(env_id):
    here = digest(env_id)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 the global generators must not matter
    assert digest(env_id) == here
    program = f"from tests.envs.test_ltmb import digest; print(digest({env_id!r}))"
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert there.stdout.split()[-1] == here


def test_seeds_differ(env_id):
    env = make(env_id)
    worlds = set()
    for seed in range(20):
        env.reset(seed=seed)
        worlds.add(env.cells.tobytes())
    assert len(worlds) > 10


def test_observations_do_not_alias_the_world(env_id):
    env = make(env_id)
    for observation, _ in random_walk(env, 30):
        before = env.cells.copy()
        kept = observation["image"].copy()
        observation["image"][:] = 9
        np.testing.assert_array_equal(env.cells, before)
        np.testing.assert_array_equal(env.gen_obs()["image"], kept)


def test_all_seven_actions_and_no_other(env_id):
    env = make(env_id)
    assert env.action_space == gym.spaces.Discrete(7)
    for action in env.actions:
        env.reset(seed=0)
        observation, reward, *_ = env.step(action)
        assert env.observation_space.contains(observation)
        assert isinstance(reward, float)
        assert env.carrying is None
    for _ in range(env.max_steps + 2):  # stepping on after the end is harmless
        env.step(2)
    with pytest.raises(ValueError, match="from 0 to 6, not 7"):
        env.step(7)


def test_the_last_step_says_whether_it_was_solved(env_id):
    env = make(env_id, length=1)
    rng = np.random.default_rng(0)
    for seed in range(30):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(int(rng.choice(7, p=ACTION_ODDS)))
            over = terminated or truncated
            assert ("success" in info) == over
        assert type(info["success"]) is bool
        assert info["success"] == (reward > 0)
        assert not (terminated and truncated)


@pytest.mark.parametrize("bad", [0, -1, 10_001, 2.5, "3", True, None])
def test_length_out_of_range(env_id, bad):
    with pytest.raises(ValueError, match=r"length must be a whole number from 1 to \d+, not"):
        gym.make(env_id, length=bad)


def test_the_horizon_of_the_task_is_the_step_limit(env_id):
    for task in all_tasks().values():
        if task.env_id == env_id:
            assert task.make_env().unwrapped.max_steps == task.max_steps
            shorter = task.with_settings({"length": 4})
            assert shorter.make_env().unwrapped.max_steps == shorter.max_steps


def test_symbolic_view(env_id):
    env = symbolic_view(gym.make(env_id, length=2))
    plain = make(env_id, length=2)
    observation, _ = env.reset(seed=4)
    assert env.observation_space.shape == (7, 7, 3)
    assert env.observation_space.contains(observation)
    np.testing.assert_array_equal(observation, plain.reset(seed=4)[0]["image"])
    observation, *rest = env.step(2)
    expected, *rest_expected = plain.step(2)
    np.testing.assert_array_equal(observation, expected["image"])
    assert rest == rest_expected
    with pytest.raises(ValueError, match="image"):
        symbolic_view(gym.make("CartPole-v1"))


@pytest.mark.parametrize(
    ("wrapper", "shape"),
    [
        (wrappers.FullyObsWrapper, None),
        (wrappers.SymbolicObsWrapper, None),
        (wrappers.ImgObsWrapper, (7, 7, 3)),
        (wrappers.FlatObsWrapper, (147 + 28 * 96,)),
        (wrappers.OneHotPartialObsWrapper, (7, 7, 20)),
        (lambda env: wrappers.ViewSizeWrapper(env, 5), (5, 5, 3)),
        (lambda env: wrappers.RGBImgPartialObsWrapper(env, tile_size=8), (56, 56, 3)),
        (lambda env: wrappers.RGBImgObsWrapper(env, tile_size=4), None),
        (wrappers.PositionBonus, (7, 7, 3)),
        (lambda env: wrappers.ReseedWrapper(env, seeds=[3]), (7, 7, 3)),
    ],
)
def test_minigrid_wrappers(env_id, wrapper, shape):
    env = wrapper(gym.make(env_id, length=2, disable_env_checker=True))
    env.reset()
    observation, *_ = env.step(0)
    image = observation["image"] if isinstance(observation, dict) else observation
    if shape is not None:
        assert image.shape == shape


def test_the_full_view_shows_doors_opened_by_steps():
    env = wrappers.FullyObsWrapper(make("LTMB-Counting-v0"))
    before = env.reset(seed=0)[0]["image"]
    for action in (2, 2, 5):
        after, *_ = env.step(action)
    assert before[2, 0].tolist() == [4, 2, 1]
    assert after["image"][2, 0].tolist() == [4, 2, 0]
    assert after["image"][2, 1].tolist() == [10, 0, 3]  # the agent


def test_writing_to_the_grid_changes_the_world(env_id):
    env = make(env_id, length=2)
    env.reset(seed=0)
    first = env.cells.copy()
    env.put_obj(Ball("yellow"), 3, 2)
    assert env.cells[3, 2].tolist() == [6, 4, 0]
    env.grid.set(3, 2, None)
    assert env.cells[3, 2].tolist() == [1, 0, 0]
    fresh = Grid(env.width, env.height)
    fresh.set(2, 2, Ball("red"))
    env.grid = fresh
    assert env.grid == fresh
    env.reset(seed=0)
    np.testing.assert_array_equal(env.cells, first)


def test_pictures_are_minigrids(env_id):
    env = make(env_id, length=3, render_mode="rgb_array", tile_size=10)
    for step, _ in enumerate(random_walk(env, 40)):
        if step % 8 == 0:
            picture = env.render()
            stock, _ = Grid.decode(env.grid.encode())
            mask = np.zeros((env.width, env.height), bool)
            for x in range(env.width):
                for y in range(env.height):
                    mask[x, y] = env.in_view(x, y)
            expected = stock.render(10, env.agent_pos, env.agent_dir, highlight_mask=mask)
            np.testing.assert_array_equal(picture, expected)
            assert picture.dtype == np.uint8


def test_agent_pov_picture(env_id):
    env = make(env_id, render_mode="rgb_array", tile_size=8, agent_pov=True)
    env.reset(seed=0)
    assert env.render().shape == (56, 56, 3)


def test_manual_control_in_a_window(env_id, capsys):
    env = gym.make(env_id, length=2, render_mode="human", screen_size=200)
    control = ManualControl(env, seed=3)
    control.reset(3)
    keys = ("left", "right", "up", "space", "pageup", "pagedown", "backspace")
    for key in keys:
        control.key_handler(SimpleNamespace(key=key))
    assert env.unwrapped.window is not None
    assert "step=1" in capsys.readouterr().out
    control.key_handler(SimpleNamespace(key="escape"))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])  # noqa: S301 our own
def test_copies_go_their_own_way(env_id, copied):
    env = make(env_id, length=3)
    env.reset(seed=2)
    assert env.grid is not None
    twin = copied(env)
    twin.grid.set(1, 1, Ball("red"))
    assert twin.cells[1, 1].tolist() == [6, 0, 0]
    twin = copied(env)
    untouched = env.cells.copy()
    for action in (2, 2, 5, 2, 2):
        twin.step(action)
        np.testing.assert_array_equal(twin.gen_obs()["image"], MiniGridEnv.gen_obs(twin)["image"])
    np.testing.assert_array_equal(env.cells, untouched)
    for action in (2, 2, 5, 2, 2):
        env.step(action)
    np.testing.assert_array_equal(env.gen_obs()["image"], twin.gen_obs()["image"])


def test_vector_environments(env_id):
    envs = gym.make_vec(env_id, num_envs=3, vectorization_mode="sync", length=2)
    observation, _ = envs.reset(seed=[1, 2, 3])
    assert observation["image"].shape == (3, 7, 7, 3)
    envs.step(np.array([0, 1, 2]))
    envs.close()


def test_the_docstring_is_a_specification(env_id):
    sections = [line.strip() for line in type(make(env_id)).__doc__.splitlines() if line.strip().startswith("## ")]
    assert sections == [
        "## Description",
        "## Mission Space",
        "## Action Space",
        "## Observation Encoding",
        "## Rewards",
        "## Termination",
        "## Settings",
        "## Registered Configurations",
    ]
    assert f'"{make(env_id).mission}"' in type(make(env_id)).__doc__
