"""The Memory Gym games: the package's frames to the pixel, any number of them in one process."""

import hashlib
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.tasks.task import get_task

pygame = pytest.importorskip("pygame")
pytest.importorskip("memory_gym")

TASKS = {
    "mortar-mayhem": "MortarMayhem-Grid-v0",
    "mystery-path": "MysteryPath-Grid-v0",
    "searing-spotlights": "SearingSpotlights-v0",
}
PINNED = {
    "mortar-mayhem": "85d7db73ed170631",
    "mystery-path": "31016454116fed06",
    "searing-spotlights": "512df2ae593bf667",
}
"""SHA-256 of the frames, rewards and ends of `film`: what memory-gym 1.0.2 draws with pygame-ce 2.5.8."""


def actions_of(task, count=400):
    """A fixed walk: each action is held for a few steps, so that it gets somewhere."""
    rng = np.random.default_rng(7)
    return rng.integers(task.actions.count, size=count).repeat(3)


def film(task, env, seeds=range(6), limit=150):
    """Every frame, reward and end of a fixed walk from each seed."""
    frames, rest = [], []
    for seed in seeds:
        frames.append(env.reset(seed=seed)[0])
        for action in actions_of(task)[:limit]:
            frame, reward, terminated, truncated, info = env.step(action)
            frames.append(frame)
            rest.append((reward, terminated, truncated, info.get("success")))
            if terminated or truncated:
                break
    return np.stack(frames), rest


@pytest.mark.parametrize("name", TASKS)
def test_spaces_are_what_the_task_says(name):
    task = get_task(name)
    env = task.make_env()
    frame, _ = env.reset(seed=0)
    ((_, part),) = task.observation.parts
    assert (frame.shape, frame.dtype, part.dtype) == (part.shape, np.uint8, np.uint8)
    assert env.observation_space.contains(frame)
    assert env.action_space == gym.spaces.Discrete(task.actions.count)
    assert set(task.keys.values()) == set(range(task.actions.count))


@pytest.mark.parametrize("name", TASKS)
def test_frames_are_pinned(name):
    frames, rest = film(get_task(name), get_task(name).make_env())
    digest = hashlib.sha256(frames.tobytes() + repr([(round(r, 4), *ends) for r, *ends in rest]).encode())
    assert digest.hexdigest()[:16] == PINNED[name]


