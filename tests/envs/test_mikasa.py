"""MIKASA's worlds without its package: a world in its place that keeps what it is told to do."""

import sys
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
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


def played(seed, **settings):
    """What the world was told in an episode of three steps, and how that ended."""
    env = get_task("mikasa-remember-color", settings).make_env().unwrapped
    seen, _ = env.reset(seed=seed)
    for _ in range(3):
        seen, reward, terminated, truncated, info = env.step(np.array([0.5, -2, 0, 1]))
    assert (reward, terminated, truncated, info) == (1.0, True, False, {"success": True})
    return seen, np.array(env._world.done)


def test_numbers_are_those_of_the_world(package):
    seen, done = played(3)
    assert seen.shape == (57,)
    assert seen[TIP] == pytest.approx([0.1, 0.2, 0.3])
    assert seen[9:18].tolist() == [1] * 9
    cubes = seen[CUBES].reshape(9, 4)
    assert cubes[1] == pytest.approx([1, 0.4, 0.5, 0.02])
    assert not np.delete(cubes, 1, 0).any()
    assert len(seen) == ARM_NUMBERS + 36
    assert (done == [0.5, -2, 0, 1]).all()  # the world cuts off what is too large


def test_a_disturbance_is_the_seeds_and_leaves_the_gripper_alone(package):
    (_, one), (_, same), (_, other) = (played(seed, disturbance=0.1) for seed in (3, 3, 4))
    assert (one == same).all()
    assert (one != other)[:, :3].any()
    assert (one[:, 3] == 1).all()
    assert (np.abs(one[:, :3]) <= 1).all()
    assert 0.01 < np.abs(one[:, 0] - 0.5).mean() < 0.5
    with pytest.raises(UserError, match="disturbance must be a number from 0 to 1, not 2"):
        get_task("mikasa-remember-color", {"disturbance": 2}).make_env()
