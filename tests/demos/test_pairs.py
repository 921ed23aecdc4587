"""The table of pairs: what it refuses, and its operations against the plain way of doing the same."""

import copy
import pickle
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attentiontuner.core.errors import UserError
from attentiontuner.data.labels import label_generator
from attentiontuner.demos import PairTable
from tests.demos.examples import UncertainRow, uncertain_rows, uncertain_table

STEPS, EPISODES = 12, 4
COLUMNS = ("lengths", "annotated", "episode", "p", "q", "multiplicity", "p_last", "q_last", "weight")

tables = st.lists(uncertain_rows(STEPS, EPISODES), max_size=30)


def listed(table: PairTable) -> list[UncertainRow]:
    columns = (table.episode, table.p, table.p_last, table.q, table.q_last, table.multiplicity, table.weight)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def grouped(rows: list[UncertainRow]) -> list[UncertainRow]:
    """Rows in order of (episode, q, p), equal ones made one: multiplicities added, the largest weight."""
    found: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for episode, p, p_last, q, q_last, times, weight in rows:
        found.setdefault((episode, q, p, q_last, p_last), []).append((times, float(np.float32(weight))))
    return [
        (e, p, p_last, q, q_last, sum(t for t, _ in same), max(w for _, w in same))
        for (e, q, p, q_last, p_last), same in sorted(found.items())
    ]


def check_sound(table: PairTable) -> None:
    """Valid, in order, read-only; a table that says the same is made of its own columns."""
    for name in COLUMNS:
        assert not getattr(table, name).flags.writeable, name
    assert PairTable(*(np.array(getattr(table, name)) for name in COLUMNS)) == table
    assert listed(table) == grouped(listed(table))
    kinds = {"lengths": np.int64, "annotated": np.bool_, "weight": np.float32}
    assert all(getattr(table, name).dtype == kinds.get(name, np.int32) for name in COLUMNS)


@settings(deadline=None)
@given(tables)
def test_pairs_are_put_in_order_and_equal_ones_are_one(rows):
    table = uncertain_table(rows, STEPS, EPISODES)
    check_sound(table)
    assert listed(table) == grouped(rows)
    assert table == uncertain_table(rows[::-1], STEPS, EPISODES) == pickle.loads(pickle.dumps(table))  # noqa: S301
    assert len(table) == len(grouped(rows))


@settings(deadline=None)
@given(tables, st.lists(st.integers(0, EPISODES - 1)))
def test_select_join_and_one(rows, chosen):
    table = uncertain_table(rows, STEPS, EPISODES)
    selected = table.select(chosen)
    check_sound(selected)
    assert listed(selected) == [
        (new, *row[1:]) for new, old in enumerate(chosen) for row in listed(table) if row[0] == old
    ]
    joined = PairTable.join(table.select([row]) for row in range(EPISODES))
    check_sound(joined)
    assert joined == table == PairTable.join([table])
    assert [table.one(row) for row in chosen] == [table.select([row]) for row in chosen]
    assert PairTable.join([PairTable.nothing([STEPS]), table]).select(range(1, EPISODES + 1)) == table


