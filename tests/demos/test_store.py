import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked
from attentiontuner.demos import Demonstration, DemoStore, write_annotation
from attentiontuner.demos.annotations import Annotation
from attentiontuner.demos.pairs import PairTable
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec
from tests.demos.examples import (
    ACTIONS,
    KINDS_OF_ACTIONS,
    SPEC,
    assert_equal,
    demonstration,
    make_writer,
    parts_demonstrations,
    some_pairs,
    write_store,
)


def shard(path: Path, index: int = 0) -> Path:
    return path / "shards" / f"{index:05d}.safetensors.zst"


def unsealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """As somebody writes it who changes it by hand."""
    return {name: value for name, value in manifest.items() if name != "seal"}


def test_what_was_written_is_read_back(tmp_path):
    written = write_store(tmp_path / "d", 10)
    store = DemoStore.open(tmp_path / "d")
    assert len(store) == 10
    assert store.lengths.tolist() == [len(d) for d in written]
    assert (store.task, store.settings, store.seed) == ("made-up", {"length": 3}, 1)
    assert (store.observation, store.actions.names, store.annotator) == (SPEC, ACTIONS, "expert")
    for number, (found, expected) in enumerate(zip(store, written, strict=True)):
        assert_equal(found, expected)
        assert found.episode == number
    assert_equal(store[-1], written[-1])
    assert_equal(store[7], written[7])
    with pytest.raises(IndexError, match="no episode 10: the data set holds 10"):
        store[10]


def test_not_annotated_and_nothing_to_remember_stay_different(tmp_path):
    write_store(tmp_path / "d", 4)
    store = DemoStore.open(tmp_path / "d")
    assert store[0].pairs is None
    assert store[1].pairs is not None
    assert len(store[1].pairs) == 0
    packed = store.read_packed()
    assert packed.pairs.annotated.tolist() == [False, True, True, True]
    assert set(packed.pairs.episode.tolist()) == {2, 3}


def test_images_and_vectors_keep_every_bit(tmp_path):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(6, 4)).astype(np.float32)
    vectors[1], vectors[2] = 0.0, -0.0
    for name, spec, frames in (
        ("vector", ObservationSpec("vector", (4,)), vectors),
        ("image", ObservationSpec("image", (5, 6, 3)), rng.integers(0, 256, (6, 5, 6, 3), np.uint8)),
    ):
        made = Demonstration(frames, np.zeros(6, np.int64), np.zeros(6), True, False, 1, True)
        make_writer(tmp_path / name, observation=spec).write_shard(0, [made], {})
        store = DemoStore.open(tmp_path / name)
        assert store.annotator is None
        assert store[0].observations.tobytes() == frames.tobytes()
        packed = store.read_packed()
        assert packed.frames[packed.frame_index].tobytes() == frames.tobytes()


@pytest.mark.parametrize("actions", KINDS_OF_ACTIONS, ids=lambda actions: actions.kind)
def test_parts_and_every_kind_of_action_are_read_back(tmp_path, actions):
    spec, made = parts_demonstrations(actions)
    make_writer(tmp_path / "d", observation=spec, actions=actions).append(made, annotator="expert")
    store = DemoStore.open(tmp_path / "d")
    store.verify()
    assert (store.observation, store.actions, store.actions.names) == (spec, actions, actions.names)
    for found, expected in zip(store, made, strict=True):
        assert_equal(found, expected)
    packed = store.read_packed([2, 0])
    assert (packed.frames.dtype, packed.frames.shape[1:]) == (np.uint8, (spec.nbytes,))
    assert (packed.actions.dtype, packed.actions.shape[1:]) == (actions.dtype, actions.shape)
    expected = [made[2], made[0]]
    np.testing.assert_array_equal(packed.actions, np.concatenate([one.actions for one in expected]))
    seen = spec.decode(packed.frames[packed.frame_index])
    for name in seen:
        np.testing.assert_array_equal(seen[name], np.concatenate([one.observations[name] for one in expected]))
    assert packed.pairs == PairTable.join(one.pairs for one in expected)
    assert store.summary()["raw_bytes"] == spec.nbytes * store.lengths.sum()


