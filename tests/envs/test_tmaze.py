"""The T-maze and its expert."""

import numpy as np
import pytest

from attentiontuner.collecting import episode as recording
from attentiontuner.collecting.collection import collect
from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.errors import UserError
from attentiontuner.envs.tmaze import CUES, EMPTY, FORWARD, LEFT, NICHE, OTHERS, RIGHT, SPARE, WALL
from attentiontuner.tasks.task import get_task

SETTINGS = [{}, {"length": 10}, {"cues": 2}, {"distractors": 0.5}, {"length": 37, "cues": 2, "distractors": 1.0}]


def made(seed=0, options=None, **settings):
    env = get_task("tmaze", settings).make_env()
    return env, env.reset(seed=seed, options=options)[0]


def beside(observation):
    return tuple(observation[NICHE].tolist())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_expert_solves_every_seed_and_recalls_the_cues(settings):
    task = get_task("tmaze", settings)
    env, length, cues = task.make_env(), task.settings["length"], task.settings["cues"]
    turns = set()
    for seed in range(40):
        episode = record_episode(task, env, seed)  # which refuses a failure
        demonstration = episode.demonstration
        assert len(demonstration) == length
        assert set(demonstration.actions[:-1].tolist()) == {FORWARD}
        turns.add(int(demonstration.actions[-1]))
        seen = [step for step in range(length) if beside(demonstration.observations[step]) in CUES]
        assert len(seen) == cues
        assert seen[0] == 0
        assert all(step <= length // 2 for step in seen)
        assert np.asarray(episode.pairs["expert"]).tolist() == [[step, length - 1, 1] for step in seen]
    assert turns == {LEFT, RIGHT}


def test_what_the_cues_say():
    for turn in (LEFT, RIGHT):
        _, first = made(options={"cue": turn})
        assert beside(first) == CUES[turn]
        for seed in range(8):
            env, observation = made(seed, {"cue": turn}, cues=2, length=20)
            seen = []
            for _ in range(20):
                seen += [beside(observation)] if beside(observation) in CUES else []
                observation, *_ = env.step(FORWARD)
            assert (seen[0] == seen[1]) == (turn == LEFT)


def test_the_wrong_turn_fails_and_walls_are_in_the_way():
    env, _ = made(length=10, options={"cue": LEFT})
    for action in (LEFT, RIGHT):
        observation, *_ = env.step(action)
        assert beside(observation) == CUES[LEFT]  # still at the start
    for _ in range(9):
        observation, reward, terminated, *_ = env.step(FORWARD)
        assert not terminated
    assert beside(observation) == EMPTY
    assert tuple(observation[1, 0].tolist()) == WALL
    env.step(FORWARD)
    _, reward, terminated, truncated, info = env.step(RIGHT)
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)


def test_an_episode_ends_when_its_spare_steps_are_over():
    env, _ = made(length=10)
    for number in range(10 + SPARE):
        _, _, terminated, truncated, info = env.step(LEFT)
        assert truncated == (number == 10 + SPARE - 1)
        assert not terminated
    assert info == {"success": False}
    assert get_task("tmaze", {"length": 10}).max_steps == 10 + SPARE


def test_distractors_are_as_many_as_asked_for():
    task = get_task("tmaze", {"length": 2000, "distractors": 0.25})
    seen = [beside(one) for one in record_episode(task, task.make_env(), 3).demonstration.observations]
    assert 0.2 < np.mean([thing in OTHERS for thing in seen]) < 0.3
    assert set(seen) == {*OTHERS, seen[0], WALL, EMPTY}


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [("length", 9), ("length", 1_000_001), ("length", 20.5), ("cues", 3), ("distractors", 1.5), ("distractors", "x")],
)
def test_wrong_settings_are_refused(setting, wrong):
    with pytest.raises(UserError, match=f"does not take these settings: {setting} must be .*, not {wrong}"):
        get_task("tmaze", {setting: wrong}).make_env()


def test_a_long_episode_is_recorded_in_pieces(monkeypatch):
    task = get_task("tmaze", {"length": 50, "distractors": 0.5})
    whole = record_episode(task, task.make_env(), 5).demonstration
    for piece in (7, 50, 49):
        monkeypatch.setattr(recording, "PIECE", piece)
        cut = record_episode(task, task.make_env(), 5).demonstration
        assert np.array_equal(cut.observations, whole.observations)
        assert cut.observations.dtype == whole.observations.dtype


def test_shards_of_long_episodes_hold_fewer(tmp_path):
    store = collect(get_task("tmaze", {"length": 30_000}), 1, 1, tmp_path / "long", 1)
    assert store.manifest.shard_episodes == 65
    assert store.lengths.tolist() == [30_000]
    assert collect(get_task("tmaze", {"length": 10}), 1, 1, tmp_path / "short", 1).manifest.shard_episodes == 250
