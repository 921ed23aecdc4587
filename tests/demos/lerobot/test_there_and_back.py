"""What is written as a LeRobot data set comes back as it was."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.demos import Annotation, Demonstration, DemoStore, PairTable, read_annotations, write_annotation
from attentiontuner.demos.exchange.lerobot import exporting, statistics
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.demos.exchange.lerobot.layout import StepError
from attentiontuner.demos.exchange.lerobot.recall_events import annotations_of, events_of
from attentiontuner.spaces.observation import ObservationSpec, Part
from tests.demos.examples import (
    KINDS_OF_ACTIONS,
    assert_equal,
    make_writer,
    parts_demonstrations,
    uncertain_rows,
    uncertain_table,
    write_store,
)
from tests.demos.lerobot.examples import MADE


def test_there_and_back_again(tmp_path):
    written = write_store(tmp_path / "d", 30)
    to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot")
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    store = DemoStore.open(tmp_path / "d")
    for name in ("task", "settings", "observation", "actions", "seed"):
        assert getattr(back, name) == getattr(store, name), name
    assert back.actions.names == store.actions.names
    for found, expected in zip(back, written, strict=True):
        assert_equal(found, expected)


@pytest.mark.parametrize("actions", KINDS_OF_ACTIONS)
def test_parts_and_other_actions_go_there_and_back(tmp_path, actions):
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot")
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    assert (back.observation, back.actions) == (spec, actions)
    for found, expected in zip(back, made, strict=True):
        assert_equal(found, expected)


@pytest.mark.parametrize(
    "part",
    [Part("image", (5, 8, 3), upright=False), Part("image", (4, 6, 4)), Part("vector", (1,)), Part("vector", (2,))],
    ids=str,
)
def test_plain_observations_go_there_and_back(tmp_path, part):
    rng = np.random.default_rng(3)
    size = (6, *part.shape)
    seen = rng.normal(size=size).astype(np.float32) if part.kind == "vector" else rng.integers(0, 256, size, np.uint8)
    made = Demonstration(seen, rng.integers(0, 3, 6))
    make_writer(tmp_path / "d", observation=ObservationSpec(parts={"": part})).append([made])
    to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot")
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    assert back.observation == ObservationSpec(parts={"": part})
    assert_equal(back[0], made)


def test_a_data_set_of_lerobots_goes_back_as_it_came(tmp_path):
    store = from_lerobot(MADE, tmp_path / "d")
    to_lerobot(store, tmp_path / "robot")
    theirs, ours = (json.loads((root / "meta" / "info.json").read_text()) for root in (MADE, tmp_path / "robot"))
    for key in ("fps", "robot_type", "total_episodes", "total_frames", "total_tasks", "splits"):
        assert ours[key] == theirs[key], key
    for name in ("observation.state", "action", "next.reward"):
        assert ours["features"][name] == theirs["features"][name]
    assert pq.read_table(tmp_path / "robot" / "meta" / "tasks.parquet").to_pylist() == [
        {"task_index": 0, "task": "put the cube where it was"},
        {"task_index": 1, "task": "press the button"},
    ]
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    for found, expected in zip(back, store, strict=True):
        assert_equal(found, expected)


def test_videos_are_nearly_the_same_and_their_frames_in_order(tmp_path):
    store = from_lerobot(MADE, tmp_path / "d")
    to_lerobot(store, tmp_path / "robot", cameras="video", fps=25)
    assert json.loads((tmp_path / "robot" / "meta" / "info.json").read_text())["fps"] == 25
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    for found, expected in zip(back, store, strict=True):
        for name in ("top", "wrist"):
            here, there = (one.observations[name].astype(int) for one in (found, expected))
            assert np.abs(here - there).mean() < 4
        np.testing.assert_array_equal(found.observations["state"], expected.observations["state"])


@pytest.mark.parametrize("cameras", ["image", "video"])
def test_large_data_sets_have_several_files(tmp_path, monkeypatch, cameras):
    monkeypatch.setattr(exporting, "DATA_MEGABYTES", 0)
    monkeypatch.setattr(exporting, "VIDEO_MEGABYTES", 0)
    monkeypatch.setattr(exporting, "FILES_IN_A_CHUNK", 2)
    store = from_lerobot(MADE, tmp_path / "d")
    to_lerobot(store, tmp_path / "robot", cameras=cameras)
    names = sorted(path.relative_to(tmp_path / "robot").as_posix() for path in (tmp_path / "robot").rglob("*/file-*"))
    assert [name for name in names if name.startswith("data/")] == [
        "data/chunk-000/file-000.parquet",
        "data/chunk-000/file-001.parquet",
        "data/chunk-001/file-000.parquet",
    ]
    assert len([name for name in names if name.startswith("videos/")]) == (6 if cameras == "video" else 0)
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    assert back.lengths.tolist() == store.lengths.tolist()
    np.testing.assert_array_equal(back[2].observations["state"], store[2].observations["state"])


def test_every_annotator_and_all_that_they_said_comes_back(tmp_path):
    write_store(tmp_path / "d", 6)
    length = len(DemoStore.open(tmp_path / "d")[2])
    said = {
        "anna": Annotation(uncertain_table([(0, 0, 1, 2, 3, 2, 0.1), (0, 1, 1, 2, 2, 1, 1.0)], length), seconds=2.5),
        "bob": Annotation(PairTable.of([], length), note="nichts: «gar nichts»", flagged=True),
        "carl": Annotation(PairTable.of([(0, 3)], length), {"expert": frozenset([(0, 3)])}),
    }
    for name, annotation in said.items():
        write_annotation(tmp_path / "d", name, 2, annotation)
    to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot")
    back = from_lerobot(tmp_path / "robot", tmp_path / "back")
    assert back.annotators() == ["anna", "bob", "carl", "expert"]
    for name in back.annotators():
        assert read_annotations(back.path, name) == read_annotations(tmp_path / "d", name), name


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(uncertain_rows(9), max_size=8),
    remarks=st.fixed_dictionaries(
        {"note": st.text(max_size=5), "flagged": st.booleans(), "revision": st.integers(0, 9)}
    ),
)
def test_any_annotation_survives(rows, remarks):
    made = {"anna": Annotation(uncertain_table(rows, 9), **remarks), "bob": Annotation(PairTable.of([(0, 1)], 9))}
    assert annotations_of(events_of(made, 9), "nobody") == made


def test_pairs_are_on_the_frame_of_the_decision():
    pairs = PairTable.of([(1, 4), (3, 4, 2)], 6)
    frames = events_of({"anna": Annotation(pairs)}, 6)
    assert [len(rows) for rows in frames] == [1, 0, 0, 0, 1, 0]
    assert frames[4][0] == {
        "role": "annotator",
        "style": "recall",
        "content": '{"by": "anna", "p": [1, 3], "m": [1, 2]}',
        "camera": None,
        "tool_calls": None,
    }


def recalled(content: str, step: int = 3) -> list[list[dict[str, str]]]:
    frames: list[list[dict[str, str]]] = [[], [], [], [], []]
    frames[step] = [{"style": "recall", "content": content}, {"style": "vqa", "content": "not ours"}]
    return frames


def test_others_may_write_less():
    found = annotations_of(recalled('{"p": [0, 2]}'), "somebody")
    assert list(found["somebody"].pairs) == [(0, 3, 1), (2, 3, 1)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "no JSON"),
        ("[1]", "no object"),
        ('{"p": 3}', "p is no list"),
        ('{"p": [1], "m": [1, 2]}', "m is no list"),
        ('{"p": [1.5]}', "p is no list"),
        ('{"p": [-1]}', "p is no list"),
        ('{"p": [3]}', "pair (3, 3): p must be before q"),
        ('{"p": [1], "q_last": [9]}', "q is outside the episode of 5 steps"),
        ('{"p": [1], "w": [NaN]}', "w is no list"),
        ('{"by": "../anna", "p": [1]}', "annotator '../anna'"),
        ('{"p": [1], "seconds": "long"}', "remarks"),
        ('{"p": [1], "origins": {"../x": []}}', "remarks"),
    ],
)
def test_events_that_cannot_be_are_refused(content, problem):
    with pytest.raises(StepError) as refused:
        annotations_of(recalled(content), "somebody")
    assert problem in refused.value.problem
    assert refused.value.step == 3


def test_without_pairs_there_is_no_language(tmp_path):
    write_store(tmp_path / "d", 4)
    to_lerobot(DemoStore.open(tmp_path / "d"), tmp_path / "robot", pairs=False)
    assert "language_events" not in json.loads((tmp_path / "robot" / "meta" / "info.json").read_text())["features"]
    assert from_lerobot(tmp_path / "robot", tmp_path / "back").annotators() == []


def test_statistics_are_those_of_the_numbers(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(length, 2)) for length in (3, 8, 5)]
    whole, found = np.concatenate(parts), None
    for part in parts:
        found = statistics.together(found, statistics.of_numbers(part))
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(found[name], getattr(whole, name)(0))
    assert found["count"] == [16]
    assert (found["q01"] <= found["q50"]).all()
    images = rng.integers(0, 256, (4, 5, 6, 3), np.uint8)
    found = statistics.of_images(images)
    flat = images.reshape(-1, 3) / 255
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(found[name][:, 0, 0], getattr(flat, name)(0), atol=1e-12)
    np.testing.assert_allclose(found["q50"][:, 0, 0], np.quantile(flat, 0.5, 0, method="inverted_cdf"))
    assert found["count"] == [4]


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path):
    made = Demonstration(np.zeros((3, 5, 5, 3), np.uint8), np.zeros(3, int))
    make_writer(tmp_path / "odd", observation=ObservationSpec("image", (5, 5, 3))).append([made])
    store = DemoStore.open(tmp_path / "odd")
    with pytest.raises(UserError, match="a video of 5×5 cannot be made"):
        to_lerobot(store, tmp_path / "robot", cameras="video")
    with pytest.raises(UserError, match="fps 0: give"):
        to_lerobot(store, tmp_path / "robot", fps=0)
    assert [path.name for path in tmp_path.iterdir()] == ["odd"]
    make_writer(tmp_path / "empty")
    with pytest.raises(UserError, match="there is nothing to write"):
        to_lerobot(DemoStore.open(tmp_path / "empty"), tmp_path / "robot")
