"""The robot tasks: real environments, decided by their seed, that give nothing away of what must be remembered."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from attentiontuner.core.errors import UserError
from attentiontuner.envs import ROBOTS
from attentiontuner.tasks.task import get_task

pytest.importorskip("mujoco")

from attentiontuner.envs import blink_count, remember_colour, remember_reach
from attentiontuner.envs.robot import ARM_NUMBERS, HOME, TIP, pose_for

NAMES = ("remember-reach", "remember-colour", "blink-count")
CUES = {"remember-reach": ((0.3, 0.2), (0.25, -0.3)), "remember-colour": (0, 2), "blink-count": (2, 5)}


@pytest.fixture(scope="module")
def renderer():
    env = get_task("remember-reach").make_env("rgb_array")
    env.reset(seed=0)
    try:
        env.render()
    except UserError as error:
        pytest.skip(str(error))


def play(env, seed, steps=None, **options):
    """The observations of an episode of actions that the seed decides, and what came of it."""
    observation, _ = env.reset(seed=seed, options=options)
    generator, seen, over = np.random.default_rng(seed), [observation], False
    while not over and (steps is None or len(seen) <= steps):
        action = generator.uniform(-1, 1, 3).astype(np.float32)
        observation, _, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        over = terminated or truncated
    return seen


@pytest.mark.filterwarnings("ignore:.*Box observation space")
@pytest.mark.parametrize("env_id", ROBOTS)
def test_gymnasium_finds_nothing_wrong(env_id):
    check_env(gym.make(env_id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_everything(name):
    env, other = get_task(name).make_env(), get_task(name).make_env()
    play(other, 4, 20)  # what was before does not matter
    for seed in (0, 1):
        assert np.array_equal(play(env, seed), play(other, seed))
    assert not np.array_equal(play(env, 0, 30)[-1], play(env, 1, 30)[-1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("settings", [{}, {"delay": 60}, {"blinks": 3}])
def test_the_horizon_is_the_environments(name, settings):
    known = get_task(name).settings
    task = get_task(name, {key: value for key, value in settings.items() if key in known})
    assert task.make_env().unwrapped.max_steps == task.max_steps


@pytest.mark.parametrize("name", NAMES)
def test_nobody_who_waits_succeeds(name):
    task = get_task(name)
    env = task.make_env()
    env.reset(seed=0)
    for step in range(task.max_steps):
        _, _, terminated, truncated, info = env.step(np.zeros(3, np.float32))
        assert not terminated
        assert truncated == (step == task.max_steps - 1)
    assert info == {"success": False}


def after_the_cue(name, cue, **settings):
    """What is seen from the first step on that shows nothing of the cue, and the arm before it."""
    env = get_task(name, settings).make_env()
    robot = env.unwrapped
    env.reset(seed=5, options={robot.cue: cue})
    hidden_from = max(robot._blinks_at) + 1 if name == "blink-count" else remember_reach.LIT_STEPS
    return play(env, 5, 40, **{robot.cue: cue}), hidden_from, robot._go_at if name == "blink-count" else None


@pytest.mark.parametrize("name", ["remember-reach", "remember-colour"])
def test_nothing_tells_the_cue_once_it_is_gone(name):
    (one, hidden, _), (other, _, _) = (after_the_cue(name, cue) for cue in CUES[name])
    assert all(not np.array_equal(a, b) for a, b in zip(one[:hidden], other[:hidden], strict=True))
    assert np.array_equal(one[hidden:40], other[hidden:40])


def test_nothing_tells_how_often_the_lamp_blinked():
    """The number decides when the light turns green: before that nothing but blinks differs, and then nothing does."""
    (one, _, first), (other, _, second) = (after_the_cue("blink-count", cue) for cue in CUES["blink-count"])
    told = [blink_count.BLINK, blink_count.GO]
    assert np.array_equal(np.delete(one, told, 1)[:first], np.delete(other, told, 1)[:first])
    assert [int(np.sum(seen, 0)[blink_count.BLINK]) for seen in (one, other)] == list(CUES["blink-count"])
    assert not np.array(one)[first:, blink_count.BLINK].any()
    assert np.array(other)[:, blink_count.GO].tolist() == [float(step >= second) for step in range(len(other))]


@pytest.mark.parametrize("name", ["remember-reach", "remember-colour"])
def test_no_picture_tells_the_cue_once_it_is_gone(name, renderer):
    (one, hidden, _), (other, _, _) = (after_the_cue(name, cue, cameras=True) for cue in CUES[name])
    assert not np.array_equal(one[0]["camera"], other[0]["camera"])
    for a, b in zip(one[hidden:], other[hidden:], strict=True):
        assert np.array_equal(a["camera"], b["camera"])
        assert np.array_equal(a["state"], b["state"])


@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_pictures_show_what_numbers_say(renderer):
    """A lit disc is in the picture where it was put, and the arm's numbers stand beside it."""
    task = get_task("remember-reach", {"cameras": True})
    env = task.make_env()
    left, _ = env.reset(seed=0, options={"target": (0.35, 0.25)})
    right, _ = env.reset(seed=0, options={"target": (0.35, -0.25)})
    yellow = [np.argwhere((seen["camera"][..., 0] > 200) & (seen["camera"][..., 2] < 140)) for seen in (left, right)]
    assert yellow[0][:, 1].mean() > 74
    assert yellow[1][:, 1].mean() < 54
    assert task.seen(left)["state"].shape == (ARM_NUMBERS,)
    check_env(get_task("blink-count", {"cameras": True}).make_env("rgb_array").unwrapped)


