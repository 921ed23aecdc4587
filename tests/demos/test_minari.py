import json

import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.core.success import LengthAtLeast
from attentiontuner.demos import Demonstration, DemoStore
from attentiontuner.demos.exchange.minari import from_minari, to_minari
from attentiontuner.spaces.observation import ObservationSpec
from tests.demos.examples import (
    KINDS_OF_ACTIONS,
    SPEC,
    assert_equal,
    make_writer,
    parts_demonstrations,
    write_store,
)

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def test_there_and_back_again(tmp_path):
    written = write_store(tmp_path / "d", 60)
    dataset = to_minari(DemoStore.open(tmp_path / "d"), "ours/made-up-v0")
    assert dataset.total_episodes == 60
    assert dataset.total_steps == sum(map(len, written))
    back = from_minari("ours/made-up-v0", tmp_path / "back")
    assert (back.task, back.settings, back.observation) == ("made-up", {"length": 3}, SPEC)
    assert len(back) == 60
    for found, expected in zip(back, written, strict=True):
        assert_equal(found, expected)


def test_pairs_keep_whose_they_are_and_minari_is_quiet(tmp_path, recwarn, capfd):
    spec, made = parts_demonstrations(KINDS_OF_ACTIONS[0])
    make_writer(tmp_path / "d", observation=spec, actions=KINDS_OF_ACTIONS[0]).append(made, annotator="anna")
    to_minari(DemoStore.open(tmp_path / "d"), "ours/hers-v0")
    assert from_minari("ours/hers-v0", tmp_path / "back").annotators() == ["anna"]
    assert from_minari("ours/hers-v0", tmp_path / "named", annotator="bob").annotators() == ["bob"]
    assert [str(warning.message) for warning in recwarn if "minari" in warning.filename] == []
    assert "Warning" not in capfd.readouterr().err
    said = tmp_path / "minari" / "ours" / "hers-v0" / "data" / "metadata.json"
    sound = json.loads(said.read_text())
    older = {name: value for name, value in json.loads(sound["attentiontuner"]).items() if name != "annotator"}
    said.write_text(json.dumps({**sound, "attentiontuner": json.dumps(older)}))
    assert from_minari("ours/hers-v0", tmp_path / "older").annotators() == ["minari"]
    said.write_text(json.dumps({**sound, "attentiontuner": json.dumps({**older, "annotator": "../x"})}))
    with pytest.raises(UserError, match=r"annotator '../x': use letters"):
        from_minari("ours/hers-v0", tmp_path / "odd")


