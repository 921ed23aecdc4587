import json
import multiprocessing
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.demos import (
    Annotation,
    DemoStore,
    PairTable,
    RevisionConflict,
    agreement,
    read_annotation,
    read_annotations,
    write_annotation,
)
from attentiontuner.demos.pair_text import format_pairs, parse_pairs
from tests.demos.examples import demonstration, make_writer, pair_rows, uncertain_rows, uncertain_table, write_store

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
        Annotation(PairTable.of(rows, LENGTH), {"expert": frozenset({(1, 20)})}, seconds=12.5, flagged=True),
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
        PairTable.of([(0, 2), (1, 2, 3)], LENGTH), {"model": frozenset({(0, 2), (1, 2)})}, "two “balls”\n", True, 3.25
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
    assert (
        np.asarray(found.pairs).tolist()
        == np.asarray(given_annotation.pairs).tolist()
        == np.asarray(stored.pairs).tolist()
    )
    assert read_annotation(root, "anna", 4) is None
    assert list(read_annotations(root, "anna")) == [5]
    assert read_annotations(root, "nobody") == {}
    assert np.asarray(DemoStore.open(root, "anna")[5].pairs).tolist() == [[0, 2, 1], [1, 2, 3]]


@pytest.mark.parametrize("space", ["\u2028", "\u2029", "\x85", "\x1c"])
def test_a_note_with_any_kind_of_line_break_stays_one_line(root, space):
    note = f"first{space}second"
    write_annotation(root, "ann", 1, Annotation(PairTable.of([(0, 1)], 9), note=note))
    assert read_annotation(root, "ann", 1).note == note


def test_nothing_to_remember_and_not_annotated(root):
    write_annotation(root, "anna", 0, Annotation(PairTable.of([], LENGTH)))
    assert json.loads(lines(root, "anna").read_text())["pairs"] == {}
    assert len(DemoStore.open(root)[0].pairs) == 0
    assert DemoStore.open(root)[1].pairs is None
    assert write_annotation(root, "anna", 0, None) is None
    assert DemoStore.open(root)[0].pairs is None


def test_the_folder_may_be_text(root):
    written = write_annotation(str(root), "anna", 3, Annotation(PairTable.of([(1, 20)], LENGTH)))
    assert read_annotation(str(root), "anna", 3) == read_annotations(str(root), "anna")[3] == written


def test_revisions_count_and_conflicts_write_nothing(root):
    first = write_annotation(root, "anna", 0, Annotation(PairTable.of([(0, 1)], LENGTH)), expected_revision=0)
    second = write_annotation(root, "anna", 0, Annotation(PairTable.of([(0, 2)], LENGTH)), expected_revision=1)
    assert (first.revision, second.revision) == (1, 2)
    before = lines(root, "anna").read_bytes()
    with pytest.raises(RevisionConflict, match="revision 2, not 1") as caught:
        write_annotation(root, "anna", 0, Annotation(PairTable.of([], LENGTH)), expected_revision=1)
    assert (caught.value.expected, caught.value.found) == (1, 2)
    with pytest.raises(RevisionConflict):
        write_annotation(root, "anna", 0, None, expected_revision=1)
    assert lines(root, "anna").read_bytes() == before


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "../x", "a\\b", "a b", "x" * 65, "é"])
def test_names_that_could_leave_the_folder_are_refused(root, name):
    with pytest.raises(UserError, match="use letters, digits"):
        write_annotation(root, name, 0, Annotation(PairTable.of([], LENGTH)))
    with pytest.raises(UserError, match="use letters, digits"):
        read_annotation(root, name, 0)


