import pickle
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import gymnasium as gym
import numpy as np
import pytest

import attentiontuner.tasks.task as tasks
from attentiontuner.core.errors import UserError
from attentiontuner.core.success import LengthAtLeast, ReturnAtLeast, recorded_success, reported_success
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part
from attentiontuner.tasks.task import Task, all_tasks, get_task, list_tasks, register_task
from tests.toy_task import TOY, ToyEnv


@pytest.mark.parametrize("name", sorted(name for name, task in all_tasks().items() if task.env_id is not None))
def test_every_task_is_whole(name):
    task = get_task(name)
    pickle.loads(pickle.dumps(task))  # noqa: S301 - collecting sends tasks to its worker processes
    assert task.name == name
    assert task.max_steps > 0
    for number in task.keys.values():
        assert np.array_equal(task.actions.one(task.playable[number][1]), np.float32(task.playable[number][1]))
    if task.needs is not None:
        pytest.importorskip(task.needs[0])
    env = task.make_env()
    observation, _ = env.reset(seed=1)
    if any(part.choices for _, part in task.observation.parts):
        assert ObservationSpec.from_space(env.observation_space) == task.observation
        assert task.seen(observation).sum() == len(task.observation.parts[0][1].choices)  # ones among zeros
    else:
        np.testing.assert_equal(task.seen(observation), observation)  # an array, or one for each part
    assert ActionSpec.from_space(env.action_space) == task.actions
    env.close()


def test_settings_are_replaced_and_the_horizon_follows():
    assert get_task("toy", {"length": 9}).max_steps == 9
    assert get_task("toy").settings == {"length": 5}
    assert get_task("hallway", {"length": 10}).max_steps == 65


def _squares(settings):
    return ObservationSpec("vector", (settings["length"] ** 2,))


def test_settings_may_change_what_is_seen():
    task = replace(TOY, observes=_squares)
    assert task.observation.parts[0][1].shape == (25,)
    assert task.with_settings({"length": 3}).observation.parts[0][1].shape == (9,)
    assert get_task("remember-reach").observation == ObservationSpec("vector", (18,))
    seen = get_task("remember-reach", {"cameras": True}).observation
    assert str(seen) == "camera image 128×128×3, state vector 14"


def _in_two_lines(env):
    raise RuntimeError("first\nsecond")


def test_unknown_names_and_settings_are_refused_in_words():
    with pytest.raises(UserError, match="unknown task 'halway': did you mean hallway\\?.*--import FILE"):
        get_task("halway")
    with pytest.raises(UserError, match="does not take these settings.*width"):
        get_task("toy", {"width": 1}).make_env()
    with pytest.raises(UserError, match="does not take these settings: length must be"):
        get_task("hallway", {"length": 0}).make_env()
    with pytest.raises(UserError, match="Gymnasium does not know 'Nowhere-v0' .*call gymnasium.register"):
        replace(TOY, env_id="Nowhere-v0").make_env()
    for wrong in ({"register": "no_such_module"}, {"wrap": "tests.toy_task:no_such_wrap"}, {"wrap": _in_two_lines}):
        with pytest.raises(UserError, match=r"task 'toy': its (environment cannot be made|wrap fails): ") as told:
            replace(TOY, **wrong).make_env()
        assert "\n" not in str(told.value)
    with pytest.raises(UserError, match="has no environment .*: it can be trained on, not played"):
        replace(TOY, env_id=None).make_env()
    with pytest.raises(UserError, match="has no scripted expert"):
        replace(TOY, expert=None).make_expert(TOY.make_env())


def test_an_environment_need_not_know_of_rendering():
    class Plain(ToyEnv):
        def __init__(self) -> None:
            super().__init__()

    gym.register("Plain-v0", entry_point=Plain)
    try:
        assert TOY.seen(replace(TOY, env_id="Plain-v0", settings={}).make_env().reset(seed=1)[0]).shape == (2, 2, 1)
    finally:
        gym.registry.pop("Plain-v0")


def test_observations_are_cast_where_nothing_is_lost():
    vector = replace(TOY, observation=ObservationSpec("vector", (2,)))
    image = replace(TOY, observation=ObservationSpec("image", (1, 2, 3)))
    assert vector.seen([1, 2]).dtype == np.float32
    assert vector.seen(np.array([0.5, 2.0])).tolist() == [0.5, 2.0]
    assert image.seen(np.full((1, 2, 3), 255)).dtype == np.uint8
    for bad in (np.full((1, 2, 3), 256), np.full((1, 2, 3), -1), np.full((1, 2, 3), 0.5)):
        with pytest.raises(UserError, match=r"gives observations that task 'toy' does not promise: .*255"):
            image.seen(bad)
    with pytest.raises(UserError, match=r"shape \(3,\), not float32 of shape \(2,\); mend .*observation \(vector 2\)"):
        vector.seen(np.zeros(3))
    with pytest.raises(UserError, match="symbol 5 in channel 0, which has 5 symbols"):
        TOY.seen(np.full((2, 2, 1), 5, np.uint8))