@pytest.mark.parametrize(
    ("actions", "bad", "message"),
    [
        (ActionSpec.multi_discrete((3, 2)), [0, 2], r"step 1: action \[0, 2\], but there are only choices 3×2"),
        (ActionSpec.box([-1], [1]), [1.5], r"step 1: action \[1.5\], but there are numbers from \[-1\] to \[1\]"),
    ],
)
def test_actions_that_do_not_exist_are_refused(tmp_path, actions, bad, message):
    writer = make_writer(tmp_path / "d", actions=actions)
    made = Demonstration(np.zeros((2, 3, 3, 3), np.uint8), np.array([np.zeros_like(bad), bad]))
    with pytest.raises(UserError, match=message):
        writer.append([made])


def test_names_of_actions_tell_data_sets_apart(tmp_path):
    """Even those that hold nothing yet: the new names are written."""
    make_writer(tmp_path / "d", actions=("a", "b", "c"))
    make_writer(tmp_path / "d", actions=("d", "e", "f"))
    assert DemoStore.open(tmp_path / "d").actions.names == ("d", "e", "f")
    make_writer(tmp_path / "d", actions=("d", "e", "f")).append([demonstration(1, None)])
    with pytest.raises(UserError, match=r"holds actions \['d', 'e', 'f'\], not 3"):
        make_writer(tmp_path / "d", actions=ActionSpec.discrete(3))


def test_files_are_those_of_before(tmp_path):
    """To the byte, as the version before named parts and tables wrote them."""
    write_store(tmp_path / "d", 6)
    content = hashlib.sha256()
    for path in sorted((tmp_path / "d").rglob("*.*")):
        if path.is_file() and not path.name.startswith("."):
            text = path.read_bytes()
            if path.name == "manifest.json":
                value = {**json.loads(text), "versions": {}}
                assert value.pop("annotations") == {"expert": [0, 1]}
                assert len(value.pop("seal")) == 64
                text = json.dumps(value, indent=2).encode()
            content.update(text)
    assert content.hexdigest()[:16] == "071774e184c396d0"


def test_equal_frames_are_stored_once(tmp_path):
    write_store(tmp_path / "d", 4)
    entry = json.loads((tmp_path / "d" / "manifest.json").read_text())["shards"][0]
    assert sum(entry["lengths"]) > 12 >= entry["distinct_frames"]


def test_the_same_episodes_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_store(tmp_path / name, 6)
    for path in sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()):
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes(), path


def test_writing_a_shard_twice_changes_nothing(tmp_path):
    written = write_store(tmp_path / "d", 6)
    before = {p: p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()}
    make_writer(tmp_path / "d").write_shard(0, written[:4], {"expert": [d.pairs for d in written[:4]]})
    assert {p: p.read_bytes() for p in (tmp_path / "d").rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "other"}, "holds task made-up, not other"),
        ({"settings": {"length": 4}}, "holds settings {'length': 3}, not {'length': 4}"),
        ({"seed": 2}, "holds seed 1, not 2"),
        ({"actions": ("a", "b", "c")}, "holds actions"),
        ({"observation": ObservationSpec("image", (3, 3, 3))}, "holds observation"),
        ({"shard_episodes": 5}, "episodes per shard 4, not 5"),
    ],
)
def test_another_data_set_in_the_same_folder_is_refused(tmp_path, change, message):
    write_store(tmp_path / "d", 4)
    with pytest.raises(UserError, match=message):
        make_writer(tmp_path / "d", **change)


MENDED = {"settings": {}, "observation": ObservationSpec("vector", (2,)), "shard_episodes": 9}


