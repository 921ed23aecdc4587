"""The Memory Gym experts: how often they solve their games, in how many steps, and what they recall."""

import hashlib
from functools import cache

import numpy as np
import pytest

from attentiontuner.tasks.task import get_task

pytest.importorskip("memory_gym")

NAMES = ("mortar-mayhem", "mystery-path", "searing-spotlights")


class Episode:
    """One episode of the expert, with what it saw, did and recalled."""

    def __init__(self, task, env, seed):
        observation, _ = env.reset(seed=seed)
        expert = task.make_expert(env)
        self.seed, self.actions, self.recalled, self.sparse, self.cells = seed, [], [], [], []
        self.frames, over = [], False
        while not over:
            decision = expert.decide(observation)
            self.frames.append(observation)
            self.actions.append(int(decision.action))
            self.recalled.append(list(decision.recalled))
            self.sparse.append(list(decision.also.get("sparse", ())))
            game = env.unwrapped.game
            self.cells.append(tuple(map(int, getattr(game.agent, "grid_position", (0, 0)))))
            observation, _, terminated, truncated, info = env.step(decision.action)
            over = terminated or truncated
        self.success = info["success"]

    def __len__(self):
        return len(self.actions)


def play(name, seeds, settings=None):
    task = get_task(name, settings)
    env = task.make_env()
    for seed in seeds:
        yield Episode(task, env, seed)


def measure(name, seeds):
    """Success rate over all seeds; lengths [steps] and pairs per episode of the successes."""
    successes, lengths, pairs = [], [], []
    for episode in play(name, seeds):
        for recalled in (episode.recalled, episode.sparse):
            assert all(0 <= p < q for q, steps in enumerate(recalled) for p in steps)
            assert all(len(set(steps)) == len(steps) for steps in recalled)
        successes.append(episode.success)
        if episode.success:
            lengths.append(len(episode))
            pairs.append(sum(map(len, episode.recalled)))
    return float(np.mean(successes)), np.array(lengths), np.array(pairs)


@cache
def measured(name, count):
    return measure(name, range(count))