def test_bad_writes_change_nothing(root, tmp_path):
    for episode, pairs, message in (
        (0, [(3, 50)], "outside the episode of 40"),
        (8, [], "no episode 8"),
        (-1, [], "no episode -1"),
    ):
        with pytest.raises(UserError, match=message):
            write_annotation(root, "anna", episode, Annotation(PairTable.of(pairs, 99)))
    assert DemoStore.open(root).annotators() == []
    with pytest.raises(UserError, match="does not exist"):
        write_annotation(tmp_path / "none", "anna", 0, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"episode": 1, "pairs": {"3": "5"}}', r"pair \(5, 3\): p must be before q"),
        ('{"episode": 1, "pairs": {"3": "1-9"}}', r"pair \(9, 3\): p must be before q"),
        ('{"episode": 1, "pairs": {"3": "5-4"}}', "steps 5-4 at step 3 end before they begin"),
        ('{"episode": 1, "pairs": {"40": "5"}}', "outside the episode of 40 steps"),
        ('{"episode": 0, "pairs": {"9999999999": "0-9999999998"}}', "episode 0 has line 1 already"),
        ('{"episode": 1, "pairs": {"9999999999": "0-9999999998"}}', "outside the episode of 40 steps"),
        ('{"episode": 1, "pairs": {"3": "99999999999999999999"}}', r"pair \(9+, 3\): p must be before q"),
        ('{"episode": 1, "pairs": {"3": "1x99999999999999999999"}}', "the multiplicity is above 2147483647"),
        ('{"episode": 1, "pairs": {"3": "1x2147483647,1"}}', "episode 1, pair .* add up to more than 2147483647"),
        ('{"episode": 1, "pairs": {"3": "1@-1"}}', "the weight is no number from 0"),
        ('{"episode": 1, "pairs": {"3": "1@nan"}}', "the weight is no number from 0"),
        ('{"episode": 1, "pairs": {"9": "1~9"}}', r"pair \(9, 9\): p must be before q"),
        ('{"episode": 1, "pairs": {"9~4": "1"}}', r"pair \(1, 9~4\): q is outside"),
        ('{"episode": 1, "pairs": {"9~40": "1"}}', "outside the episode of 40 steps"),
        ('{"episode": 1, "pairs": {"9~12": "1-9"}}', r"pair \(9, 9\): p must be before q"),
        ("[" * 100_000, "not an annotation"),
        ('{"episode": 1, "pairs": {"3": "1x0"}}', "multiplicity is below 1"),
        ('{"episode": 4, "pairs": {}}', "episode 4 is not in shard 0"),
        ('{"episode": -1, "pairs": {"3": "1"}}', "episode -1 is not in shard 0"),
        ('{"episode": 1}', "no key 'pairs'"),
        ('{"episode": 1, "pairs": {"3": "one"}}', "not an annotation"),
        ('{"episode": 1, "pairs": ["3"]}', "not an annotation: write it as"),
        ('{"episode": 1, "pairs": {"3": "1", "11": 0}}', 'line 2: steps are text: "11": "0"$'),
        ('{"episode": 1, "pairs": {"11": [0, 1]}}', 'line 2: steps are text: "11": "0,1"$'),
        ('{"episode": 1, "pairs": [[0, 11]]}', 'line 2: pairs stand under the step that recalls: {"11": "0"}$'),
        ('{"episode": 1, "pairs": {"11": null}}', "not an annotation: write it as"),
        ('{"episode": 1, "pairs": {"11": []}}', "not an annotation: write it as"),
        ("[]", "not an annotation"),
        ("{", "not an annotation"),
    ],
)
def test_bad_lines_are_named_on_every_way_of_reading(root, line, message):
    write_annotation(root, "anna", 0, Annotation(PairTable.of([], LENGTH)))
    lines(root, "anna").write_text(lines(root, "anna").read_text() + "\n" + line + "\n")
    for read in (
        lambda: read_annotations(root, "anna"),
        lambda: DemoStore.open(root)[0],
        DemoStore.open(root).read_packed,
    ):
        with pytest.raises(UserError, match=r"00000.jsonl, (?=line 2: ).*" + message):
            read()