def test_pictures_are_as_large_as_one_says(renderer):
    """And show the same, a quarter as large: environments of several sizes draw in turns."""
    sides = (64, True)
    tasks = [get_task("remember-colour", {"cameras": side}) for side in sides]
    envs = [task.make_env("rgb_array") for task in tasks]
    small, usual = (task.seen(env.reset(seed=2)[0]) for task, env in zip(tasks, envs, strict=True))
    assert (small["camera"].shape, usual["camera"].shape) == ((64, 64, 3), (128, 128, 3))
    halved = usual["camera"].reshape(64, 2, 64, 2, 3).mean((1, 3))
    assert np.abs(small["camera"] - halved).mean() < 4
    assert np.array_equal(small["state"], usual["state"])
    assert envs[0].render().shape == (256, 256, 3)


def test_people_see_shadows_and_policies_do_not(renderer):
    env = get_task("blink-count", {"cameras": True}).make_env("rgb_array").unwrapped
    env.reset(seed=0)
    seen = env.step(np.zeros(3, np.float32))[0]["camera"].astype(int)
    shown = env.render().reshape(128, 2, 128, 2, 3).mean((1, 3))
    darker, brighter = ((side > 25).all(-1) for side in (seen - shown, shown - seen))
    assert 100 < darker.sum() < 2000  # of 16,384 places
    assert brighter.sum() < 100


def test_many_environments_share_a_renderer(renderer):
    """And each has its own colours."""
    envs = [get_task("remember-colour", {"cameras": True}).make_env() for _ in range(12)]
    first = [env.reset(seed=1, options={"colour": n % 3})[0]["camera"] for n, env in enumerate(envs)]
    again = [env.reset(seed=1, options={"colour": n % 3})[0]["camera"] for n, env in enumerate(envs)]
    assert np.array_equal(first, again)
    assert np.array_equal(first[0], first[3])
    assert not np.array_equal(first[0], first[1])


def test_any_thread_may_ask_for_pictures(renderer):
    """As those of a server do, which take turns, and some at once."""
    envs = [get_task("remember-reach", {"cameras": 64}).make_env("rgb_array") for _ in range(4)]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other, ThreadPoolExecutor(4) as several:
        first = one.submit(play, envs[0], 3, 5).result()
        again = other.submit(play, envs[0], 3, 5).result()
        at_once = list(several.map(lambda env: play(env, 3, 5), envs))
    here = play(envs[0], 3, 5)
    for seen in (first, again, *at_once):
        assert all(np.array_equal(a["camera"], b["camera"]) for a, b in zip(seen, here, strict=True))
    assert envs[0].render().shape == (256, 256, 3)