def test_what_was_seen_is_a_copy():
    for task, given in (
        (TOY, np.zeros((2, 2, 1), np.uint8)),
        (TOY, np.zeros((2, 2, 1), np.int64)),
        (replace(TOY, observation=ObservationSpec("vector", (4,))), np.zeros((2, 2), np.float32)),
    ):
        seen = task.seen(given)
        given += 1
        assert not seen.any()


def test_several_parts_are_seen_as_a_dictionary():
    spec = ObservationSpec(parts={"arm": Part("vector", (2,)), "view": Part("grid", (2, 2, 1), (5,))})
    task = replace(TOY, observation=spec)
    given = {"view": np.ones((2, 2, 1), int), "arm": [1, 2]}
    seen = task.seen(given)
    assert {name: array.dtype for name, array in seen.items()} == {"arm": np.float32, "view": np.uint8}
    given["view"] += 9
    assert (seen["view"] == 1).all()
    with pytest.raises(UserError, match="does not promise: part 'view': symbol 10 in channel 0"):
        task.seen(given)
    with pytest.raises(UserError, match="does not promise: parts arm, view are promised, not arm"):
        task.seen({"arm": [1, 2]})


def test_actions_may_be_names_or_a_specification():
    assert TOY.actions == ActionSpec.discrete(3)
    assert TOY.actions.names == ("stay", "one", "two")
    box = ActionSpec.box([-1], [1])
    assert replace(TOY, actions=box).actions is box


def test_a_registered_task_replaces_the_one_of_its_name():
    try:
        register_task(replace(TOY, title="Other"))
        assert get_task("toy").title == "Other"
    finally:
        register_task(TOY)


def test_entry_points_of_other_packages_are_loaded(monkeypatch):
    point = EntryPoint("toy", "tests.test_tasks:register_from_entry_point", "attentiontuner.tasks")
    monkeypatch.setattr(tasks, "entry_points", lambda group: [point] if group == "attentiontuner.tasks" else [])
    monkeypatch.setattr(tasks, "_entry_points_loaded", False)
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    assert get_task("from-a-package").title == "Toy"


def test_a_broken_entry_point_is_left_out_in_one_line(monkeypatch, capsys):
    names = ("tests.test_tasks:register_from_entry_point", "no_such_package:register", "tests.test_tasks:broken")
    points = [EntryPoint(name, name, "attentiontuner.tasks") for name in reversed(names)]
    monkeypatch.setattr(tasks, "entry_points", lambda group: points)
    monkeypatch.setattr(tasks, "_entry_points_loaded", False)
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    assert "hallway" in all_tasks()
    assert "from-a-package" in all_tasks()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith(
        "attentiontuner: entry point 'tests.test_tasks:broken' (tests.test_tasks:broken) is left out"
    )
    assert "ZeroDivisionError" in said[0]
    assert "no_such_package" in said[1]


def broken() -> None:
    _ = 1 / 0


def register_from_entry_point() -> None:
    register_task(replace(TOY, name="from-a-package"))


def test_success_is_what_info_says_or_a_positive_last_reward():
    assert reported_success(0.0, False, {"success": True})
    assert not reported_success(1.0, True, {"is_success": False})
    assert reported_success(0.5, True, {})
    assert not reported_success(0.5, False, {})
    assert not reported_success(0.0, True, {})


def test_success_by_return_or_by_length_can_be_said():
    for rule, solved in ((ReturnAtLeast(3), [False, True]), (LengthAtLeast(4), [True, False])):
        task = replace(TOY, success=rule)
        assert [task.solved(0.0, False, {}, total, steps) for total, steps in ((2.5, 4), (3.0, 3))] == solved
    own = replace(TOY, success=lambda reward, terminated, info: info["episode"] == {"r": 2.5, "l": 4})
    assert own.solved(0.0, True, {"episode": "another's"}, 2.5, 4)


@pytest.mark.parametrize(
    ("rewards", "terminated", "info", "threshold", "solved"),
    [
        ([1.0, 1.0, 1.0], True, {}, None, False),  # it fell
        ([1.0, 1.0, 1.0], False, {}, None, True),  # it stood until time was up
        ([-1.0, -1.0], True, {}, None, True),  # it arrived
        ([-1.0, -1.0], False, {}, None, False),  # it never did
        ([0.0, 0.0], True, {}, None, False),
        ([0.0, 1.0], True, {}, None, True),
        ([0.0, 1.0], False, {}, None, False),
        ([2.0, 1.0], False, {}, 3.0, True),
        ([2.0, 0.5], True, {}, 3.0, False),
        ([1.0], True, {}, None, True),
        ([1.0, 1.0], True, {"success": True}, None, True),
    ],
)
def test_of_a_recording_the_end_tells_whether_it_was_solved(rewards, terminated, info, threshold, solved):
    assert recorded_success(rewards, terminated, info, threshold) is solved