def test_lines_written_by_hand_are_put_in_order(root):
    write_annotation(root, "anna", 0, Annotation(PairTable.of([], LENGTH)))
    lines(root, "anna").write_text(
        '{"episode": 2, "pairs": {"9": "4,1,4", "3": "0"}}\n{"episode": 1, "pairs": {"5": "2"}}\n'
    )
    pairs = DemoStore.open(root).read_pairs(range(4))
    assert pairs.annotated.tolist() == [False, True, True, False]
    assert pairs.rows().tolist() == [[1, 2, 5, 1], [2, 0, 3, 1], [2, 1, 9, 1], [2, 4, 9, 2]]
    assert list(read_annotation(root, "anna", 2).pairs) == [(0, 3, 1), (1, 9, 1), (4, 9, 2)]


def test_a_range_is_compared_with_the_episode_before_it_is_expanded(root):
    """A few bytes must not ask for gigabytes."""
    for text in ('{"9999999999": "0-9999999998"}', '{"39": "0-9999999998"}', '{"9~9999999999": "0-8"}'):
        lines(root, "anna").parent.mkdir(parents=True, exist_ok=True)
        lines(root, "anna").write_text(f'{{"episode": 0, "pairs": {text}}}\n')
        tracemalloc.start()
        with pytest.raises(UserError, match="00000.jsonl, line 1: episode 0, pair"):
            read_annotations(root, "anna")
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


def test_the_first_bad_line_is_named(root):
    lines(root, "anna").parent.mkdir(parents=True)
    lines(root, "anna").write_text(
        '{"episode": 0, "pairs": {"3": "1"}}\n{"episode": 1, "pairs": {"3": "3"}}\n{"episode": 2, "pairs"\n'
    )
    with pytest.raises(UserError, match=r"line 2: episode 1, pair \(3, 3\)"):
        read_annotations(root, "anna")
    lines(root, "anna").write_text('{"episode": 0, "pairs": {"3": "1"}, "origins": 7}\n')
    assert len(DemoStore.open(root)[0].pairs) == 1, "the pairs alone are sound"
    for read in (lambda: read_annotations(root, "anna"), DemoStore.open(root).verify):
        with pytest.raises(UserError, match=r"00000.jsonl, line 1: not an annotation"):
            read()


def table(columns: dict[str, Any], length: int = LENGTH) -> PairTable:
    return PairTable(np.array([length]), np.array([True]), np.zeros(len(columns["p"]), int), **columns)


UNCERTAIN = {
    "p": np.array([1, 8, 5, 2, 3]),
    "p_last": np.array([1, 11, 5, 2, 3]),
    "q": np.array([20, 24, 24, 30, 30]),
    "q_last": np.array([20, 24, 24, 34, 34]),
    "multiplicity": np.array([1, 1, 2, 1, 1]),
    "weight": np.array([1, 1, 0.5, 0.25, 0.25]),
}


def test_intervals_and_weights_are_written_and_read(root):
    pairs = table(UNCERTAIN)
    text = {"20": "1", "24": "5x2@0.5,8~11", "30~34": "2-3@0.25"}
    assert format_pairs(pairs) == text
    assert parse_pairs(text, LENGTH) == pairs
    write_annotation(root, "anna", 3, Annotation(pairs))
    assert json.loads(lines(root, "anna").read_text())["pairs"] == text
    write_annotation(root, "anna", 2, Annotation(PairTable.of([(0, 1)], LENGTH)))
    assert read_annotation(root, "anna", 3).pairs == pairs
    store = DemoStore.open(root, "anna")
    assert store[3].pairs == store.read_packed([3]).pairs == store.read_pairs([3]) == pairs
    assert list(store[3].pairs) == [(1, 20, 1), (5, 24, 2), (9, 24, 1), (2, 32, 1), (3, 32, 1)]


pair_lists = st.lists(pair_rows(steps=30), max_size=60)