@pytest.mark.parametrize("named", ["off", "egl", "nonsense"])
def test_without_a_renderer_there_is_a_clear_line_and_states_are_as_ever(named, tmp_path):
    """`import mujoco` imports the renderer that MUJOCO_GL names, and fails with it where the driver is missing."""
    broken = tmp_path / "OpenGL" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise AttributeError('no driver')")
    code = (
        "import os\n"
        "from attentiontuner.tasks import get_task\n"
        "get_task('remember-reach').make_env().reset(seed=0); print('states', os.environ['MUJOCO_GL'])\n"
        "get_task('remember-reach', {'cameras': True}).make_env().reset(seed=0)\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {"MUJOCO_GL": named, "PYTHONPATH": path}
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert made.stdout == f"states {named}\n"
    line = made.stderr.splitlines()[-1]
    assert f"UserError: no renderer for pictures of MuJoCo with MUJOCO_GL={named} (" in line
    assert ("AttributeError: no driver" if named == "egl" else "none of egl, osmesa, glfw") in line
    assert line.endswith("states need none")


def test_without_mujoco_there_is_a_clear_line():
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "import attentiontuner, gymnasium\n"
        "from attentiontuner.tasks import get_task\n"
        "print(get_task('remember-reach').max_steps)\n"
        "for make in (get_task('blink-count').make_env, lambda: gymnasium.make('AttentionTuner/BlinkCount-v0')):\n"
        "    try: make()\n"
        "    except attentiontuner.UserError as error: print(error)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    horizon, *lines = made.stdout.splitlines()
    assert horizon == "75"
    assert len(lines) == 2
    assert all(line.endswith("'mujoco', which is missing: pip install 'attentiontuner[robots]'") for line in lines)


def test_importing_the_package_imports_no_mujoco():
    code = "import sys, attentiontuner.tasks; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("place", [HOME, (0.45, 0.1, 0.012), (0.22, -0.25, 0.2), (0.1, 0.2, 0.1)])
def test_the_arm_stands_where_it_is_put_and_goes_where_it_is_told(place):
    env = remember_reach.RememberReachEnv(disturbance=0)
    env.reset(seed=0)
    env._data.qpos[:4] = pose_for(np.array(place))
    env.step(np.zeros(3))
    assert np.allclose(env.numbers()[TIP], place, atol=0.004)
    for _ in range(5):
        env.step(np.array([0, 0.5, 0.5]))  # 0.1 m/s, 5 cm
    assert np.allclose(env.numbers()[TIP] - place, [0, 0.05, 0.05], atol=0.012)


def test_the_button_counts_a_press_once_until_it_is_let_go():
    env = blink_count.BlinkCountEnv(disturbance=0)
    env.reset(seed=0, options={"blinks": 1})
    env._go_at = 0
    env._data.qpos[:4] = pose_for(np.array([*blink_count.BUTTON, 0.08]))
    down, up = np.array([0, 0, -1.0]), np.array([0, 0, 1.0])
    flashes = [env.step(action)[0][blink_count.PRESSED] for action in [down] * 8 + [up] * 4 + [down] * 8]
    assert sum(flashes) == env._presses == 2
    assert sum(flashes[:8]) == 1
    for depth, presses in ((0.009, 2), (0.006, 2), (0.009, 2), (0.002, 2), (0.006, 2), (0.009, 3)):
        env._data.qpos[env._slide] = depth
        env._judge(set())
        assert env._presses == presses, depth


def test_the_wrong_pad_is_a_failure():
    env = remember_colour.RememberColourEnv(disturbance=0)
    env.reset(seed=0, options={"colour": 0})
    env.steps = env._lit_at
    env._data.qpos[:4] = pose_for(np.array([*remember_colour.PLACES[env._place_of[1]], 0.03]))
    over = False
    while not over:
        _, reward, over, truncated, info = env.step(np.array([0, 0, -1.0]))
        assert not truncated
    assert (reward, info) == (0.0, {"success": False})


def test_bad_settings_options_and_actions_are_refused_in_words():
    for name, settings, said in [
        ("remember-reach", {"delay": 2}, "delay must be a whole number from 5 to 1000, not 2"),
        ("remember-colour", {"pads": 10}, "pads must be a whole number from 2 to 9, not 10"),
        ("blink-count", {"blinks": 0}, "blinks must be a whole number from 1 to 20, not 0"),
        ("blink-count", {"cameras": "yes"}, "cameras must be true, false or pixels a side, 36 to 512, not 'yes'"),
        ("blink-count", {"cameras": 8}, "cameras must be true, false or pixels a side, 36 to 512, not 8"),
        ("blink-count", {"disturbance": -1}, "disturbance must be a number from 0 to 1, not -1"),
        ("blink-count", {"lamps": 2}, "there is no setting 'lamps'; it takes blinks, cameras, disturbance"),
    ]:
        with pytest.raises(UserError, match=f"does not take these settings: {said}"):
            get_task(name, settings).make_env()
    env = get_task("remember-reach").make_env().unwrapped
    with pytest.raises(UserError, match="reset takes the option 'target', not 'colour'"):
        env.reset(options={"colour": 1})
    with pytest.raises(UserError, match=r"option 'target' is \(x, y\), not 3"):
        env.reset(options={"target": 3})
    env.reset(seed=0)
    with pytest.raises(UserError, match=r"an action is three finite numbers, not \[0.0, nan, 0.0\]"):
        env.step([0, np.nan, 0])
