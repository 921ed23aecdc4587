"""Recordings of one's own: what a writer accepts, and the example of docs/data.md."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.demos import Demonstration, DemoStore, DemoWriter
from attentiontuner.spaces import ActionSpec, ObservationSpec, Part
from tests.demos.examples import ACTIONS, SPEC, assert_equal, demonstration, make_writer, write_store

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_example_writes_a_data_set(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## Recordings of your own")[1]
    code = section.split("```python\n")[1].split("```")[0]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    run = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    store = DemoStore.open(tmp_path / "data" / "mine")
    store.verify()
    assert (store.task, store.annotator, len(store), store.complete) == ("mine", "anna", 200, True)
    assert [tuple(pair) for pair in store[7].memory_pairs()] == [(0, 19, 1)]


def test_appended_recordings_get_the_next_numbers(tmp_path):
    written = write_store(tmp_path / "d", 6)
    extra = [demonstration(100, [(0, 2)]), demonstration(101, None)]
    writer = make_writer(tmp_path / "d", seed=None)
    assert writer.append(extra, annotator="anna") == [6, 7]
    assert writer.append([demonstration(102, None)]) == [8]
    assert writer.append([]) == []
    store = DemoStore.open(tmp_path / "d", annotator="anna")
    assert len(store) == 9
    assert store.complete
    assert_equal(store[6], extra[0])
    assert_equal(store[7], extra[1])
    assert store[2].pairs is None, "the expert's pairs are not anna's"
    assert_equal(DemoStore.open(tmp_path / "d")[2], written[2])
    with pytest.raises(UserError, match="no annotator 'bob': there are anna, expert"):
        DemoStore.open(tmp_path / "d", annotator="bob")


def test_pairs_that_belong_to_nobody_are_refused(tmp_path):
    writer = make_writer(tmp_path / "d")
    for pairs in ([(0, 2)], []):
        with pytest.raises(UserError, match='append: there are pairs, but not whose: .* annotator="expert"'):
            writer.append([demonstration(1, None), demonstration(2, pairs)])
    assert len(DemoStore.open(tmp_path / "d")) == 0


def test_any_iterable_of_demonstrations_is_appended(tmp_path):
    writer = make_writer(tmp_path / "d")
    assert writer.append(demonstration(seed, None) for seed in range(3)) == [0, 1, 2]
    assert writer.append((demonstration(seed, [(0, 2)]) for seed in range(2)), annotator="expert") == [3, 4]
    assert writer.append(iter(())) == []
    assert [d.seed for d in DemoStore.open(tmp_path / "d")] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (demonstration(1, None), r"append: give a list of Demonstrations, not one alone: append\(\[demonstration\]\)"),
        ({"observations": np.zeros(3)}, "append: give a list of Demonstrations, not a dict"),
        ([{"observations": np.zeros(3)}], "append: item 0 is no Demonstration, but of type dict"),
        ([demonstration(1, None), None], "append: item 1 is no Demonstration, but of type NoneType"),
        (None, "append: give a list of Demonstrations, not a NoneType"),
    ],
)
def test_what_is_no_list_of_demonstrations_is_one_line(tmp_path, given, message):
    writer = make_writer(tmp_path / "d")
    with pytest.raises(UserError, match=message):
        writer.append(given)


@pytest.mark.parametrize("name", ["", " ", None])
def test_a_data_set_has_a_task(tmp_path, name):
    with pytest.raises(UserError, match="say what was done, in a word, such as task='arm'"):
        make_writer(tmp_path / "d", task=name)
    assert not (tmp_path / "d").exists()


def test_numpy_numbers_in_settings_become_pythons(tmp_path):
    settings = {"length": np.int64(3), "rate": np.float32(0.5), "hard": np.bool_(True), "sizes": np.arange(2)}
    make_writer(tmp_path / "d", settings=settings).append([demonstration(1, None)])
    plain = {"length": 3, "rate": 0.5, "hard": True, "sizes": [0, 1]}
    assert DemoStore.open(tmp_path / "d").settings == plain
    make_writer(tmp_path / "d", settings=plain)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, np.array([np.inf])])
def test_settings_that_cannot_be_stored_are_named(tmp_path, value):
    with pytest.raises(UserError, match="^setting 'length' cannot be stored .*: give finite numbers"):
        make_writer(tmp_path / "d", settings={"length": value})
    assert not (tmp_path / "d").exists()


def test_no_seed_is_needed(tmp_path):
    writer = DemoWriter(tmp_path / "d", task="mine", settings={}, observation=SPEC, actions=ACTIONS)
    assert writer.manifest.seed is None


VECTOR = ObservationSpec("vector", (2,))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused(tmp_path, bad):
    writer = make_writer(tmp_path / "d", observation=VECTOR)
    vectors = np.arange(10, dtype=np.float32).reshape(5, 2)
    sound = Demonstration(vectors, np.zeros(5, np.int64))
    vectors[3, 1] = bad
    assert writer.append([sound]) == [0]
    with pytest.raises(UserError, match="episode 2, observations, step 3: a number that is not finite"):
        writer.append([sound, Demonstration(vectors, np.zeros(5, np.int64))])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"actions": [[0, 0], [0, 0], [0, 1.5]]},
            "episode 2, actions, step 2: action .*numbers from .-1, -1. to .1, 1.",
        ),
        ({"front": np.zeros((3, 6, 8, 3), np.uint8)}, r"episode 2, observations, step 0: part 'front': .*\(6, 8, 3\)"),
        (
            {"joints": [[0], [np.inf], [0]]},
            "episode 2, observations, step 1: part 'joints': a number that is not finite",
        ),
    ],
    ids=["outside", "camera", "infinite"],
)
def test_what_a_robot_cannot_have_seen_or_done_is_refused_and_nothing_of_it_stays(tmp_path, change, message):
    parts = {"front": Part("image", (8, 8, 3)), "joints": Part("vector", (1,))}
    observation, actions = ObservationSpec(parts=parts), ActionSpec.box([-1, -1], [1, 1])
    writer = make_writer(tmp_path / "d", observation=observation, actions=actions)
    sound = {"front": np.zeros((3, 8, 8, 3), np.uint8), "joints": np.zeros((3, 1)), "actions": np.zeros((3, 2))}

    def recorded(seen):
        return Demonstration({name: np.asarray(seen[name]) for name in parts}, np.asarray(seen["actions"], np.float32))

    assert writer.append([recorded(sound)]) == [0]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        writer.append([recorded({**sound, "joints": np.ones((3, 1))}), recorded({**sound, **change})])
    assert sorted(tmp_path.rglob("*")) == before
    assert len(DemoStore.open(tmp_path / "d")) == 1


def test_what_is_not_promised_is_found_on_reading(tmp_path, monkeypatch):
    """Symbols that do not exist, or numbers that are not finite, as another program may have written them."""
    grid, vector = demonstration(1, None), Demonstration(np.ones((5, 2), np.float32), np.zeros(5, np.int64))
    for name, spec, made, wrong in (("grid", SPEC, grid, 200), ("vector", VECTOR, vector, np.nan)):
        observations = np.array(made.observations)
        observations[2:].reshape(-1)[0] = wrong
        writer = make_writer(tmp_path / name, observation=spec)
        writer.append([made])
        with monkeypatch.context() as patched:
            patched.setattr(Part, "_check_values", lambda part, array: None)
            writer.append([made, replace(made, observations=observations)])
        store = DemoStore.open(tmp_path / name)
        assert len(store[0]) == len(made)
        for read in (lambda store=store: store[1], store.read_packed, store.verify):
            with pytest.raises(UserError, match=r"00001\.safetensors\.zst, episode 2, step 2: (symbol 200|a number)"):
                read()


def test_the_same_recordings_are_not_added_twice(tmp_path):
    recorded = [demonstration(1, None), demonstration(2, None)]
    writer = make_writer(tmp_path / "d", seed=None)
    writer.append(recorded)
    writer.append([demonstration(3, None)])
    with pytest.raises(UserError, match="d holds 2 such episodes already, 0 to 1, the same to the last bit: nothing"):
        make_writer(tmp_path / "d", seed=None).append([one.with_pairs([]) for one in recorded], annotator="anna")
    store = DemoStore.open(tmp_path / "d")
    store.verify()
    assert (len(store), store.annotators()) == (3, [])