def test_a_manifest_without_shards_makes_way(tmp_path):
    """A collection that failed before its first shard left nothing behind that anybody could lose."""
    make_writer(tmp_path / "d", episodes=5000)
    writer = make_writer(tmp_path / "d", **MENDED, actions=("a", "b"), seed=2)
    vectors = Demonstration(np.zeros((2, 2), np.float32), np.array([0, 1]))
    assert writer.append([vectors]) == [0]
    store = DemoStore.open(tmp_path / "d")
    assert (store.settings, store.seed, store.actions.names) == ({}, 2, ("a", "b"))
    assert store.complete


def test_a_manifest_without_shards_stays_while_somebody_collects(tmp_path):
    make_writer(tmp_path / "d", episodes=8)
    with locked(tmp_path / "d" / ".collect.lock"), pytest.raises(UserError, match="holds settings .*, not {}"):
        make_writer(tmp_path / "d", **MENDED)
    assert make_writer(tmp_path / "d", **MENDED).manifest.settings == {}


def test_a_manifest_without_shards_stays_before_another_task(tmp_path):
    """Somebody may be about to save the first episode they played."""
    make_writer(tmp_path / "d")
    with pytest.raises(UserError, match="holds task made-up, not other"):
        make_writer(tmp_path / "d", task="other")


def test_a_manifest_without_shards_stays_where_files_lie(tmp_path):
    write_store(tmp_path / "d", 4)
    path = tmp_path / "d" / "manifest.json"
    path.write_text(json.dumps(unsealed({**json.loads(path.read_text()), "shards": []})))
    with pytest.raises(UserError, match="holds settings .*, not {}"):
        make_writer(tmp_path / "d", **MENDED)


def test_a_writer_whose_manifest_was_replaced_writes_nothing(tmp_path):
    writer = make_writer(tmp_path / "d")
    make_writer(tmp_path / "d", **MENDED)
    for write in (
        lambda: writer.append([demonstration(1, None)]),
        lambda: writer.write_shard(0, [demonstration(1)], {}),
        lambda: writer.set_episodes(5),
    ):
        with pytest.raises(UserError, match="holds settings {}, not {'length': 3}"):
            write()
    assert not (tmp_path / "d" / "shards").exists()


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="letter.txt"):
        make_writer(tmp_path)


def test_the_only_annotator_is_taken_and_two_strangers_are_not(tmp_path):
    make_writer(tmp_path / "d", seed=None).append([demonstration(1)], annotator="anna")
    assert DemoStore.open(tmp_path / "d").annotator == "anna"
    write_annotation(tmp_path / "d", "bob", 0, Annotation(PairTable.of([], 9)))
    assert DemoStore.open(tmp_path / "d").annotator is None


def test_an_unfinished_collection_reads_up_to_the_gap(tmp_path):
    written = [demonstration(seed, some_pairs(seed)) for seed in range(12)]
    writer = make_writer(tmp_path / "d", episodes=12)
    for index in (0, 2):
        writer.write_shard(index, written[4 * index : 4 * index + 4], {})
    store = DemoStore.open(tmp_path / "d")
    assert (len(store), store.complete) == (4, False)
    with pytest.raises(UserError, match="unfinished collection"):
        writer.append([demonstration(1, None)])
    writer.write_shard(1, written[4:8], {})
    store = DemoStore.open(tmp_path / "d")
    assert (len(store), store.complete) == (12, True)
    assert [d.seed for d in store] == list(range(12))


def test_shards_that_overlap_are_refused(tmp_path):
    writer = make_writer(tmp_path / "d")
    writer.append([demonstration(1, None)])
    writer.append([demonstration(2, None)])
    writer.write_shard(1, [demonstration(3)], {})  # takes the place of the appended shard 1: episode 4 on
    assert len(DemoStore.open(tmp_path / "d")) == 1
    with pytest.raises(UserError, match="hold the same episodes"):
        writer.write_shard(0, [demonstration(seed) for seed in range(5)], {})


