"""The experts of POPGym's games: the best return on every seed, and pairs that say what was used."""

from collections import Counter

import numpy as np
import pytest

from attentiontuner.collecting.episode import record_episode
from attentiontuner.tasks.task import all_tasks, get_task

pytest.importorskip("popgym")

GAMES = sorted(name for name in all_tasks() if name.startswith("popgym-"))
EXACT = [name for name in GAMES if not name.startswith(("popgym-higher", "popgym-conc", "popgym-battle"))]


def played(name, seeds):
    task = get_task(name)
    env = task.make_env()
    for seed in seeds:
        yield record_episode(task, env, seed)  # which refuses a failure


def rows(episode):
    """q → the steps recalled there, in order."""
    recalled = {}
    for p, q, times in np.asarray(episode.pairs["expert"]):
        assert times == 1
        recalled.setdefault(int(q), []).append(int(p))
    return recalled


def total(episode):
    return float(episode.demonstration.rewards.astype(np.float64).sum())


def choices(episode, sizes):
    """The numbers that were chosen from `sizes` values each, a column each."""
    parts = np.split(episode.demonstration.observations, np.cumsum(sizes)[:-1], 1)
    return [part.argmax(1) for part in parts]


def test_there_are_seven_games_at_three_levels():
    assert len(GAMES) == 21


@pytest.mark.parametrize("name", GAMES)
def test_every_episode_is_solved_within_the_horizon(name):
    task = get_task(name)
    for episode in played(name, range(2)):
        assert episode.demonstration.success
        assert len(episode.demonstration) <= task.max_steps
        if name in EXACT:
            assert len(episode.demonstration) == task.max_steps
            assert total(episode) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GAMES)
def test_a_thousand_seeds(name):
    returns = [total(episode) for episode in played(name, range(1000))]
    least = {"higher": 0.5, "concentration": 0.72, "battleship": 0.5}
    expected = next((value for game, value in least.items() if game in name), 1 - 1e-4)
    assert np.mean(returns) >= expected


def test_counting_recalls_every_step_that_dealt_the_card_asked_for():
    for name, kinds in (("popgym-count-recall-easy", 2), ("popgym-count-recall-hard", 13)):
        (episode,) = played(name, [3])
        dealt, asked = choices(episode, (kinds, kinds))
        wanted = {q: np.flatnonzero(dealt[:q] == asked[q]).tolist() for q in range(len(dealt))}
        assert rows(episode) == {q: steps for q, steps in wanted.items() if steps}
        assert episode.demonstration.actions.tolist() == [
            len(wanted[q]) + int(dealt[q] == asked[q]) for q in range(len(dealt))
        ]


def test_repeating_recalls_one_step():
    (first,) = played("popgym-repeat-first-easy", [1])
    assert rows(first) == {q: [0] for q in range(1, 51)}
    for level, ago in (("easy", 3), ("medium", 31), ("hard", 63)):
        (previous,) = played(f"popgym-repeat-previous-{level}", [1])
        assert rows(previous) == {q: [q - ago] for q in range(ago, len(previous.demonstration))}


def test_autoencode_recalls_backwards():
    (episode,) = played("popgym-autoencode-easy", [1])
    assert rows(episode) == {q: [102 - q] for q in range(52, 103)}


def test_higher_or_lower_counts_the_cards_of_other_ranks():
    (episode,) = played("popgym-higher-lower-easy", [1])
    (ranks,) = choices(episode, (13,))
    wanted = {q: np.flatnonzero(ranks[:q] != ranks[q]).tolist() for q in range(len(ranks))}
    assert rows(episode) == {q: steps for q, steps in wanted.items() if steps}
    for q, action in enumerate(episode.demonstration.actions):
        left = Counter(np.repeat(np.arange(13), 4).tolist()) - Counter(ranks[: q + 1].tolist())
        above, below = (sum(left[r] for r in span) for span in (range(ranks[q] + 1, 13), range(ranks[q])))
        assert (action == 0) == (above >= below)


def test_concentration_turns_a_partner_that_it_has_seen():
    for episode in played("popgym-concentration-hard", range(3)):
        faces = episode.demonstration.observations.reshape(len(episode.demonstration), 52, 14).argmax(2)
        actions, known = episode.demonstration.actions, {}
        recalled = rows(episode)
        for q, card in enumerate(actions):
            for shown in np.flatnonzero(faces[q] != 13):
                known.setdefault(int(shown), q)
            before = known.get(int(card))
            if before is not None and before < q:  # nothing is turned again but for its pair
                assert before in recalled[q]
        assert sorted(known) == list(range(52)) or len(known) == 51  # the last card may end it unseen
        assert episode.demonstration.terminated


def test_battleship_never_shoots_twice_and_recalls_every_shot():
    for episode in played("popgym-battleship-easy", range(3)):
        shots = [tuple(shot) for shot in episode.demonstration.actions]
        assert len(set(shots)) == len(shots)
        assert rows(episode) == {q: list(range(1, q)) for q in range(2, len(shots))}
        assert total(episode) > 0
