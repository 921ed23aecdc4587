import pickle
from dataclasses import replace
from importlib.metadata import EntryPoint

import gymnasium as gym
import numpy as np
import pytest

import attentiontuner.tasks as tasks
from attentiontuner.errors import UserError
from attentiontuner.observations import ObservationSpec
from attentiontuner.tasks import all_tasks, get_task, register_task, reported_success
from tests.toy_task import TOY, ToyEnv


@pytest.mark.parametrize("name", sorted(all_tasks()))
def test_every_task_is_whole(name):
    task = get_task(name)
    pickle.loads(pickle.dumps(task))  # noqa: S301 - collecting sends tasks to its worker processes
    assert task.name == name
    assert task.max_steps > 0
    assert all(0 <= action < len(task.actions) for action in task.keys.values())
    if task.needs is not None:
        pytest.importorskip(task.needs[0])
    env = task.make_env()
    observation, _ = env.reset(seed=1)
    assert observation.shape == task.observation.shape
    assert observation.dtype == task.observation.dtype
    assert env.action_space.n == len(task.actions)
    env.close()


def test_settings_are_replaced_and_the_horizon_follows():
    assert get_task("toy", {"length": 9}).max_steps == 9
    assert get_task("toy").settings == {"length": 5}
    assert get_task("hallway", {"length": 10}).max_steps == 65


def test_unknown_names_and_settings_are_refused_in_words():
    with pytest.raises(UserError, match="unknown task 'halway': the tasks are hallway.*--import FILE"):
        get_task("halway")
    with pytest.raises(UserError, match="does not take these settings.*width"):
        get_task("toy", {"width": 1}).make_env()
    with pytest.raises(UserError, match="does not take these settings: length must be"):
        get_task("hallway", {"length": 0}).make_env()
    with pytest.raises(UserError, match="Gymnasium does not know 'Nowhere-v0' .*call gymnasium.register"):
        replace(TOY, env_id="Nowhere-v0").make_env()
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
        assert replace(TOY, env_id="Plain-v0", settings={}).make_env().reset(seed=1)[0].shape == TOY.observation.shape
    finally:
        gym.registry.pop("Plain-v0")


def test_observations_are_cast_where_nothing_is_lost():
    vector = replace(TOY, observation=ObservationSpec("vector", (2,)))
    image = replace(TOY, observation=ObservationSpec("image", (1, 2, 3)))
    assert vector.seen([1, 2]).dtype == np.float32
    assert vector.seen(np.array([0.5, 2.0])).tolist() == [0.5, 2.0]
    assert image.seen(np.full((1, 2, 3), 255)).dtype == np.uint8
    for bad in (np.full((1, 2, 3), 0.5), np.full((1, 2, 3), 256), np.full((1, 2, 3), -1)):
        with pytest.raises(UserError, match=r"make bytes of it in the task's wrap"):
            image.seen(bad)
    with pytest.raises(UserError, match=r"gives observations of shape \(3,\) .* promises \(2,\) and float32$"):
        vector.seen(np.zeros(3))


def test_images_of_before_are_not_upright_and_channels_come_last():
    stored = ObservationSpec("image", (84, 84, 3), upright=False).to_json()
    assert "upright" not in stored
    assert not ObservationSpec.from_json(stored).upright
    for spec in (ObservationSpec("image", (48, 64, 3)), ObservationSpec("vector", (3,)), TOY.observation):
        assert ObservationSpec.from_json(spec.to_json()) == spec
    with pytest.raises(UserError, match=r"\(3, 64, 64\) is not RGB: its three colours come last"):
        ObservationSpec("image", (3, 64, 64))


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


def register_from_entry_point() -> None:
    register_task(replace(TOY, name="from-a-package"))


def test_success_is_what_info_says_or_a_positive_last_reward():
    assert reported_success(0.0, False, {"success": True})
    assert not reported_success(1.0, True, {"is_success": False})
    assert reported_success(0.5, True, {})
    assert not reported_success(0.5, False, {})
    assert not reported_success(0.0, True, {})


def test_a_horizon_that_cannot_be_told_from_the_settings_is_one_line():
    task = replace(get_task("hallway"), horizon=lambda settings: settings["length"] + 1).with_settings(
        {"length": "abc"}
    )
    with pytest.raises(
        UserError, match=r"task 'hallway': its horizon .* settings .*'abc'.*test_tasks.py, line \d+: Type"
    ):
        _ = task.max_steps