def merged_plainly(voices: list[PairTable], rule: str) -> list[UncertainRow]:
    """Pair by pair: those of the same middle are one; as many voices as the rule wants must say what is kept."""
    said: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    intervals: dict[tuple[int, int, int], list[tuple[int, ...]]] = {}
    for table in voices:
        rows = table.settled()
        for episode, p, _, q, _, times, weight in listed(rows):
            said.setdefault((episode, q, p), []).append((times, weight))
        for episode, p, p_last, q, q_last, _, _ in listed(table):
            about = ((p_last - p + q_last - q), p, q, p_last, q_last)
            intervals.setdefault((episode, (q + q_last) // 2, (p + p_last) // 2), []).append(about)
    kept = []
    for key, votes in said.items():
        asked = sum(bool(table.annotated[key[0]]) for table in voices)
        wanted = {"union": 1, "majority": asked // 2 + 1, "all": asked}[rule]
        if len(votes) >= wanted:
            times, weights = (sorted(column, reverse=True)[wanted - 1] for column in zip(*votes, strict=True))
            _, p, q, p_last, q_last = min(intervals[key])
            kept.append((key[0], p, p_last, q, q_last, times, weights))
    return grouped(kept)


@settings(deadline=None)
@given(st.lists(st.tuples(tables, st.integers(1, EPISODES)), min_size=1, max_size=4))
@pytest.mark.parametrize("rule", ["union", "majority", "all"])
def test_merging_is_a_vote_of_those_who_annotated(rule, people):
    voices = []
    for rows, annotated in people:  # the last episodes are not annotated by everybody
        table = uncertain_table([row for row in rows if row[0] < annotated], STEPS, EPISODES)
        voices.append(replace(table, annotated=np.arange(EPISODES) < annotated))
    merged = voices[0].merge(*voices[1:], rule=rule)
    check_sound(merged)
    assert listed(merged) == merged_plainly(voices, rule)
    assert merged == voices[-1].merge(*voices[-2::-1], rule=rule) == merged.merge(rule=rule)
    assert merged.annotated.tolist() == [any(voice.annotated[row] for voice in voices) for row in range(EPISODES)]


def test_merging_by_example():
    def said(*rows: UncertainRow) -> PairTable:
        return uncertain_table([(0, *row) for row in rows], STEPS)

    anna = said((1, 1, 7, 7, 3, 1.0), (2, 4, 9, 9, 1, 0.5))
    bob = said((1, 1, 7, 7, 2, 1.0), (3, 3, 9, 9, 1, 1.0), (0, 0, 5, 5, 1, 1.0))
    nothing, absent = said(), PairTable.nothing([STEPS])
    shared = [(0, 1, 1, 7, 7, 2, 1.0), (0, 3, 3, 9, 9, 1, 0.5)]
    assert listed(anna.merge(bob, rule="all")) == listed(anna.merge(bob, absent, rule="all")) == shared
    assert listed(anna.merge(bob, nothing, rule="majority")) == shared
    assert listed(anna.merge(bob)) == [(0, 0, 0, 5, 5, 1, 1.0), (0, 1, 1, 7, 7, 3, 1.0), (0, 3, 3, 9, 9, 1, 1.0)]
    assert anna.merge(nothing, rule="all") == nothing.merge(absent) == nothing
    assert anna.merge(absent, rule="all") == anna
    assert absent.merge(absent) == absent
    # Two intervals of one middle and one width: the same is kept whoever is asked first.
    early, late = said((0, 0, 1, 8, 1, 1.0)), said((0, 1, 1, 7, 1, 1.0))
    assert early.merge(late) == late.merge(early) == early
    with pytest.raises(UserError, match="no rule 'most': merge by union, majority, all"):
        anna.merge(bob, rule="most")
    with pytest.raises(UserError, match="their lengths differ"):
        anna.merge(PairTable.nothing([STEPS + 1]))


@settings(deadline=None)
@given(tables, st.integers(-15, 15), st.integers(-15, 15))
def test_shifted_pairs_stay_in_the_episode(rows, dp, dq):
    table = uncertain_table(rows, STEPS, EPISODES)
    moved = table.shift(dp, dq)
    check_sound(moved)
    expected = []
    for episode, p, p_last, q, q_last, times, weight in listed(table):
        q, q_last = (min(max(step + dq, 1), STEPS - 1) for step in (q, q_last))
        p, p_last = min(max(p + dp, 0), q - 1), min(max(p_last + dp, 0), q_last - 1)
        expected.append((episode, p, p_last, q, q_last, times, weight))
    assert listed(moved) == grouped(expected)
    assert table.shift(0, 0) == table


@settings(deadline=None)
@given(tables)
def test_an_interval_stands_for_its_middle(rows):
    table = uncertain_table(rows, STEPS, EPISODES)
    settled = table.settled()
    check_sound(settled)
    assert settled.exact
    middle = [
        (e, (p + p_last) // 2, (p + p_last) // 2, (q + q_last) // 2, (q + q_last) // 2, times, weight)
        for e, p, p_last, q, q_last, times, weight in listed(table)
    ]
    assert listed(settled) == grouped(middle)
    assert settled.settled() is settled
    assert np.array_equal(settled.rows(), table.rows())


def make_table(episodes: int = 200, seed: int = 0) -> PairTable:
    """Episodes of 2 to 40 steps, each with pairs (0, q) for some q; every tenth is not annotated."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 41, episodes)
    annotated = np.arange(episodes) % 10 != 9
    rows = [
        (row, 0, q, 1 + int(q == 1))
        for row in np.flatnonzero(annotated)
        for q in sorted(set(rng.integers(1, lengths[row], 5).tolist()))
    ]
    return PairTable(lengths, annotated, *np.array(rows).T)


def every_episode(count: int, length: int, p: int, q: int) -> PairTable:
    same = np.full(count, 1)
    return PairTable(length * same, same > 0, np.arange(count), p * same, q * same)


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.001, 1), (0.1, 20), (0.5, 100), (0.95, 180), (1.0, 180)])
def test_some_annotations_are_kept(fraction, count):
    table = make_table()
    kept = table.keep_annotations(fraction, label_generator(3, "annotated"))
    check_sound(kept)
    assert kept.annotated.sum() == count
    assert not (kept.annotated & ~table.annotated).any()
    assert np.array_equal(kept.rows(), table.rows()[kept.annotated[table.episode]])


def test_perturbed_pairs_stay_causal_and_inside_and_move_as_far_as_asked():
    table = make_table(2000)
    for noise_p, noise_q in [(0.5, 0.0), (0.0, 2.0), (5.0, 20.0)]:
        moved = table.perturb(noise_p, noise_q, label_generator(1, "noise"))
        check_sound(moved)
        assert moved.multiplicity.sum() == table.multiplicity.sum()
    long = every_episode(4000, 1001, 300, 700)
    moved = long.perturb(3.0, 6.0, label_generator(1, "noise"))
    assert abs((moved.p - 300).std() - 3) < 0.15
    assert abs((moved.q - 700).std() - 6) < 0.3
    assert abs((moved.p - 300).mean()) < 0.2
    alone = long.perturb(3.0, 0.0, label_generator(1, "noise"))
    assert np.array_equal(alone.p, moved.p)
    assert (alone.q == 700).all()
    assert table.perturb(0.0, 0.0, label_generator(1, "noise")) is table


def test_labels_of_a_seed_are_those_of_before():
    """Drawn by the version before tables: a run that goes on must find its labels again."""
    table = make_table(20)
    drawn = {
        "noise": table.perturb(2.0, 3.0, label_generator(4, "noise")),
        "random": table.random(label_generator(4, "random")),
        "shuffled": table.shuffled(label_generator(4, "shuffled")),
        "annotated": table.keep_annotations(0.3, label_generator(4, "annotated")),
    }
    bytes_of = {name: found.annotated.tobytes() + found.rows().tobytes() for name, found in drawn.items()}
    assert {name: zlib.crc32(content) for name, content in bytes_of.items()} == {
        "noise": 1609849816,
        "random": 3411832034,
        "shuffled": 1172850477,
        "annotated": 678930003,
    }


def test_random_pairs_are_as_many_and_uniform_over_all_of_an_episode():
    table = make_table()
    drawn = table.random(label_generator(1, "random"))
    check_sound(drawn)
    per_row = [np.bincount(x.episode, weights=x.multiplicity, minlength=200) for x in (table, drawn)]
    assert np.array_equal(*per_row)
    drawn = every_episode(30_000, 5, 0, 1).random(label_generator(1, "random"))
    counts = Counter(zip(drawn.p.tolist(), drawn.q.tolist(), strict=True))
    assert len(counts) == 10
    assert max(abs(count - 3000) for count in counts.values()) < 250


def test_shuffled_pairs_come_from_another_episode():
    own = np.array([row for row in range(50) if row % 5])
    table = PairTable(np.full(50, 60), np.arange(50) % 5 != 0, own, own, own + 1, np.full(len(own), 2))
    shuffled = table.shuffled(label_generator(1, "shuffled"))
    check_sound(shuffled)
    assert (shuffled.episode != shuffled.p).all()
    assert sorted(shuffled.p) == sorted(table.p)
    assert np.array_equal(shuffled.annotated, table.annotated)
    check_sound(make_table().shuffled(label_generator(1, "shuffled")))
    with pytest.raises(UserError, match="at least 2"):
        table.select([1]).shuffled(label_generator(1, "shuffled"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"p": [3], "q": [3]}, r"^episode 1, pair \(3, 3\): p must be before q"),
        ({"p": [0], "q": [9]}, r"pair \(0, 9\): q is outside the episode of 9 steps"),
        ({"p": [0], "q": [3], "q_last": [9]}, r"pair \(0, 3\): q is outside the episode of 9 steps"),
        ({"p": [2], "q": [3], "p_last": [1]}, "an interval ends before it begins"),
        ({"p": [2], "q": [3], "p_last": [3]}, "p must be before q at the end of their intervals too"),
        ({"p": [2], "q": [3], "weight": [-1.0]}, "the weight is no number from 0"),
        ({"p": [2], "q": [3], "weight": [np.nan]}, "the weight is no number from 0"),
        ({"p": [2], "q": [3], "multiplicity": [0]}, "the multiplicity is below 1"),
    ],
)
def test_pairs_that_cannot_be_are_named(columns, message):
    with pytest.raises(UserError, match=message):
        PairTable(
            np.array([3, 9]), np.array([False, True]), np.array([1]), **{k: np.array(v) for k, v in columns.items()}
        )


def test_pairs_of_nobody_and_of_several_episodes():
    with pytest.raises(ValueError, match="no annotated episode"):
        PairTable(np.array([3]), np.array([False]), np.array([0]), np.array([0]), np.array([1]))
    table = make_table(20)
    with pytest.raises(TypeError, match=r"a table of 20 episodes is no \[K, 3\] array: see rows"):
        np.asarray(table)
    with pytest.raises(UserError, match="episode 4, pairs: a table of 20 episodes, not of one"):
        PairTable.of(table, 9, 4)
    with pytest.raises(UserError, match=r"episode 4, pair \(0, 5\): q is outside the episode of 3 steps"):
        PairTable.of(PairTable.of([(0, 5)], 9), 3, 4)
    assert table.one(9) is None
    assert list(PairTable.of([(0, 5), (2, 5, 3)], 9)) == [(0, 5, 1), (2, 5, 3)]
    assert repr(table) == f"PairTable({len(table)} pairs, 18 of 20 episodes annotated)"
    assert copy.deepcopy(table) == table != make_table(19)
