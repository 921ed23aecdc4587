"""What LeRobot's own code wrote (`make_fixture.py`) is read."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attentiontuner.core.success import ReturnAtLeast
from attentiontuner.demos import read_annotations
from attentiontuner.demos.exchange.lerobot.features import read_came_with, words_of
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part
from attentiontuner.tasks.task import Task
from tests.demos.lerobot.examples import DATA, MADE, change_column, change_feature, change_info, copy_of
from tests.demos.lerobot.make_fixture import LENGTHS, TASKS, camera

SEEN = ObservationSpec(
    parts={
        "top": Part("image", (64, 96, 3)),
        "wrist": Part("image", (24, 32, 3)),
        "state": Part("vector", (3,)),
        "task": Part("vector", (2,), choices=(2,)),
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return from_lerobot(MADE, tmp_path_factory.mktemp("data") / "robot")


def test_features_become_specifications(store):
    assert store.observation == SEEN
    assert store.actions == ActionSpec.box([-np.inf] * 2, [np.inf] * 2)
    assert (store.task, store.settings, len(store)) == ("made", {}, 3)
    store.verify()
    assert Task.from_data(store).observation == SEEN


def test_numbers_are_those_that_were_written(store):
    said = json.loads((MADE / "made.json").read_text())
    for episode, length in enumerate(LENGTHS):
        found = store[episode]
        assert len(found) == length
        np.testing.assert_array_equal(found.observations["state"], np.array(said["state"][episode], np.float32))
        np.testing.assert_array_equal(found.actions, np.array(said["action"][episode], np.float32))
        assert found.rewards.tolist() == [0.0] * (length - 1) + [1.0]
        assert (found.success, found.terminated, found.truncated) == (episode != 1, True, False)


def test_images_are_the_same_and_videos_nearly(store):
    for episode, length in enumerate(LENGTHS):
        for step in range(length):
            seen = {name: store[episode].observations[name][step].astype(int) for name in ("top", "wrist")}
            np.testing.assert_array_equal(seen["wrist"], camera(24, 32, episode, step))
            off = [np.abs(seen["top"] - camera(64, 96, episode, other)).mean() for other in range(length)]
            assert off[step] == min(off)
            assert off[step] < 3


def test_tasks_are_ones_among_zeros(store):
    for episode, words in enumerate(TASKS):
        rows = store[episode].observations["task"]
        assert (rows == [words == TASKS[0], words == TASKS[1]]).all()
    assert json.loads((store.path / "lerobot.json").read_text())["tasks"] == list(dict.fromkeys(TASKS))


def test_an_episode_says_its_task_in_words(store):
    came, demonstration = read_came_with(store.path), store[1]
    assert [words_of(came, store[episode]) for episode in range(3)] == list(TASKS)
    several = np.eye(2, dtype=np.float32)[[1] * 3 + [0] * (len(demonstration) - 3)]
    changed = replace(demonstration, observations={**demonstration.observations, "task": several}, pairs=None)
    assert words_of(came, changed) == " → ".join(came["tasks"][::-1])
    assert words_of({**came, "tasks": ["go on"]}, demonstration) == "go on"
    assert words_of({**came, "tasks": ["a", "b", "c"]}, demonstration) == words_of({}, demonstration) == ""


def test_recall_events_are_the_pairs_of_their_annotator(store):
    found = read_annotations(store.path, "anna")
    assert {episode: list(one.pairs) for episode, one in found.items()} == {0: [(0, 6, 1)], 2: [(0, 8, 1)]}
    assert store.annotators() == ["anna"]
    assert store[1].pairs is None


def test_success_may_be_said_otherwise(tmp_path):
    root = copy_of(tmp_path)
    assert from_lerobot(root, tmp_path / "a", success=ReturnAtLeast(2)).success().tolist() == [False] * 3
    change_column(root / DATA, "next.reward", lambda rewards: [0.0] * len(rewards))
    assert from_lerobot(root, tmp_path / "b", task="other").success().tolist() == [True, False, True]


def test_whole_numbers_are_discrete_actions(tmp_path):
    root = copy_of(tmp_path)
    (root / "meta" / "stats.json").write_text(json.dumps({"action": {"max": [4]}}))
    change_feature(root, "action", dtype="int64", shape=[1], names=None)
    change_column(root / DATA, "action", lambda actions: pa.array([n % 5 for n in range(len(actions))]))
    store = from_lerobot(root, tmp_path / "d")
    assert store.actions == ActionSpec.discrete(5)
    assert store[0].actions.tolist() == [0, 1, 2, 3, 4, 0, 1]
    named = from_lerobot(root, tmp_path / "e", actions=ActionSpec.discrete(["a", "b", "c", "d", "e", "f"]))
    assert named.actions.count == 6


def test_what_is_no_image_and_no_number_is_left_out(tmp_path):
    from attentiontuner.demos.exchange.lerobot.features import plan_of
    from attentiontuner.demos.exchange.lerobot.layout import read_layout

    root = copy_of(tmp_path)
    change_feature(root, "observation.state", dtype="string")
    change_feature(root, "observation.images.top", info={"is_depth_map": True})
    plan = plan_of(read_layout(root))
    assert [source.part for source in plan.sources] == ["wrist", "task"]
    assert plan.left_out == {
        "observation.images.top": "a depth map",
        "observation.state": "of type string",
        "language_persistent": "neither an observation nor 'action'",
    }


def test_two_parts_never_share_a_name(tmp_path):
    root = copy_of(tmp_path)
    info = json.loads((root / "meta" / "info.json").read_text())
    features = {name.replace("images.wrist", "images.state"): feature for name, feature in info["features"].items()}
    change_info(root, features=features)
    table = pq.read_table(root / DATA)
    names = [name.replace("images.wrist", "images.state") for name in table.column_names]
    pq.write_table(table.rename_columns(names), root / DATA)
    parts = [name for name, _ in from_lerobot(root, tmp_path / "d").observation.parts]
    assert parts == ["top", "observation.images.state", "observation.state", "task"]


def test_episodes_are_read_wherever_row_groups_end(tmp_path):
    root = copy_of(tmp_path)
    pq.write_table(pq.read_table(root / DATA), root / DATA, row_group_size=4)
    store = from_lerobot(root, tmp_path / "d")
    assert store.lengths.tolist() == list(LENGTHS)


def test_a_shard_is_written_when_it_is_large(tmp_path, monkeypatch):
    monkeypatch.setattr("attentiontuner.demos.exchange.lerobot.importing.SHARD_BYTES", 1)
    store = from_lerobot(MADE, tmp_path / "d")
    assert [shard.episodes for shard in store.manifest.shards] == [1, 1, 1]
    assert list(store[2].pairs) == [(0, 8, 1)]
