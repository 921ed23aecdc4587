"""Labels drawn for studies: what is kept, moved and replaced, and that the run's seed decides all of it."""

import numpy as np
import pytest

from attentiontuner.data.labels import (
    Labels,
    annotate_fraction,
    choose_demonstrations,
    label_generator,
    perturb_pairs,
    random_pairs,
    shuffle_pairs,
)
from attentiontuner.errors import UserError


def make_labels(episodes: int = 200, seed: int = 0) -> Labels:
    """Episodes of 2 to 40 steps, each with pairs (0, q) for some q; every tenth is not annotated."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 41, episodes)
    annotated = np.arange(episodes) % 10 != 9
    pairs = [
        (row, 0, q, 1 + int(q == 1))
        for row in np.flatnonzero(annotated)
        for q in sorted(set(rng.integers(1, lengths[row], 5).tolist()))
    ]
    return Labels(lengths, annotated, np.array(pairs, np.int32))


def check_valid(labels: Labels) -> None:
    row, p, q, multiplicity = labels.pairs.T
    assert (p >= 0).all()
    assert (p < q).all()
    assert (q < labels.lengths[row]).all()
    assert (multiplicity >= 1).all()
    assert labels.annotated[row].all()
    order = np.lexsort((p, q, row))
    assert np.array_equal(order, np.arange(len(row)))
    assert len(np.unique(labels.pairs[:, :3], axis=0)) == len(labels.pairs)


def test_select_renumbers_rows_and_keeps_each_episodes_pairs() -> None:
    labels = make_labels()
    rows = np.array([17, 3, 9, 120])
    chosen = labels.select(rows)
    assert len(chosen) == 4
    assert chosen.annotated.tolist() == [True, True, False, True]
    for new, old in enumerate(rows):
        before = labels.pairs[labels.pairs[:, 0] == old][:, 1:]
        assert np.array_equal(chosen.pairs[chosen.pairs[:, 0] == new][:, 1:], before)


def test_demonstrations_are_drawn_from_the_seed_and_too_many_are_refused() -> None:
    episodes = np.arange(100, 200)
    first = choose_demonstrations(episodes, 30, label_generator(1, "demos"))
    assert np.array_equal(first, choose_demonstrations(episodes, 30, label_generator(1, "demos")))
    assert not np.array_equal(first, choose_demonstrations(episodes, 30, label_generator(2, "demos")))
    assert len(set(first.tolist())) == 30
    assert set(first.tolist()) <= set(episodes.tolist())
    assert not np.array_equal(first, episodes[:30])
    assert np.array_equal(choose_demonstrations(episodes, None, label_generator(1, "demos")), episodes)
    with pytest.raises(UserError, match="101.*only 100"):
        choose_demonstrations(episodes, 101, label_generator(1, "demos"))


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.001, 1), (0.1, 20), (0.5, 100), (0.95, 180), (1.0, 180)])
def test_fraction_annotated(fraction: float, count: int) -> None:
    labels = make_labels()
    kept = annotate_fraction(labels, fraction, label_generator(3, "annotated"))
    assert kept.annotated.sum() == count
    assert not (kept.annotated & ~labels.annotated).any()
    expected = labels.pairs[kept.annotated[labels.pairs[:, 0]]]
    assert np.array_equal(kept.pairs, expected)


def test_perturbed_pairs_stay_causal_and_inside_and_move_as_far_as_asked() -> None:
    labels = make_labels(2000)
    for noise_p, noise_q in [(0.5, 0.0), (0.0, 2.0), (5.0, 20.0)]:
        moved = perturb_pairs(labels, noise_p, noise_q, label_generator(1, "noise"))
        check_valid(moved)
        assert moved.pairs[:, 3].sum() == labels.pairs[:, 3].sum()
    long = Labels(np.full(4000, 1001), np.ones(4000, bool), np.array([(i, 300, 700, 1) for i in range(4000)], np.int32))
    moved = perturb_pairs(long, 3.0, 6.0, label_generator(1, "noise"))
    assert abs((moved.pairs[:, 1] - 300).std() - 3) < 0.15
    assert abs((moved.pairs[:, 2] - 700).std() - 6) < 0.3
    assert abs((moved.pairs[:, 1] - 300).mean()) < 0.2
    alone = perturb_pairs(long, 3.0, 0.0, label_generator(1, "noise"))
    assert np.array_equal(alone.pairs[:, 1], moved.pairs[:, 1])
    assert (alone.pairs[:, 2] == 700).all()


def test_no_noise_changes_nothing() -> None:
    labels = make_labels()
    assert perturb_pairs(labels, 0.0, 0.0, label_generator(1, "noise")) is labels


def test_random_pairs_are_as_many_and_uniform_over_all_of_an_episode() -> None:
    labels = make_labels()
    drawn = random_pairs(labels, label_generator(1, "random"))
    check_valid(drawn)
    per_row = [np.bincount(x.pairs[:, 0], weights=x.pairs[:, 3], minlength=200) for x in (labels, drawn)]
    assert np.array_equal(*per_row)
    lengths = np.full(30_000, 5)
    one_each = Labels(lengths, np.ones(30_000, bool), np.array([(i, 0, 1, 1) for i in range(30_000)], np.int32))
    drawn = random_pairs(one_each, label_generator(1, "random"))
    found, counts = np.unique(drawn.pairs[:, 1:3], axis=0, return_counts=True)
    assert len(found) == 10
    assert abs(counts - 3000).max() < 250


def test_shuffled_pairs_come_from_another_episode() -> None:
    lengths = np.full(50, 60)
    pairs = np.array([(row, row, row + 1, 2) for row in range(50) if row % 5], np.int32)
    labels = Labels(lengths, np.arange(50) % 5 != 0, pairs)
    shuffled = shuffle_pairs(labels, label_generator(1, "shuffled"))
    check_valid(shuffled)
    assert (shuffled.pairs[:, 0] != shuffled.pairs[:, 1]).all()
    assert sorted(shuffled.pairs[:, 1]) == sorted(pairs[:, 1])
    assert np.array_equal(shuffled.annotated, labels.annotated)
    check_valid(shuffle_pairs(make_labels(), label_generator(1, "shuffled")))


def test_shuffling_one_annotated_episode_is_refused() -> None:
    labels = Labels(np.array([5, 5]), np.array([True, False]), np.array([(0, 0, 1, 1)], np.int32))
    with pytest.raises(UserError, match="at least 2"):
        shuffle_pairs(labels, label_generator(1, "shuffled"))


def test_draws_do_not_share_a_generator() -> None:
    first = [label_generator(1, draw).random() for draw in ("demos", "annotated", "noise", "random", "shuffled")]
    first.append(np.random.default_rng([1, 1]).random())
    assert len(set(first)) == 6
