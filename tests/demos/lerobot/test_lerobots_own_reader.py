"""LeRobot's own code reads and edits what we write, and we read it again. Runs where `lerobot` (0.6 or newer) is."""

import json
from importlib.metadata import version

import numpy as np
import pytest

from attentiontuner.demos import DemoStore, read_annotations
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from tests.demos.examples import KINDS_OF_ACTIONS, make_writer, parts_demonstrations, write_store
from tests.demos.lerobot.examples import MADE

pytest.importorskip("lerobot", reason="lerobot is not installed: pip install 'lerobot[dataset]'")
datasets = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="lerobot does not import here")
if tuple(map(int, version("lerobot").split(".")[:2])) < (0, 6):
    pytest.skip("lerobot is older than 0.6: it does not know language events", allow_module_level=True)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def opened(root):
    return datasets.LeRobotDataset("made/up", root=root, video_backend="pyav")


@pytest.mark.parametrize("cameras", ["image", "video"])
def test_what_we_write_is_read(tmp_path, cameras):
    store = from_lerobot(MADE, tmp_path / "d")
    theirs = opened(to_lerobot(store, tmp_path / "robot", cameras=cameras))
    assert (theirs.num_episodes, len(theirs), theirs.fps) == (3, int(store.lengths.sum()), 10)
    index = 0
    for episode, demonstration in enumerate(store):
        for step in range(len(demonstration)):
            item = theirs[index]
            assert (int(item["episode_index"]), int(item["frame_index"])) == (episode, step)
            assert item["task"] == ("press the button" if episode == 1 else "put the cube where it was")
            np.testing.assert_array_equal(item["action"], demonstration.actions[step])
            np.testing.assert_array_equal(item["observation.state"], demonstration.observations["state"][step])
            seen = (255 * item["observation.images.top"].permute(1, 2, 0)).round().numpy()
            off = np.abs(seen - demonstration.observations["top"][step])
            assert off.max() == 0 if cameras == "image" else off.mean() < 4
            index += 1
        recalled = [json.loads(row["content"]) for row in item["language_events"] if row["style"] == "recall"]
        assert recalled == ([] if episode == 1 else [{"by": "anna", "p": [0], "m": [1]}])
    np.testing.assert_allclose(
        theirs.meta.stats["action"]["mean"], np.concatenate([d.actions for d in store]).mean(0), rtol=1e-5
    )


@pytest.mark.parametrize("actions", KINDS_OF_ACTIONS)
def test_any_kind_of_part_and_action_is_read(tmp_path, actions):
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    theirs = opened(to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot"))
    item = theirs[1]
    np.testing.assert_array_equal(item["observation.view"], made[0].observations["view"][1])
    np.testing.assert_array_equal(item["action"], made[0].actions[1])


@pytest.mark.parametrize("cameras", ["image", "video"])
def test_their_tools_keep_the_pairs(tmp_path, cameras):
    from lerobot.datasets.dataset_tools import delete_episodes, merge_datasets

    store = from_lerobot(MADE, tmp_path / "d")
    theirs = opened(to_lerobot(store, tmp_path / "robot", cameras=cameras))
    delete_episodes(theirs, [0], output_dir=tmp_path / "cut", repo_id="made/cut")
    cut = from_lerobot(tmp_path / "cut", tmp_path / "cut-back")
    assert cut.lengths.tolist() == store.lengths.tolist()[1:]
    assert {n: list(one.pairs) for n, one in read_annotations(cut.path, "anna").items()} == {1: [(0, 8, 1)]}
    merge_datasets([theirs, opened(tmp_path / "robot")], output_repo_id="made/two", output_dir=tmp_path / "two")
    two = from_lerobot(tmp_path / "two", tmp_path / "two-back")
    assert len(two) == 6
    assert sorted(read_annotations(two.path, "anna")) == [0, 2, 3, 5]


def test_symbols_and_their_annotations_are_read(tmp_path):
    written = write_store(tmp_path / "d", 8)
    theirs = opened(to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot"))
    np.testing.assert_array_equal(theirs[2]["observation.grid"], written[0].observations[2])
    assert len(theirs) == sum(map(len, written))
