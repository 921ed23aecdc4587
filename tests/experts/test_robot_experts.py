"""The experts of the robot tasks: they succeed on every seed, and recall the steps that tell what they need."""

import numpy as np
import pytest

from attentiontuner.collecting.episode import record_episode
from attentiontuner.tasks.task import get_task

pytest.importorskip("mujoco")

from attentiontuner.envs import blink_count, remember_colour, remember_reach

SETTINGS = [
    ("remember-reach", {}),
    ("remember-colour", {}),
    ("remember-colour", {"pads": 9}),
    ("blink-count", {}),
]


def episodes(name, settings, seeds):
    task = get_task(name, settings)
    env = task.make_env()
    for seed in seeds:
        yield record_episode(task, env, seed)


def rows(episode):
    """q → the steps recalled there."""
    recalled = {}
    for p, q, times in np.asarray(episode.pairs["expert"]):
        assert times == 1
        recalled.setdefault(int(q), []).append(int(p))
    return recalled


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_solves_every_seed(name, settings):
    for episode in episodes(name, settings, range(12)):  # recording refuses a failure
        assert episode.demonstration.success


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_solves_five_hundred_seeds(name, settings):
    assert sum(episode.demonstration.success for episode in episodes(name, settings, range(500))) == 500


@pytest.mark.parametrize(
    ("name", "go", "cue"),
    [
        ("remember-reach", remember_reach.GO, [remember_reach.LIT]),
        ("remember-colour", slice(remember_colour.PADS.start, None, 3), remember_colour.SCREEN),
    ],
)
def test_every_step_of_the_movement_recalls_the_cue(name, go, cue):
    for episode in episodes(name, {}, range(3)):
        seen = episode.demonstration.observations
        moving = np.flatnonzero(seen[:, go].reshape(len(seen), -1).any(1))
        lit = np.flatnonzero(seen[:, cue].any(1)).tolist()
        assert lit == [0, 1, 2, 3, 4]
        assert rows(episode) == {int(q): lit for q in moving}


def test_every_step_of_the_answer_recalls_all_blinks_and_all_presses_before():
    numbers = set()
    for episode in episodes("blink-count", {}, range(8)):
        seen = episode.demonstration.observations
        told = np.flatnonzero(seen[:, blink_count.BLINK] + seen[:, blink_count.PRESSED])
        answering = np.flatnonzero(seen[:, blink_count.GO])
        assert rows(episode) == {int(q): told[told < q].tolist() for q in answering}
        assert seen[:, blink_count.BLINK].sum() == seen[:, blink_count.PRESSED].sum()
        numbers.add(int(seen[:, blink_count.BLINK].sum()))
    assert len(numbers) > 3


@pytest.mark.parametrize("name", ["remember-reach", "remember-colour", "blink-count"])
def test_actions_are_smooth_and_within_bounds(name):
    """Nearly all steps change the action by little: what is cloned is no bang-bang control."""
    for episode in episodes(name, {"disturbance": 0.0}, range(3)):
        actions = episode.demonstration.actions
        assert np.linalg.norm(actions, axis=1).max() <= 1 + 1e-6
        changes = np.linalg.norm(np.diff(actions, axis=0), axis=1)
        assert np.mean(changes > 0.5) < 0.25


@pytest.mark.parametrize("name", ["remember-reach", "remember-colour", "blink-count"])
def test_the_expert_comes_back_from_where_it_was_pushed(name):
    for episode in episodes(name, {"disturbance": 0.15}, range(5)):
        assert episode.demonstration.success