def test_a_damaged_data_set_is_named(tmp_path):
    write_store(tmp_path / "d", 3)
    to_minari(DemoStore.open(tmp_path / "d"), "ours/made-up-v0")
    said = tmp_path / "minari" / "ours" / "made-up-v0" / "data" / "metadata.json"
    sound = json.loads(said.read_text())
    ours = json.loads(sound["attentiontuner"])
    for wrong in (
        b"\xff",
        b"[]",
        json.dumps({**sound, "data_format": "hdf5x"}).encode(),
        json.dumps({**sound, "total_episodes": {}}).encode(),
        json.dumps({**sound, "total_episodes": 2**31}).encode(),  # which Minari would count out
        json.dumps({**sound, "attentiontuner": "[1]"}).encode(),
        json.dumps({**sound, "attentiontuner": json.dumps({**ours, "settings": 3})}).encode(),
    ):
        said.write_bytes(wrong)
        with pytest.raises(UserError, match="Minari data set 'ours/made-up-v0': "):
            from_minari("ours/made-up-v0", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_images_are_not_changed(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (7, 84, 84, 3), np.uint8)
    spec = ObservationSpec("image", (84, 84, 3))
    made = Demonstration(frames, np.zeros(7, np.int64), np.zeros(7), True, False, 5, True)
    make_writer(tmp_path / "d", observation=spec).append([made])
    to_minari(DemoStore.open(tmp_path / "d"), "ours/frames-v0")
    back = from_minari("ours/frames-v0", tmp_path / "back")
    assert back[0].observations.tobytes() == frames.tobytes()
    assert back[0].pairs is None


def test_a_foreign_data_set_may_be_described(tmp_path):
    from gymnasium.spaces import Box, Discrete
    from minari.data_collector import EpisodeBuffer

    frames = [np.full(2, t, np.float32) for t in range(4)]
    buffer = EpisodeBuffer(
        observations=frames,
        actions=[1, 0, 1],
        rewards=[0.0, 0.0, 1.0],
        terminations=[False, False, True],
        truncations=[False] * 3,
        infos={},
    )
    space = Box(-9, 9, (2,), np.float32)
    dataset = minari.create_dataset_from_buffers(
        "theirs/walk-v0", [buffer], observation_space=space, action_space=Discrete(2), jpeg_encoding=False
    )
    assert from_minari(dataset, tmp_path / "unnamed").task == "theirs-walk"
    told = from_minari(dataset, tmp_path / "told", task="walk")
    assert (told.observation, told.actions.to_json()) == (ObservationSpec("vector", (2,)), 2)
    spec = ObservationSpec("vector", (2,))
    store = from_minari(dataset, tmp_path / "d", task="walk", observation=spec, actions=("stay", "go"))
    assert store[0].observations.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert (store[0].success, store[0].pairs, store[0].actions.tolist()) == (True, None, [1, 0, 1])


def standing(steps, falls):
    from minari.data_collector import EpisodeBuffer

    ends = [False] * (steps - 1)
    return EpisodeBuffer(
        observations=[np.zeros(4, np.float32)] * (steps + 1),
        actions=[0] * steps,
        rewards=[1.0] * steps,
        terminations=[*ends, falls],
        truncations=[*ends, not falls],
        infos={},
    )


def test_what_an_environment_calls_solved_is(tmp_path):
    import gymnasium as gym

    poles = [standing(500, False), standing(9, True), standing(480, False)]
    dataset = minari.create_dataset_from_buffers("theirs/pole-v0", poles, env=gym.make("CartPole-v1"))
    store = from_minari(dataset, tmp_path / "d")
    assert store.task == "cartpole"
    assert store.success().tolist() == [True, False, True]
    strict = from_minari(dataset, tmp_path / "strict", success=LengthAtLeast(500))
    assert strict.success().tolist() == [True, False, False]


def test_infos_say_what_was_solved(tmp_path):
    from dataclasses import replace

    from gymnasium.spaces import Box, Discrete

    said = [replace(standing(3, True), infos={"success": np.array([False, *ends])}) for ends in ([0, 0, 1], [0, 1, 0])]
    dataset = minari.create_dataset_from_buffers(
        "theirs/told-v0", said, observation_space=Box(-9, 9, (4,), np.float32), action_space=Discrete(2)
    )
    assert from_minari(dataset, tmp_path / "d").success().tolist() == [True, False]


def test_errors_are_words(tmp_path):
    write_store(tmp_path / "d", 4)
    with pytest.raises(UserError, match="nothing/here-v0"):
        from_minari("nothing/here-v0", tmp_path / "e")
    to_minari(DemoStore.open(tmp_path / "d"), "ours/twice-v0")
    with pytest.raises(UserError, match="ours/twice-v0"):
        to_minari(DemoStore.open(tmp_path / "d"), "ours/twice-v0")


@pytest.mark.parametrize("name", ["walk", "walk-v", "-v0", "a/walk-v0", "ours/wa.lk-v0", "../walk-v0", "our-v0/walk"])
def test_a_name_that_minari_could_not_open_is_refused_and_nothing_written(tmp_path, name):
    write_store(tmp_path / "d", 3)
    with pytest.raises(UserError, match="give a name that ends in -v and a number, such as ours/walk-v0"):
        to_minari(DemoStore.open(tmp_path / "d"), name)
    assert not list((tmp_path / "minari").rglob("*.*"))


def test_stopped_half_way_nothing_is_left(tmp_path, monkeypatch):
    from attentiontuner.demos.exchange import minari as exchange

    write_store(tmp_path / "d", 8)
    monkeypatch.setattr(exchange, "EPISODES_AT_ONCE", 4)
    buffers = exchange._buffer

    def stop(demonstration):
        if demonstration.episode == 5:
            raise KeyboardInterrupt
        return buffers(demonstration)

    monkeypatch.setattr(exchange, "_buffer", stop)
    with pytest.raises(KeyboardInterrupt):
        to_minari(DemoStore.open(tmp_path / "d"), "ours/half-v0")
    monkeypatch.undo()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    assert "ours/half-v0" not in minari.list_local_datasets()
    to_minari(DemoStore.open(tmp_path / "d"), "ours/half-v0")
    made = exchange._demonstration

    def fail(dataset, episode, *words):
        if episode.id == 5:
            raise KeyboardInterrupt
        return made(dataset, episode, *words)

    monkeypatch.setattr(exchange, "_demonstration", fail)
    with pytest.raises(KeyboardInterrupt):
        from_minari("ours/half-v0", tmp_path / "back")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "minari"]


def test_a_folder_that_holds_episodes_is_not_added_to(tmp_path):
    write_store(tmp_path / "d", 4)
    to_minari(DemoStore.open(tmp_path / "d"), "ours/once-v0")
    from_minari("ours/once-v0", tmp_path / "back")
    with pytest.raises(UserError, match="back is there already: give a new folder"):
        from_minari("ours/once-v0", tmp_path / "back")
    assert len(DemoStore.open(tmp_path / "back")) == 4


@pytest.mark.parametrize(("kind", "highest", "fits"), [(np.int64, 2, True), (np.int64, 300, False), (float, 2, False)])
def test_whole_numbers_of_any_type_are_symbols_if_they_fit(tmp_path, kind, highest, fits):
    from gymnasium.spaces import Box, Discrete
    from minari.data_collector import EpisodeBuffer

    frames = [np.full((3, 3, 3), value, kind) for value in (0, 1, highest)]
    ends = {"terminations": [False, True], "truncations": [False] * 2, "infos": {}}
    buffer = EpisodeBuffer(observations=[frames[0], frames[2], frames[1]], actions=[0, 1], rewards=[0.0, 1.0], **ends)
    dataset = minari.create_dataset_from_buffers(
        "theirs/grid-v0", [buffer], observation_space=Box(0, 999, (3, 3, 3), kind), action_space=Discrete(3)
    )
    words = {"task": "made-up", "observation": SPEC, "actions": ("left", "right", "forward")}
    if fits:
        assert from_minari(dataset, tmp_path / "d", **words)[0].observations.dtype == np.uint8
        return
    with pytest.raises(UserError, match=r"'theirs/grid-v0', episode 0, step \d: (the number 300|float64, not uint8)"):
        from_minari(dataset, tmp_path / "d", **words)


@pytest.mark.parametrize("actions", KINDS_OF_ACTIONS)
def test_parts_and_other_actions_go_there_and_back(tmp_path, actions):
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    dataset = to_minari(DemoStore.open(tmp_path / "d"), "ours/parts-v0")
    back = from_minari(dataset, tmp_path / "back", annotator="expert")
    assert (back.observation, back.actions) == (spec, actions)
    for found, expected in zip(back, made, strict=True):
        assert_equal(found, expected)
