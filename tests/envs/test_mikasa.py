"""MIKASA's worlds without its package: a world in its place that keeps what it is told to do."""

import sys
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from attentiontuner.envs.mikasa import ARM_NUMBERS, CUBES, TIP
from attentiontuner.tasks.task import get_task


def posed(*place):
    return SimpleNamespace(pose=SimpleNamespace(p=torch.tensor([place])))


class World(gym.Env):
    """Cube 1 is on the table, cube 2 out of sight; the third action succeeds."""

    action_space = observation_space = gym.spaces.Box(-1, 1, (1, 4), np.float32)

    def __init__(self, **options):
        assert (options["num_envs"], options["control_mode"]) == (1, "pd_ee_delta_pos")
        robot = SimpleNamespace(get_qpos=lambda: torch.zeros(1, 9), get_qvel=lambda: torch.ones(1, 9))
        self.agent = SimpleNamespace(robot=robot, tcp=posed(0.1, 0.2, 0.3))
        self.cubes = {1: posed(0.4, 0.5, 0.02), 2: posed(0.0, 0.0, 1000.0)}

    def reset(self, *, seed=None, options=None):
        self.seed, self.done = seed, []
        return None, {}

    def step(self, action):
        self.done.append(action[0].tolist())
        return None, 0.0, False, False, {"success": torch.tensor([len(self.done) == 3])}


@pytest.fixture
def package(monkeypatch):
    for name in ("mikasa_robo_suite", "mikasa_robo_suite.vla", "mikasa_robo_suite.vla.memory_envs"):
        module = ModuleType(name)
        module.__spec__ = SimpleNamespace(name=name)  # type: ignore[assignment]
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(gym.registry, "RememberColor3-VLA-v0", gym.envs.registration.EnvSpec("RememberColor3-VLA-v0"))
    gym.registry["RememberColor3-VLA-v0"].entry_point = World


def test_numbers_are_those_of_the_world(package):
    env = get_task("mikasa-remember-color").make_env().unwrapped
    seen, _ = env.reset(seed=3)
    assert seen.shape == (57,)
    assert seen[TIP] == pytest.approx([0.1, 0.2, 0.3])
    assert seen[9:18].tolist() == [1] * 9
    cubes = seen[CUBES].reshape(9, 4)
    assert cubes[1] == pytest.approx([1, 0.4, 0.5, 0.02])
    assert not np.delete(cubes, 1, 0).any()
    assert len(seen) == ARM_NUMBERS + 36


def test_an_episode_ends_at_its_first_success(package):
    env = get_task("mikasa-remember-color").make_env().unwrapped
    env.reset(seed=3)
    for step in range(3):
        *_, reward, terminated, truncated, info = env.step(np.array([0.5, -0.25, 0, 1]))
        assert (reward, terminated, truncated, info) == (float(step == 2), step == 2, False, {"success": step == 2})
    assert env._world.done == [[0.5, -0.25, 0, 1]] * 3
    drawn = env._world.seed
    env.reset(seed=3)
    assert env._world.seed == drawn