@settings(deadline=None)
@given(pair_lists)
def test_text_of_pairs_round_trips(rows):
    pairs = PairTable.of(rows, 30)
    assert parse_pairs(format_pairs(pairs), 30) == pairs


@settings(deadline=None)
@given(st.lists(uncertain_rows(steps=30), max_size=40))
def test_text_of_uncertain_pairs_round_trips(rows):
    pairs = uncertain_table(rows, 30)
    assert parse_pairs(format_pairs(pairs), 30) == pairs


TURNS = 15


def _write_many(root: Path, name: str, episodes: list[int], together: Any) -> None:
    together.wait()
    for turn in range(TURNS):
        for episode in episodes:
            write_annotation(root, name, episode, Annotation(PairTable.of([(0, 1 + turn)], LENGTH)))


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
    write_annotation(tmp_path / "d", "expert", 2, Annotation(PairTable.of([(0, 1)], 4)))
    make_writer(tmp_path / "d").write_shard(0, written, {"expert": [d.pairs for d in written]})
    assert np.asarray(DemoStore.open(tmp_path / "d")[2].pairs).tolist() == [[0, 1, 1]]
    assert np.asarray(DemoStore.open(tmp_path / "d")[3].pairs).tolist() == np.asarray(written[3].pairs).tolist()


def test_agreement_without_tolerance():
    a, b = PairTable.of([(0, 5), (1, 5), (2, 9)], 20), PairTable.of([(0, 5), (2, 9, 4), (3, 9), (4, 9)], 20)
    found = agreement(a, b)
    assert (found.matched, found.precision, found.recall) == (2, pytest.approx(2 / 3), pytest.approx(2 / 7))
    assert found.f1 == pytest.approx(2 * 2 / (3 + 7))
    assert (found.only_first, found.only_second) == (((1, 5),), ((3, 9), (4, 9)))
    assert found.counts == ((2, 9, 1, 4),)


def test_agreement_matches_one_to_one_and_as_many_as_can_be():
    # (1,5) could take (1,5) or (2,5); (0,5) only (1,5): both are matched only if (1,5) gives way.
    found = agreement(PairTable.of([(0, 5), (1, 5)], 20), PairTable.of([(1, 5), (2, 5)], 20), tolerance=1)
    assert (found.matched, found.f1) == (2, 1.0)
    found = agreement(PairTable.of([(1, 5), (2, 5), (3, 5)], 20), PairTable.of([(2, 5)], 20), tolerance=1)
    assert (found.matched, found.precision, found.recall) == (1, pytest.approx(1 / 3), 1.0)


def test_a_tolerance_wider_than_the_episode_costs_nothing():
    found = agreement(
        PairTable.of([(0, 5), (1, 9)], 20), PairTable.of([(3, 7), (2, 18), (4, 19)], 20), tolerance=10_000
    )
    assert (found.matched, len(found.only_first), len(found.only_second)) == (2, 0, 1)


def test_agreement_of_empty_annotations():
    empty, one = PairTable.of([], 20), PairTable.of([(0, 1)], 20)
    assert agreement(empty, empty).f1 == agreement(empty, empty).precision == 1.0
    found = agreement(empty, one)
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)


@settings(deadline=None)
@given(pair_lists, pair_lists, st.integers(0, 2))
def test_agreement_is_the_largest_matching(first, second, tolerance):
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    a, b = PairTable.of(first, 30), PairTable.of(second, 30)
    found = agreement(a, b, tolerance)
    expected = 0
    if len(a) and len(b):
        near = (abs(np.asarray(a)[:, None, :2] - np.asarray(b)[None, :, :2]) <= tolerance).all(axis=2)
        expected = int((maximum_bipartite_matching(csr_array(near), perm_type="column") >= 0).sum())
    assert found.matched >= expected
    assert len(found.only_first) == len(a) - expected
    assert len(found.only_second) == len(b) - expected