@pytest.mark.parametrize("name", TASKS)
def test_frames_are_the_packages_own(name):
    """Also while the package's own environment is made, used and closed beside ours."""
    task = get_task(name)
    ours = task.make_env()
    package = gym.make(TASKS[name], disable_env_checker=True).unwrapped
    two = isinstance(package.action_space, gym.spaces.MultiDiscrete)
    for seed in range(3):
        assert np.array_equal(ours.reset(seed=seed)[0], package.reset(seed=seed)[0])
        for action in actions_of(task):
            frame, reward, terminated, truncated, _ = ours.step(action)
            theirs, their_reward, done, _, _ = package.step([action // 3, action % 3] if two else action)
            assert np.array_equal(frame, theirs)
            assert reward == their_reward
            assert (terminated or truncated) == done
            if done:
                break
    package.close()
    assert not pygame.display.get_init()
    frames, _ = film(task, ours, seeds=[0], limit=20)
    assert np.array_equal(frames, film(task, task.make_env(), seeds=[0], limit=20)[0])


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_decides_everything(name):
    task = get_task(name)
    used = task.make_env()
    film(task, used, seeds=[5, 6])
    again, fresh = film(task, used, seeds=[3]), film(task, task.make_env(), seeds=[3])
    assert np.array_equal(again[0], fresh[0])
    assert again[1] == fresh[1]
    assert not np.array_equal(fresh[0][0], used.reset(seed=4)[0])


def test_64_interleaved_environments_see_what_each_sees_alone():
    names = [name for _, name in zip(range(64), list(TASKS) * 64, strict=False)]
    steps = 40
    alone = []
    for index, name in enumerate(names):
        task = get_task(name)
        env = task.make_env()
        alone.append([env.reset(seed=index)[0], *(env.step(a)[0] for a in actions_of(task)[:steps])])
    envs = [get_task(name).make_env(render_mode="rgb_array") for name in names]
    first = [env.reset(seed=index)[0] for index, env in enumerate(envs)]
    together = [[frame] for frame in first]
    for step in range(steps):
        for index, env in enumerate(envs):
            together[index].append(env.step(actions_of(get_task(names[index]))[step])[0])
            if step == 20 and index % 8 == 0:
                get_task(names[index]).make_env().close()
    for index in range(64):
        assert np.array_equal(np.stack(alone[index]), np.stack(together[index])), names[index]
        assert np.array_equal(envs[index].render(), together[index][-1].transpose(1, 0, 2)), names[index]


def test_closing_one_leaves_pygame_to_the_others():
    first, second = get_task("mystery-path").make_env(), get_task("mystery-path").make_env()
    first.reset(seed=0)
    second.close()
    assert pygame.display.get_init()
    first.step(0)


def test_frames_do_not_change_after_they_were_given():
    env = get_task("mortar-mayhem").make_env()
    frame, _ = env.reset(seed=0)
    before = frame.copy()
    for _ in range(10):
        env.step(0)
    assert np.array_equal(frame, before)


def test_failing_at_the_last_command_is_no_success():
    """The package itself reports success here."""
    task = get_task("mortar-mayhem", {"command_count": 1})
    env = task.make_env()
    successes = []
    for seed in range(12):
        env.reset(seed=seed)
        commands, over = env.unwrapped.game._commands, False
        while not over:
            _, _, terminated, truncated, info = env.step(0)
            over = terminated or truncated
        assert info["success"] is (commands == ["stay"])
        successes.append(info["success"])
    assert set(successes) == {True, False}


@pytest.mark.parametrize(("name", "settings"), [("mystery-path", {}), ("searing-spotlights", {"max_steps": 9})])
def test_a_time_limit_truncates(name, settings):
    task = get_task(name, settings)
    env = task.make_env()
    env.reset(seed=0)
    ends = [env.step(0)[2:] for _ in range(task.max_steps)]
    assert [end[:2] for end in ends] == [(False, False)] * (task.max_steps - 1) + [(False, True)]
    assert ends[-1][2]["success"] is False


def test_a_dead_agent_terminates():
    env = get_task("searing-spotlights").make_env()
    env.reset(seed=1)
    env.unwrapped.game.current_agent_health = 0
    _, _, terminated, truncated, info = env.step(0)
    assert (terminated, truncated, info["success"]) == (True, False, False)


def test_searing_actions_go_where_their_names_say():
    task = get_task("searing-spotlights")
    env = task.make_env()
    for action, name in enumerate(task.actions.names):
        env.reset(seed=0)
        agent = env.unwrapped.game.agent
        agent.rect.center = (40, 40)
        env.step(action)
        x, y = agent.rect.center[0] - 40, agent.rect.center[1] - 40
        assert (x < 0, x > 0, y < 0, y > 0) == tuple(word in name for word in ("left", "right", "up", "down"))


def test_settings_reach_the_game_and_wrong_ones_are_refused():
    env = get_task("mortar-mayhem", {"command_count": 3, "command_show_duration": [2]}).make_env()
    env.reset(seed=0)
    assert len(env.unwrapped.game._commands) == 3
    assert env.reset(seed=0, options={"command_count": 5}) is not None
    assert len(env.unwrapped.game._commands) == 5
    env.reset(seed=0)
    assert len(env.unwrapped.game._commands) == 3
    with pytest.raises(UserError, match="'colour'"):
        get_task("mortar-mayhem", {"colour": 1}).make_env()
    with pytest.raises(UserError, match="range"):
        get_task("mortar-mayhem", {"arena_size": 99}).make_env()


@pytest.mark.parametrize("settings", [{}, {"command_count": 4}, {"command_count": [2, 5], "explosion_delay": 9}])
def test_mortar_horizon_is_the_longest_episode(settings):
    from attentiontuner.experts.mortar_mayhem import MortarMayhemExpert

    task = get_task("mortar-mayhem", settings)
    env, lengths = task.make_env(), []
    for seed in range(8):
        frame, _ = env.reset(seed=seed)
        expert, over, length = MortarMayhemExpert(env), False, 0
        while not over:
            frame, _, over, _, info = env.step(expert.decide(frame).action)
            length += 1
        assert info["success"]
        lengths.append(length)
    assert max(lengths) == task.max_steps


@pytest.mark.parametrize("name", TASKS)
def test_rendering_is_the_right_way_up(name):
    env = get_task(name).make_env(render_mode="rgb_array")
    frame, _ = env.reset(seed=0)
    assert np.array_equal(env.render(), frame.transpose(1, 0, 2))
    debug = get_task(name).make_env(render_mode="debug_rgb_array")
    debug.reset(seed=0)
    assert debug.render().shape == (336, 336, 3)


WITHOUT_PACKAGE = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "memory_gym":
            raise ModuleNotFoundError("No module named 'memory_gym'", name="memory_gym")
sys.meta_path.insert(0, Blocker())
from attentiontuner.core.errors import UserError
from attentiontuner.tasks.task import all_tasks
for name, task in all_tasks().items():
    try:
        env = task.make_env()
        env.reset(seed=0)
        task.make_expert(env)
        print(name, "works")
    except UserError as error:
        print(name, error)
"""


def test_without_the_package_only_its_tasks_are_missing():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGE], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines if line.endswith(" works")} >= {"hallway", "ordering", "counting"}
    missing = [line for line in lines if "memory_gym" in line and not line.endswith(" works")]
    assert {line.split()[0] for line in missing} == set(TASKS)
    assert all(line.endswith("pip install --no-deps memory-gym==1.0.2") for line in missing)
