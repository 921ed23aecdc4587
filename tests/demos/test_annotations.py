import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.demos import (
    Annotation,
    DemoStore,
    RevisionConflict,
    agreement,
    as_pairs,
    read_annotation,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.annotations import format_pairs, parse_pairs, read_shard_pairs
from attentiontuner.demos.manifest import read_manifest
from attentiontuner.errors import UserError
from tests.demos.examples import demonstration, make_writer, pair_rows, write_store

LENGTH = 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data set of eight episodes of 40 steps in two shards, without annotations."""
    writer = make_writer(tmp_path / "d")
    for index in (0, 1):
        writer.write_shard(index, [demonstration(4 * index + i, None, LENGTH) for i in range(4)], {})
    return tmp_path / "d"


def lines(root: Path, annotator: str, shard: int = 0) -> Path:
    return root / "annotations" / annotator / f"{shard:05d}.jsonl"


def test_the_line_is_the_one_the_documentation_shows(root):
    rows = [(1, 20), (1, 24), (5, 24, 2), *((p, 24) for p in range(8, 12))]
    write_annotation(
        root,
        "anna",
        3,
        Annotation(as_pairs(rows, LENGTH), {"expert": frozenset({(1, 20)})}, seconds=12.5, flagged=True),
    )
    assert json.loads(lines(root, "anna").read_text()) == {
        "episode": 3,
        "pairs": {"20": "1", "24": "1,5x2,8-11"},
        "origins": {"expert": ["20:1"]},
        "flagged": True,
        "seconds": 12.5,
        "revision": 1,
    }


def test_round_trip_of_everything(root):
    given_annotation = Annotation(
        as_pairs([(0, 2), (1, 2, 3)], LENGTH), {"model": frozenset({(0, 2), (1, 2)})}, "two “balls”\n", True, 3.25
    )
    stored = write_annotation(root, "anna", 5, given_annotation)
    found = read_annotation(root, "anna", 5)
    assert found is not None
    assert (found.origins, found.note, found.flagged, found.seconds, found.revision) == (
        given_annotation.origins,
        "two “balls”\n",
        True,
        3.25,
        1,
    )
    assert found.pairs.tolist() == given_annotation.pairs.tolist() == stored.pairs.tolist()
    assert read_annotation(root, "anna", 4) is None
    assert list(read_annotations(root, "anna")) == [5]
    assert read_annotations(root, "nobody") == {}
    assert DemoStore.open(root, "anna")[5].pairs.tolist() == [[0, 2, 1], [1, 2, 3]]


@pytest.mark.parametrize("space", ["\u2028", "\u2029", "\x85", "\x1c"])
def test_a_note_with_any_kind_of_line_break_stays_one_line(root, space):
    note = f"first{space}second"
    write_annotation(root, "ann", 1, Annotation(as_pairs([(0, 1)], 9), note=note))
    assert read_annotation(root, "ann", 1).note == note


def test_nothing_to_remember_and_not_annotated(root):
    write_annotation(root, "anna", 0, Annotation(as_pairs([], LENGTH)))
    assert json.loads(lines(root, "anna").read_text())["pairs"] == {}
    assert len(DemoStore.open(root)[0].pairs) == 0
    assert DemoStore.open(root)[1].pairs is None
    assert write_annotation(root, "anna", 0, None) is None
    assert DemoStore.open(root)[0].pairs is None


def test_revisions_count_and_conflicts_write_nothing(root):
    first = write_annotation(root, "anna", 0, Annotation(as_pairs([(0, 1)], LENGTH)), expected_revision=0)
    second = write_annotation(root, "anna", 0, Annotation(as_pairs([(0, 2)], LENGTH)), expected_revision=1)
    assert (first.revision, second.revision) == (1, 2)
    before = lines(root, "anna").read_bytes()
    with pytest.raises(RevisionConflict, match="revision 2, not 1") as caught:
        write_annotation(root, "anna", 0, Annotation(as_pairs([], LENGTH)), expected_revision=1)
    assert (caught.value.expected, caught.value.found) == (1, 2)
    with pytest.raises(RevisionConflict):
        write_annotation(root, "anna", 0, None, expected_revision=1)
    assert lines(root, "anna").read_bytes() == before


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "../x", "a\\b", "a b", "x" * 65, "é"])
def test_names_that_could_leave_the_folder_are_refused(root, name):
    with pytest.raises(UserError, match="annotator name"):
        write_annotation(root, name, 0, Annotation(as_pairs([], LENGTH)))
    with pytest.raises(UserError, match="annotator name"):
        read_annotation(root, name, 0)


def test_bad_writes_change_nothing(root, tmp_path):
    for episode, pairs, message in (
        (0, [(3, 50)], "outside the episode of 40"),
        (8, [], "no episode 8"),
        (-1, [], "no episode -1"),
    ):
        with pytest.raises(UserError, match=message):
            write_annotation(root, "anna", episode, Annotation(as_pairs(pairs, 99)))
    assert DemoStore.open(root).annotators() == []
    with pytest.raises(UserError, match="does not exist"):
        write_annotation(tmp_path / "none", "anna", 0, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"episode": 1, "pairs": {"3": "5"}}', r"pair \(5, 3\): p must be before q"),
        ('{"episode": 1, "pairs": {"3": "1-9"}}', r"pair \(9, 3\): p must be before q"),
        ('{"episode": 1, "pairs": {"40": "5"}}', "outside the episode of 40 steps"),
        ('{"episode": 1, "pairs": {"3": "1x0"}}', "multiplicity is below 1"),
        ('{"episode": 4, "pairs": {}}', "episode 4 is not in shard 0"),
        ('{"episode": -1, "pairs": {"3": "1"}}', "episode -1 is not in shard 0"),
        ('{"episode": 1}', "no key 'pairs'"),
        ('{"episode": 1, "pairs": {"3": "one"}}', "not an annotation"),
        ('{"episode": 1, "pairs": ["3"]}', "not an annotation"),
        ("[]", "not an annotation"),
        ("{", "not an annotation"),
    ],
)
def test_bad_lines_are_named_on_every_way_of_reading(root, line, message):
    write_annotation(root, "anna", 0, Annotation(as_pairs([], LENGTH)))
    lines(root, "anna").write_text(lines(root, "anna").read_text() + "\n" + line + "\n")
    for read in (
        lambda: read_annotations(root, "anna"),
        lambda: DemoStore.open(root)[0],
        DemoStore.open(root).read_packed,
    ):
        with pytest.raises(UserError, match="00000.jsonl, line 2: .*" + message):
            read()


def test_lines_written_by_hand_are_put_in_order(root):
    write_annotation(root, "anna", 0, Annotation(as_pairs([], LENGTH)))
    lines(root, "anna").write_text(
        '{"episode": 2, "pairs": {"9": "4,1,4", "3": "0"}}\n{"episode": 1, "pairs": {"5": "2"}}\n'
    )
    entry = read_manifest(root).shards[0]
    quick = {episode: pairs.tolist() for episode, pairs in read_shard_pairs(root, "anna", entry).items()}
    assert quick == {2: [[0, 3, 1], [1, 9, 1], [4, 9, 2]], 1: [[2, 5, 1]]}


def test_the_quick_reading_of_pairs_is_the_full_one(tmp_path):
    write_store(tmp_path / "d", 10)
    for entry in read_manifest(tmp_path / "d").shards:
        quick = read_shard_pairs(tmp_path / "d", "expert", entry)
        for episode, pairs in quick.items():
            full = read_annotation(tmp_path / "d", "expert", episode)
            assert full is not None
            assert full.pairs.tolist() == pairs.tolist()
            assert not pairs.flags.writeable


pair_lists = st.lists(pair_rows(steps=30), max_size=60)


@settings(deadline=None)
@given(pair_lists)
def test_text_of_pairs_round_trips(rows):
    pairs = as_pairs(rows, 30)
    assert as_pairs(parse_pairs(format_pairs(pairs)), 30).tolist() == pairs.tolist()


TURNS = 15


def _write_many(root: Path, name: str, episodes: list[int], together: Any) -> None:
    together.wait()
    for turn in range(TURNS):
        for episode in episodes:
            write_annotation(root, name, episode, Annotation(as_pairs([(0, 1 + turn)], LENGTH)))


def test_two_processes_that_write_lose_nothing(root):
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    writers = [
        context.Process(target=_write_many, args=(root, "anna", [first, first + 2], together)) for first in (0, 1)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    assert {episode: a.revision for episode, a in read_annotations(root, "anna").items()} == dict.fromkeys(
        range(4), TURNS
    )


def test_a_shard_written_anew_keeps_what_people_revised(tmp_path):
    written = write_store(tmp_path / "d", 4)
    write_annotation(tmp_path / "d", "expert", 2, Annotation(as_pairs([(0, 1)], 4)))
    make_writer(tmp_path / "d").write_shard(0, written, {"expert": [d.pairs for d in written]})
    assert DemoStore.open(tmp_path / "d")[2].pairs.tolist() == [[0, 1, 1]]
    assert DemoStore.open(tmp_path / "d")[3].pairs.tolist() == written[3].pairs.tolist()


def test_agreement_without_tolerance():
    a, b = as_pairs([(0, 5), (1, 5), (2, 9)], 20), as_pairs([(0, 5), (2, 9, 4), (3, 9), (4, 9)], 20)
    found = agreement(a, b)
    assert (found.matched, found.precision, found.recall) == (2, pytest.approx(2 / 3), pytest.approx(0.5))
    assert found.f1 == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert (found.only_first, found.only_second) == (((1, 5),), ((3, 9), (4, 9)))


def test_agreement_matches_one_to_one_and_as_many_as_can_be():
    # (1,5) could take (1,5) or (2,5); (0,5) only (1,5): both are matched only if (1,5) gives way.
    found = agreement(as_pairs([(0, 5), (1, 5)], 20), as_pairs([(1, 5), (2, 5)], 20), tolerance=1)
    assert (found.matched, found.f1) == (2, 1.0)
    found = agreement(as_pairs([(1, 5), (2, 5), (3, 5)], 20), as_pairs([(2, 5)], 20), tolerance=1)
    assert (found.matched, found.precision, found.recall) == (1, pytest.approx(1 / 3), 1.0)


def test_a_tolerance_wider_than_the_episode_costs_nothing():
    found = agreement(as_pairs([(0, 5), (1, 9)], 20), as_pairs([(3, 7), (2, 18), (4, 19)], 20), tolerance=10_000)
    assert (found.matched, len(found.only_first), len(found.only_second)) == (2, 0, 1)


def test_agreement_of_empty_annotations():
    empty, one = as_pairs([], 20), as_pairs([(0, 1)], 20)
    assert agreement(empty, empty).f1 == agreement(empty, empty).precision == 1.0
    found = agreement(empty, one)
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)


@settings(deadline=None)
@given(pair_lists, pair_lists, st.integers(0, 2))
def test_agreement_is_the_largest_matching(first, second, tolerance):
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    a, b = as_pairs(first, 30), as_pairs(second, 30)
    found = agreement(a, b, tolerance)
    expected = 0
    if len(a) and len(b):
        near = (abs(a[:, None, :2] - b[None, :, :2]) <= tolerance).all(axis=2)
        expected = int((maximum_bipartite_matching(csr_array(near), perm_type="column") >= 0).sum())
    assert found.matched == expected
    assert len(found.only_first) == len(a) - expected
    assert len(found.only_second) == len(b) - expected