def test_few_shards_are_kept_in_memory(tmp_path):
    write_store(tmp_path / "d", 20)
    store = DemoStore.open(tmp_path / "d")
    for episode in (0, 5, 9, 13, 17, 1, 2):
        store[episode]
        assert len(store._loaded) <= 2
    shard(tmp_path / "d", 0).unlink()
    assert len(store[3]) > 0, "shard 0 was read last and is still there"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"actions": np.array([0, 3])}, "episode 0, actions, step 1: action 3, but there are only 3 actions"),
        (
            {"observations": np.stack([np.zeros((3, 3, 3), np.uint8), np.full((3, 3, 3), 11, np.uint8)])},
            "episode 0, observations, step 1: symbol 11 in channel 0, which has 11 symbols",
        ),
        ({"observations": np.zeros((2, 3, 3, 3))}, "float64, not uint8: give whole numbers from 0 to 255"),
        (
            {"observations": np.zeros((2, 3, 2, 3), np.uint8)},
            r"uint8 of shape \(3, 2, 3\), not uint8 of shape \(3, 3, 3\) \(the data set promises grid 3×3×3\)",
        ),
    ],
)
def test_episodes_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, bad, message):
    fields = {"observations": np.zeros((2, 3, 3, 3), np.uint8), "actions": np.array([0, 1]), **bad}
    writer = make_writer(tmp_path / "d")
    with pytest.raises(UserError, match=message):
        writer.append([Demonstration(**fields)])
    assert len(DemoStore.open(tmp_path / "d")) == 0


def test_damage_is_found_on_reading_and_by_verify(tmp_path):
    write_store(tmp_path / "d", 10)
    path = shard(tmp_path / "d", 1)
    sound = path.read_bytes()
    DemoStore.open(tmp_path / "d").verify()
    for damaged in (
        sound[:-9],
        sound[:200],
        b"",
        sound[:300] + bytes([sound[300] ^ 64]) + sound[301:],
        shard(tmp_path / "d", 0).read_bytes(),
    ):
        path.write_bytes(damaged)
        store = DemoStore.open(tmp_path / "d")
        assert len(store[0]) > 0, "the other shards can be read"
        for read in (lambda store=store: store[5], store.read_packed, store.verify):
            with pytest.raises(UserError, match="00001.safetensors.zst is damaged"):
                read()
    path.unlink()
    for read in (lambda: DemoStore.open(tmp_path / "d")[5], DemoStore.open(tmp_path / "d").verify):
        with pytest.raises(UserError, match="00001.safetensors.zst is missing"):
            read()


def test_a_shard_that_was_exchanged_is_never_read(tmp_path):
    """The same arrays in other bytes: only the checksum tells."""
    write_store(tmp_path / "d", 4)
    path = shard(tmp_path / "d")
    content = zstandard.ZstdDecompressor().decompress(path.read_bytes())
    path.write_bytes(zstandard.ZstdCompressor(level=9).compress(content))
    store = DemoStore.open(tmp_path / "d")
    for read in (store.verify, store.read_packed, lambda: store[0]):
        with pytest.raises(UserError, match="00000.* does not have its checksum .the file was last changed on 20"):
            read()


def test_a_shard_that_unpacks_to_more_than_it_holds_is_refused(tmp_path):
    """Before it is unpacked: its header says how much that would be."""
    write_store(tmp_path / "d", 4)
    path = shard(tmp_path / "d")
    bomb = zstandard.ZstdCompressor().compress(bytes(2**24))
    value = unsealed(json.loads((tmp_path / "d" / "manifest.json").read_text()))
    value["shards"][0]["sha256"] = hashlib.sha256(bomb).hexdigest()
    (tmp_path / "d" / "manifest.json").write_text(json.dumps(value))
    path.write_bytes(bomb)
    with pytest.raises(UserError, match="00000.* would unpack to more than its episodes have"):
        DemoStore.open(tmp_path / "d").read_packed()