def test_an_environment_says_what_its_task_is():
    room = Task.from_env("MiniGrid-MemoryS13-v0", name="memory-room", settings={"size": 11})
    assert room.observation == get_task("hallway").observation
    assert room.actions.names == get_task("hallway").actions.names
    assert (room.name, room.title, room.max_steps) == ("memory-room", "MiniGrid-MemoryS13", 5 * 11 * 11)
    assert room.with_settings({"size": 7}).max_steps == 5 * 7 * 7
    env = room.make_env()
    assert room.seen(env.reset(seed=1)[0]).shape == (7, 7, 3)
    pickle.loads(pickle.dumps(room))  # noqa: S301
    pole = Task.from_env("CartPole-v1", actions=("left", "right"))
    assert (pole.name, pole.observation, pole.max_steps) == ("cartpole", ObservationSpec("vector", (4,)), 500)
    assert pole.actions.names == ("left", "right")
    assert [pole.solved(1.0, False, {}, total, 500) for total in (474.0, 475.0)] == [False, True]
    assert not replace(pole, success=LengthAtLeast(501)).solved(1.0, False, {}, 500.0, 500)


@pytest.mark.parametrize(
    ("env_id", "fields", "told"),
    [
        ("Nowhere-v0", {}, "task 'nowhere': Gymnasium does not know 'Nowhere-v0'"),
        ("CartPole-v77", {}, "task 'cartpole': Gymnasium does not know 'CartPole-v77'"),
        ("no_such_module:X-v0", {}, "task 'x': its environment cannot be made: .*no_such_module"),
        ("tests.toy_task:Toy-v0", {}, "task 'toy': its environment does not say how long .*give horizon="),
        ("tests.toy_task:Toy-v0", {"horizon": 0}, "task 'toy': its horizon is 0: give at least 1"),
        ("MiniGrid-MemoryS13-v0", {"wrap": dict.fromkeys}, "task 'minigrid-memorys13': its wrap fails"),
        ("MiniGrid-MemoryS13-v0", {"wrap": lambda env: env}, "'MiniGrid-MemoryS13-v0': observations of MissionSpace"),
    ],
)
def test_what_an_environment_does_not_say_is_asked_for_in_one_line(env_id, fields, told):
    with pytest.raises(UserError, match=told) as refused:
        Task.from_env(env_id, **fields)
    assert "\n" not in str(refused.value)


def test_a_horizon_that_cannot_be_told_from_the_settings_is_one_line():
    task = replace(get_task("hallway"), horizon=lambda settings: settings["length"] + 1).with_settings(
        {"length": "abc"}
    )
    with pytest.raises(
        UserError, match=r"task 'hallway': its horizon .* settings .*'abc'.*test_tasks.py, line \d+: Type"
    ):
        _ = task.max_steps


IN_A_NOTEBOOK = """
import gymnasium as gym, attentiontuner as at
class Light(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (2,)), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = int(self.np_random.integers(2))
        return self.observation_space.low + self.goal, {}
    def step(self, action):
        return self.observation_space.low, float(action == self.goal), True, False, {}
class Follow:
    def __init__(self, env): pass
    def decide(self, seen): return at.Decision(int(seen[0]))
gym.register("Light-v0", Light, max_episode_steps=1)
task = at.Task.from_env("Light-v0", expert=Follow)
assert len(at.collect(task, 6, seed=0, out="data", shard_episodes=2)) == 6
class Sighted:
    def reset(self, n): pass
    def restart(self, rows): pass
    def act(self, seen): return seen[:, 0].astype(int)
print(at.evaluate(Sighted(), task, 100)[1]["success_rate"])
at.evaluate(Sighted(), task, 100, workers=2)
"""


def test_a_task_of_a_notebook_is_played_in_its_own_process(tmp_path):
    """What is defined there no other process can import: where workers are asked for, that is said."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "1.0\n", ran.stderr
    said = ran.stderr.splitlines()[-1]
    assert "UserError: task 'light' cannot be sent to worker processes" in said
    assert "the environment of a notebook: put it into a file and import that, or use --workers 0" in said


def test_the_names_of_tasks_are_listed_in_python():
    names = list_tasks()
    assert {"hallway", "counting", "tmaze"} <= set(names)
    assert all(get_task(name).name == name for name in names)
