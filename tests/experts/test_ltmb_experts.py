"""The LTMB experts: they solve every seed, see only observations, and recall what the paper says."""

from collections import Counter

import numpy as np
import pytest

from attentiontuner.tasks.task import get_task

SETTINGS = [("hallway", {}), ("ordering", {}), ("counting", {}), ("counting", {"modulus": 3})]
LENGTHS = {"hallway": (64, 73, 126), "ordering": (68, 68, 68), "counting": (96, 98, 137)}
"""Bounds of the mean length in steps (the paper: 67, 68, 97), and the longest an episode of the expert can be."""


class Episode:
    """One episode of the expert, with what it saw and recalled. The expert is given no environment."""

    def __init__(self, task, env, seed):
        observation, _ = env.reset(seed=seed)
        expert = task.make_expert(None)
        self.observations, self.actions, self.recalled, over = [], [], [], False
        while not over:
            decision = expert.decide(observation)
            self.observations.append(observation)
            self.actions.append(decision.action)
            self.recalled.append(list(decision.recalled))
            observation, _, terminated, truncated, info = env.step(decision.action)
            over = terminated or truncated
        self.success = info["success"]

    def __len__(self):
        return len(self.actions)


def episodes(name, seeds, settings=None):
    task = get_task(name, settings)
    env = task.make_env()
    for seed in seeds:
        yield Episode(task, env, seed)


def check_every_seed(name, settings, seeds):
    task, lengths = get_task(name, settings), []
    for seed, episode in zip(seeds, episodes(name, seeds, settings), strict=True):
        assert episode.success, f"{name}, seed {seed}"
        assert len(episode) <= task.max_steps
        assert all(0 <= p < q for q, recalled in enumerate(episode.recalled) for p in recalled)
        lengths.append(len(episode))
    return lengths


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_solves_every_seed(name, settings):
    check_every_seed(name, settings, range(200))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_solves_ten_thousand_seeds(name, settings):
    check_every_seed(name, settings, range(10_000))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hallway", {"length": 1}),
        ("hallway", {"length": 100}),
        ("ordering", {"length": 1}),
        ("counting", {"length": 1}),
        ("counting", {"test_freq": 1.0}),
        ("counting", {"test_freq": 0.0, "empty_freq": 1.0}),
        ("counting", {"empty_freq": 1.0, "modulus": 3}),
    ],
)
def test_solves_the_edges_of_the_settings(name, settings):
    check_every_seed(name, settings, range(20))


def test_hallway_compares_with_step_1_beside_every_pair_of_doors():
    for episode in episodes("hallway", range(60)):
        q = [step for step, recalled in enumerate(episode.recalled) if recalled]
        assert all(recalled in ([], [1]) for recalled in episode.recalled)
        pairs_passed = (len(episode) - 10) // 4 + 1
        assert q == [7 + 4 * pair for pair in range(pairs_passed)]  # two turns, then five steps to the first doors
        assert episode.actions[:2] == [0, 1]
        assert episode.actions[-2:] == [5, 2]
        assert len(episode) == q[-1] + 3


def test_ordering_recalls_where_both_objects_were_shown():
    for episode in episodes("ordering", range(30)):
        assert len(episode) == 68
        assert episode.recalled[:18] == [[]] * 18
        for q in range(18, 68):
            first, second = episode.recalled[q]
            view = episode.observations[q]
            assert (episode.observations[first][3, 3] == view[2, 3]).all()
            assert (episode.observations[second][3, 3] == view[4, 3]).all()
            assert episode.actions[q] == (0 if first < second else 1)


@pytest.mark.parametrize("modulus", [2, 3])
def test_counting_recalls_every_gallery_that_held_the_object_as_often_as_it_held_it(modulus):
    slots = [(x, y) for x in (2, 4) for y in (4, 5, 6)]
    repeated = empty = 0
    for episode in episodes("counting", range(60), {"modulus": modulus}):
        galleries, q = [], 0
        while q < len(episode):
            view = episode.observations[q]
            if view[3, 3, 0] == 4:
                galleries.append(q)
                steps = 4
                assert episode.recalled[q] == []
            else:
                held = {p: sum((episode.observations[p][s] == view[3, 4]).all() for s in slots) for p in galleries}
                expected = {p: count for p, count in held.items() if count}
                assert Counter(episode.recalled[q]) == expected
                remainder = sum(expected.values()) % modulus
                steps = (7, 7, 5)[remainder]
                assert episode.actions[q] == (0, 1, 2)[remainder]  # left, right, forward
                repeated += any(count > 1 for count in expected.values())
                empty += not expected
            assert all(recalled == [] for recalled in episode.recalled[q + 1 : q + steps])
            q += steps
        assert q == len(episode)
    assert repeated
    assert empty


@pytest.mark.parametrize("name", sorted(LENGTHS))
def test_mean_lengths_are_the_papers(name):
    least, greatest, longest = LENGTHS[name]
    lengths = check_every_seed(name, {}, range(600))
    assert least <= np.mean(lengths) <= greatest
    assert max(lengths) <= longest