def test_a_changed_manifest_is_noticed(tmp_path):
    """Though it is a manifest still: one success more."""
    write_store(tmp_path / "d", 4)
    path = tmp_path / "d" / "manifest.json"
    changed = {**json.loads(path.read_text()), "seed": 77}
    path.write_text(json.dumps(changed))
    with pytest.raises(UserError, match="manifest.json is damaged: .* checksum .*remove .seal. from it"):
        DemoStore.open(tmp_path / "d")
    path.write_text(json.dumps(unsealed(changed)))
    assert DemoStore.open(tmp_path / "d").seed == 77


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_lost_annotations_are_not_nothing(tmp_path, lose):
    write_store(tmp_path / "d", 8)
    write_annotation(tmp_path / "d", "bob", 5, Annotation(PairTable.of([], 9)))
    path = tmp_path / "d" / "annotations" / "bob" / "00001.jsonl"
    lose(path)
    store = DemoStore.open(tmp_path / "d")
    assert store.missing_files() == [path]
    with pytest.raises(UserError, match="bob/00001.jsonl is gone or empty, though there were annotations: restore"):
        store.verify()
    write_annotation(tmp_path / "d", "bob", 6, Annotation(PairTable.of([], 9)))
    write_annotation(tmp_path / "d", "bob", 6, None)  # as somebody who changes their mind
    DemoStore.open(tmp_path / "d").verify()


def test_verify_reads_annotations_too(tmp_path):
    write_store(tmp_path / "d", 4)
    line = tmp_path / "d" / "annotations" / "expert" / "00000.jsonl"
    line.write_text('{"episode": 1, "pairs": {"2": "2"}}\n')
    with pytest.raises(UserError, match=r"00000.jsonl, line 1: episode 1, pair \(2, 2\): p must be before q"):
        DemoStore.open(tmp_path / "d").verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema version 99, but this attentiontuner reads version 1"),
        ({"shards": [{"index": 0}]}, "manifest.json is damaged"),
        ({"observation": {"kind": "smell", "shape": [3]}}, "manifest.json is damaged: observation kind"),
    ],
)
def test_a_bad_manifest_is_named(tmp_path, change, message):
    write_store(tmp_path / "d", 4)
    path = tmp_path / "d" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        DemoStore.open(tmp_path / "d")
    path.write_text("{")
    with pytest.raises(UserError, match="manifest.json is damaged"):
        DemoStore.open(tmp_path / "d")
    path.unlink()
    with pytest.raises(UserError, match="is not a data set"):
        DemoStore.open(tmp_path / "d")


def test_summary_counts(tmp_path):
    written = write_store(tmp_path / "d", 10)
    summary = DemoStore.open(tmp_path / "d").summary()
    json.dumps(summary)
    lengths = [len(d) for d in written]
    assert summary["episodes"] == 10
    assert summary["mean_length"] == pytest.approx(np.mean(lengths))
    assert summary["max_length"] == max(lengths)
    assert summary["success_rate"] == pytest.approx(np.mean([d.success for d in written]))
    assert summary["annotated_episodes"] == 7
    assert summary["pairs_per_episode"] == pytest.approx((2 + 3 + 2 + 3) / 7, abs=1e-4)
    assert summary["annotators"]["expert"]["annotated_episodes"] == 7
    assert summary["bytes"] == sum(path.stat().st_size for path in (tmp_path / "d" / "shards").iterdir())
    assert summary["raw_bytes"] == sum(lengths) * 27


def test_no_room_on_the_disk_is_one_line_and_loses_nothing(tmp_path):
    """A real limit: the process may not write files larger than a few bytes."""
    written = write_store(tmp_path / "d", 4)
    code = """
import resource, signal, sys
sys.dont_write_bytecode = True  # what is imported under the limit would be cut off
from pathlib import Path
from attentiontuner.core.errors import UserError
from tests.demos.examples import demonstration, make_writer
writer = make_writer(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    writer.append([demonstration(9, None)])
except UserError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "d")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert "cannot write" in done.stdout
    assert "nothing was changed there" in done.stdout
    store = DemoStore.open(tmp_path / "d")
    store.verify()
    assert len(store) == 4
    assert_equal(store[3], written[3])
    assert not [path for path in (tmp_path / "d").rglob(".*") if path.name != ".lock"], "no half-written file stays"


def test_reading_needs_no_torch():
    code = "import sys, attentiontuner.demos; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
