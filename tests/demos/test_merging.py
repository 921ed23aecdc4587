"""Several annotators: read as one, and merged into one more."""

import json
from pathlib import Path

import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.demos import (
    Annotation,
    DemoStore,
    Merged,
    PairTable,
    annotations,
    merge_annotators,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.pair_text import format_pairs, parse_pairs
from tests.demos.examples import demonstration, make_writer

LENGTH = 30
SAID = {
    "anna": {0: {"9": "1,3x2"}, 1: {"9": "5~7"}, 2: {}, 4: {"9": "1@0.5"}},
    "bob": {0: {"9": "3"}, 1: {"9": "6", "12": "2"}, 2: {"9": "1"}, 5: {}},
    "carl": {0: {"20": "3"}, 1: {"12": "2"}, 2: {"9": "1"}},
}
UNION = {0: {"9": "1,3x2", "20": "3"}, 1: {"9": "6", "12": "2"}, 2: {"9": "1"}, 4: {"9": "1@0.5"}, 5: {}}
MAJORITY = {0: {"9": "3"}, 1: {"9": "6", "12": "2"}, 2: {"9": "1"}, 4: {"9": "1@0.5"}, 5: {}}
ALL = {0: {}, 1: {}, 2: {}, 4: {"9": "1@0.5"}, 5: {}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Eight episodes in two shards; anna, bob and carl annotated some of them."""
    writer = make_writer(tmp_path / "d")
    for index in (0, 1):
        writer.write_shard(index, [demonstration(4 * index + i, None, LENGTH) for i in range(4)], {})
    for name, said in SAID.items():
        for episode, pairs in said.items():
            write_annotation(
                tmp_path / "d", name, episode, Annotation(parse_pairs(pairs, LENGTH), note="mine", seconds=3)
            )
    return tmp_path / "d"


def said_by(root: Path, name: str) -> dict[int, dict[str, str]]:
    return {episode: format_pairs(found.pairs) for episode, found in read_annotations(root, name).items()}


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def of_people(content: dict[str, bytes]) -> dict[str, bytes]:
    """Without the manifest, which knows who has annotated what."""
    return {name: text for name, text in content.items() if name != "manifest.json"}


def inodes(root: Path) -> dict[Path, int]:
    """Another where a file was replaced, even by the same content."""
    return {path: path.stat().st_ino for path in root.rglob("*")}


def test_several_are_read_as_their_union(root):
    store = DemoStore.open(root, "carl,anna, bob")
    assert store.annotator == "anna,bob,carl"
    found = {demo.episode: format_pairs(demo.pairs) for demo in store if demo.pairs is not None}
    assert found == UNION
    assert store.read_pairs() == store.read_packed().pairs
    assert store.read_pairs().annotated.tolist() == [episode in UNION for episode in range(8)]
    summary = store.summary()
    assert (summary["annotator"], summary["annotated_episodes"], summary["pairs_per_episode"]) == (
        "anna,bob,carl",
        5,
        7 / 5,
    )
    assert store.annotated_by("bob").read_pairs() == DemoStore.open(root, "bob").read_pairs()


@pytest.mark.parametrize(("rule", "expected"), [("union", UNION), ("majority", MAJORITY), ("all", ALL)])
def test_merging_makes_one_more_annotator(root, rule, expected):
    before = files(root)
    made = merge_annotators(root, "anna,bob,carl", "both", rule)
    assert said_by(root, "both") == expected
    pairs = DemoStore.open(root, "both").read_pairs()
    assert made == Merged(episodes=5, pairs=len(pairs), changed=5)
    assert DemoStore.open(root).annotators() == ["anna", "bob", "both", "carl"]
    after, places = files(root), inodes(root)
    assert {name: after[name] for name in of_people(before)} == of_people(before)
    assert merge_annotators(root, "carl,bob,anna", "both", rule) == Merged(5, len(pairs), 0)
    assert (files(root), inodes(root)) == (after, places)
    DemoStore.open(root).verify()


def test_it_says_who_has_a_pair_and_no_more(root):
    merge_annotators(root, "anna,bob", "both")
    found = read_annotations(root, "both")
    assert found[0].origins == {"anna": {(1, 9)}, "anna,bob": {(3, 9)}}
    assert found[1].origins == {"bob": {(2, 12)}, "anna,bob": {(6, 9)}}
    assert {(one.note, one.flagged, one.seconds, one.revision) for one in found.values()} == {("", False, 0.0, 1)}


def test_stopped_it_goes_on(root, monkeypatch):
    written, write = [], annotations.write_shard_annotations

    def stop_at_the_second(*given):
        if written:
            raise KeyboardInterrupt
        written.append(given)
        write(*given)

    monkeypatch.setattr("attentiontuner.demos.merging.write_shard_annotations", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        merge_annotators(root, "anna,bob,carl", "both")
    assert said_by(root, "both") == {episode: pairs for episode, pairs in UNION.items() if episode < 4}
    monkeypatch.undo()
    assert merge_annotators(root, "anna,bob,carl", "both").changed == 2
    assert said_by(root, "both") == UNION


def test_what_was_annotated_since_is_added_and_what_was_changed_needs_a_word(root):
    merge_annotators(root, "anna,bob", "both")
    write_annotation(root, "bob", 7, Annotation(PairTable.of([(0, 3)], LENGTH)))
    assert merge_annotators(root, "anna,bob", "both").changed == 1
    write_annotation(root, "anna", 0, Annotation(PairTable.of([], LENGTH)))
    before = files(root)
    with pytest.raises(UserError, match="'both' has annotated episode 0 otherwise: give another name, or --overwrite"):
        merge_annotators(root, "anna,bob", "both")
    assert files(root) == before
    assert merge_annotators(root, "anna,bob", "both", overwrite=True).changed == 1
    found = read_annotations(root, "both")
    assert format_pairs(found[0].pairs) == {"9": "3"}
    assert [found[episode].revision for episode in (0, 1, 7)] == [2, 1, 1]


def test_nobody_elses_labels_are_written_over(root):
    before = files(root)
    with pytest.raises(UserError, match="annotator 'carl' has annotated episode 0 otherwise"):
        merge_annotators(root, "anna,bob", "carl")
    write_annotation(root, "dora", 7, Annotation(PairTable.of([], LENGTH)))  # no one else annotated that one
    with pytest.raises(UserError, match="annotator 'dora' has annotated episode 7 otherwise"):
        merge_annotators(root, "anna,bob", "dora")
    assert merge_annotators(root, "anna,bob", "dora", overwrite=True).changed == 6
    assert sorted(said_by(root, "dora")) == [0, 1, 2, 4, 5]
    after = files(root)
    assert {name: after[name] for name in of_people(before)} == of_people(before)


@pytest.mark.parametrize(
    ("annotators", "name", "rule", "problem"),
    [
        ("anna,eve", "both", "union", "has no annotator 'eve': there are anna, bob, carl"),
        ("anna", "both", "union", "only 'anna' is to be merged: name two annotators or more"),
        ("anna,bob,anna", "both", "union", "annotator 'anna' is named twice"),
        ("anna,", "both", "union", "annotator '': use letters"),
        ("anna,bob", "bob", "union", "annotator 'bob' is one of those to be merged"),
        ("anna,bob", "x,y", "union", "annotator 'x,y': use letters"),
        ("anna,bob", "../x", "union", "annotator '../x': use letters"),
        ("anna,bob", "expert", "union", "the labels of 'expert' belong to the scripted expert"),
        ("anna,bob", "both", "most", "no rule 'most': merge by union, majority, all"),
    ],
)
def test_what_cannot_be_merged_is_refused(root, annotators, name, rule, problem):
    before = files(root)
    with pytest.raises(UserError, match=problem):
        merge_annotators(root, annotators, name, rule)
    assert files(root) == before


def test_a_folder_that_is_no_data_set_and_annotators_who_did_nothing(root, tmp_path):
    with pytest.raises(UserError, match="is not a data set"):
        merge_annotators(tmp_path, "anna,bob", "both")
    assert not (tmp_path / ".lock").exists()
    for name in ("dora", "emil"):
        write_annotation(root, name, 0, Annotation(PairTable.of([], LENGTH)))
        write_annotation(root, name, 0, None)
    with pytest.raises(UserError, match="dora and emil have annotated nothing"):
        merge_annotators(root, "dora,emil", "both")
    assert "both" not in DemoStore.open(root).annotators()


def test_the_file_is_an_annotators_like_any_other(root):
    merge_annotators(root, "anna,bob", "both", "all")
    lines = (root / "annotations" / "both" / "00001.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"episode": 4, "pairs": {"9": "1@0.5"}, "origins": {"anna": ["9:1"]}, "revision": 1},
        {"episode": 5, "pairs": {}, "revision": 1},
    ]
    assert np.array_equal(DemoStore.open(root, "both")[4].pairs.weight, [0.5])
