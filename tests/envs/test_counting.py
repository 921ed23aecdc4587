"""What Counting's rooms hold, which door is right, and what ends an episode."""

import numpy as np
import pytest

from attentiontuner.envs.counting import CountingEnv
from attentiontuner.envs.world import OBJECTS

LEFT, RIGHT, FORWARD, TOGGLE = 0, 1, 2, 5
SLOTS = {(x, y) for x in (1, 3) for y in (1, 2, 3)}
GREEN, RED, BLUE, YELLOW = 1, 0, 2, 4
GALLERY = [FORWARD, FORWARD, TOGGLE, FORWARD]
QUERY = {
    GREEN: [LEFT, FORWARD, RIGHT, FORWARD, FORWARD, TOGGLE, FORWARD],
    RED: [RIGHT, FORWARD, LEFT, FORWARD, FORWARD, TOGGLE, FORWARD],
    YELLOW: [FORWARD, LEFT, FORWARD, TOGGLE, FORWARD],
}


def doors(env):
    """Colour of each door by place."""
    places = np.argwhere(env.cells[..., 0] == 4).tolist()
    assert all(env.cells[x, y, 2] == 1 for x, y in places), "doors of a new room are closed"
    return {(x, y): int(env.cells[x, y, 1]) for x, y in places}


def objects(env):
    """Code of each object by place."""
    places = np.argwhere(np.isin(env.cells[..., 0], OBJECTS[:, 0])).tolist()
    return {(x, y): tuple(env.cells[x, y].tolist()) for x, y in places}


def act(env, actions):
    for action in actions:
        result = env.step(action)
    return result


class Player:
    """Plays by the rules of the class docstring, reading the cells."""

    def __init__(self, env, seed, modulus=2):
        self.env, self.modulus, self.counts, self.queries = env, modulus, {}, 0
        env.reset(seed=seed)

    def room(self, remainder_error=0):
        """Pass one room; returns the last step's result."""
        env = self.env
        assert (env.agent_pos, env.agent_dir) == ((2, 3), 3)
        if (2, 0) in doors(env):
            assert doors(env) == {(2, 0): BLUE}
            assert set(objects(env)) <= SLOTS
            for code in objects(env).values():
                self.counts[code] = self.counts.get(code, 0) + 1
            return act(env, GALLERY)
        expected = {(1, 0): GREEN, (3, 0): RED, (0, 2): YELLOW}
        assert doors(env) == dict(list(expected.items())[: self.modulus])
        assert list(objects(env)) == [(2, 1)]
        self.queries += 1
        remainder = (self.counts.get(objects(env)[2, 1], 0) + remainder_error) % self.modulus
        return act(env, QUERY[(GREEN, RED, YELLOW)[remainder]])


@pytest.mark.parametrize("modulus", [2, 3])
def test_right_doors_lead_to_the_end(modulus):
    env = CountingEnv(modulus=modulus)
    for seed in range(30):
        player = Player(env, seed, modulus)
        assert (2, 0) in doors(env), "the first room is a gallery"
        for room in range(20):
            _, reward, terminated, truncated, info = player.room()
            assert (terminated, truncated) == (room == 19, False)
            assert reward == (1.0 if room == 19 else 0.0)
        assert info == {"success": True}
        if modulus == 2:
            assert env.step_count == 80 + 3 * player.queries


@pytest.mark.parametrize(("modulus", "error"), [(2, 1), (3, 1), (3, 2)])
def test_a_wrong_door_is_a_failure(modulus, error):
    env = CountingEnv(length=2, test_freq=1.0, modulus=modulus)
    for seed in range(40):
        player = Player(env, seed, modulus)
        player.room()
        _, reward, terminated, truncated, info = player.room(error)
        assert (reward, terminated, truncated, info) == (0.0, True, False, {"success": False})


def test_idling_in_the_last_room_is_a_failure():
    env = CountingEnv(length=2, test_freq=0.0)
    player = Player(env, 0)
    player.room()
    while True:
        _, reward, terminated, truncated, info = env.step(LEFT)
        if truncated:
            break
    assert env.step_count == 14
    assert (reward, terminated, info) == (0.0, False, {"success": False})


def test_the_last_door_on_the_last_step_is_a_success():
    env = CountingEnv(length=1)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = act(env, [LEFT, RIGHT, 6, *GALLERY])
    assert env.step_count == env.max_steps == 7
    assert (reward, terminated, truncated, info) == (1.0, True, False, {"success": True})


def test_a_box_that_vanished_stays_counted():
    env = CountingEnv(length=2, test_freq=1.0, empty_freq=0.0)
    tried = 0
    for seed in range(400):
        env.reset(seed=seed)
        in_gallery = objects(env)
        act(env, [LEFT])
        if in_gallery[1, 3][0] != 7:
            continue
        act(env, [TOGGLE])
        assert (1, 3) not in objects(env)
        act(env, [RIGHT, *GALLERY])
        asked = objects(env)[2, 1]
        if asked == in_gallery[1, 3]:
            tried += 1
            parity = list(in_gallery.values()).count(asked) % 2
            *_, info = act(env, QUERY[(GREEN, RED)[parity]])
            assert info == {"success": True}
    assert tried


def test_two_doors_are_the_papers_room_whatever_modulus_does_elsewhere():
    """The draws do not depend on the modulus."""
    two, three = CountingEnv(), CountingEnv(modulus=3)
    for seed in range(5):
        players = Player(two, seed), Player(three, seed, 3)
        for _ in range(19):
            assert objects(two) == objects(three)
            for player in players:
                player.room()


@pytest.mark.parametrize("frequency", [0.0, 0.1, 0.6, 1.0])
def test_frequencies(frequency):
    env = CountingEnv(empty_freq=frequency, test_freq=frequency)
    filled = queries = 0
    for seed in range(60):
        player = Player(env, seed)
        filled += len(objects(env))
        for _ in range(20):
            player.room()
        queries += player.queries
    assert filled / (60 * 6) == pytest.approx(1 - frequency, abs=0.06)
    assert queries / (60 * 19) == pytest.approx(frequency, abs=0.04)


@pytest.mark.parametrize("name", ["test_freq", "empty_freq"])
@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), "0.3", None])
def test_frequency_out_of_range(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be a number from 0 to 1, not"):
        CountingEnv(**{name: bad})


@pytest.mark.parametrize("bad", [0, 1, 4, 2.5, "2", None])
def test_modulus_out_of_range(bad):
    with pytest.raises(ValueError, match="modulus must be 2 or 3, not"):
        CountingEnv(modulus=bad)


def test_the_mission_says_shape_and_colour():
    for modulus in (2, 3):
        env = CountingEnv(modulus=modulus)
        assert "shape and colour" in env.mission
        assert f'"{env.mission}"' in CountingEnv.__doc__
        assert env.observation_space["mission"].contains(env.reset()[0]["mission"])