COUNTS = [200, pytest.param(2000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_mortar_mayhem_is_always_solved_in_118_steps(count):
    success, lengths, pairs = measured("mortar-mayhem", count)
    assert success == 1
    assert set(lengths) == {118}
    assert 10 <= pairs.min() <= pairs.max() <= 60
    assert 28 < pairs.mean() < 33


@pytest.mark.parametrize("count", COUNTS)
def test_mystery_path_is_always_solved_in_time(count):
    success, lengths, pairs = measured("mystery-path", count)
    assert success == 1
    assert 38 < lengths.mean() < 48
    assert lengths.max() <= 128
    assert 60 < pairs.mean() < 90


@pytest.mark.parametrize("count", COUNTS)
def test_searing_spotlights_is_solved_97_times_in_100(count):
    success, lengths, pairs = measured("searing-spotlights", count)
    assert success >= 0.97
    assert 28 < lengths.mean() < 33
    assert lengths.max() <= 75
    assert (pairs == lengths * (lengths - 1) // 2).all()


def test_mortar_mayhem_recalls_the_first_frame_of_the_command_it_carries_out():
    seen_stay = False
    for episode in play("mortar-mayhem", range(10)):
        for number in range(10):
            start = 40 + 8 * number
            window = range(start, start + 6)
            recalling = [q for q in window if episode.recalled[q]]
            assert all(episode.recalled[q] == [4 * number] for q in recalling)
            assert recalling == list(window[: len(recalling)])
            did = [episode.actions[q] for q in recalling]
            if 3 in did:
                assert did.index(3) == len(did) - 1 <= 2
            else:
                seen_stay = True
                assert did == [0] * 6
            assert all(episode.actions[q] == 0 for q in window[len(recalling) :])
        assert not any(episode.recalled[:40])
        assert not any(episode.actions[:40])
    assert seen_stay


@pytest.mark.parametrize("settings", [{"allowed_commands": 9}, {"command_show_delay": 0}, {"arena_size": 3}])
def test_mortar_mayhem_is_solved_under_other_settings(settings):
    assert all(episode.success for episode in play("mortar-mayhem", range(20), settings))


def test_mystery_path_recalls_when_each_neighbour_was_first_seen():
    for episode in play("mystery-path", range(30)):
        first = {}
        for q, cell in enumerate(episode.cells):
            crossed = (episode.frames[q] == (255, 0, 0)).all(axis=2).any()
            beside = [c for c in first if abs(c[0] - cell[0]) + abs(c[1] - cell[1]) == 1]
            assert episode.recalled[q] == ([] if crossed else sorted(first[c] for c in beside))
            first.setdefault(cell, q)


def test_mystery_path_falls_into_no_cell_twice():
    for episode in play("mystery-path", range(30)):
        fallen = [c for c, f in zip(episode.cells, episode.frames, strict=True) if (f == (255, 0, 0)).all(axis=2).any()]
        assert len(fallen) == len(set(fallen))


def test_mystery_path_depends_on_nothing_it_has_not_seen():
    """Two boards that looked the same so far were played the same so far."""
    decisions = {}
    for episode in play("mystery-path", range(200)):
        history = hashlib.sha256()
        for frame, action in zip(episode.frames, episode.actions, strict=True):
            history.update(frame.tobytes())
            assert decisions.setdefault(history.digest(), action) == action


def test_searing_spotlights_sparse_recalls_lit_frames_and_the_coin():
    for episode in play("searing-spotlights", range(20)):
        if not episode.success:
            continue
        coin = [p for p in episode.sparse[-1] if p > 5]
        assert len(coin) <= 1
        for q, (everything, sparse) in enumerate(zip(episode.recalled, episode.sparse, strict=True)):
            assert everything == list(range(q))
            assert sparse == [p for p in [*range(6), *coin] if p < q]


def test_searing_spotlights_reckons_its_position_right():
    """It is told where it is at step 0 only; by its own actions it knows later, also along the walls."""
    task = get_task("searing-spotlights")
    env = task.make_env()
    for seed in range(30):
        observation, _ = env.reset(seed=seed)
        expert, over = task.make_expert(env), False
        while not over:
            assert expert._position == tuple(env.unwrapped.game.agent.rect.center) or expert._step < 0
            observation, _, terminated, truncated, _ = env.step(expert.decide(observation).action)
            over = terminated or truncated


def test_searing_spotlights_reads_coin_and_exit_only_while_they_are_lit():
    """Hidden things that move in the dark do not change what it does."""
    task = get_task("searing-spotlights")
    for seed in range(10):
        walks = []
        for moved in (False, True):
            env = task.make_env()
            observation, _ = env.reset(seed=seed)
            expert, actions = task.make_expert(env), []
            for step in range(12):
                if moved and step == 6:
                    game = env.unwrapped.game
                    game.exit.location = (2, 2)
                    game.agent.rect.center = (40, 40)
                    for coin in game.coins:
                        coin.location = (80, 80)
                actions.append(expert.decide(observation).action)
                observation, *_ = env.step(actions[-1])
            walks.append(actions)
        assert walks[0] == walks[1]


@pytest.mark.parametrize("settings", [{"num_coins": 3}, {"agent_speed": 2.0}])
def test_searing_spotlights_plays_under_other_settings(settings):
    assert np.mean([episode.success for episode in play("searing-spotlights", range(20), settings)]) >= 0.7


@pytest.mark.parametrize("name", NAMES)
def test_collecting_is_the_same_with_any_number_of_workers(name, tmp_path):
    from attentiontuner.collecting.collection import collect

    stores = [
        collect(get_task(name), 6, seed=1, out=tmp_path / str(workers), workers=workers, shard_episodes=3)
        for workers in (1, 2)
    ]
    files = [sorted(p for p in store.path.rglob("*") if p.suffix in (".zst", ".jsonl")) for store in stores]
    assert [p.relative_to(tmp_path / "1") for p in files[0]] == [p.relative_to(tmp_path / "2") for p in files[1]]
    assert [p.read_bytes() for p in files[0]] == [p.read_bytes() for p in files[1]]
    assert len(files[0]) == (6 if name == "searing-spotlights" else 4)
