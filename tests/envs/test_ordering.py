"""What Ordering shows, and what ends an episode."""

import numpy as np
import pytest

from attentiontuner.envs.ordering import OrderingEnv
from attentiontuner.envs.world import OBJECTS

LEFT, RIGHT, FORWARD = 0, 1, 2
ALL = {tuple(code) for code in OBJECTS.tolist()}


def things(image):
    """The objects in view by place."""
    return {(int(x), int(y)): tuple(image[x, y].tolist()) for x, y in np.argwhere(image[..., 0] != 1)}


def watch(env, seed, action=FORWARD):
    """Reset and pass the first 18 steps; returns (objects in their order, the first choice's observation)."""
    observation, _ = env.reset(seed=seed)
    order = []
    for _ in range(18):
        shown = things(observation["image"])
        assert list(shown) == [(3, 3)]
        order.append(shown[3, 3])
        observation, reward, terminated, truncated, _ = env.step(action)
        assert (reward, terminated, truncated) == (0.0, False, False)
    return order, observation


@pytest.mark.parametrize("action", range(7))
def test_eighteen_objects_in_random_order_whatever_the_agent_does(action):
    env = OrderingEnv(length=2)
    orders = set()
    for seed in range(10):
        order, _ = watch(env, seed, action)
        assert set(order) == ALL
        assert (env.agent_pos, env.agent_dir) == ((3, 6), 3)
        orders.add(tuple(order))
    assert len(orders) == 10


def test_right_picks_to_the_end():
    env = OrderingEnv(length=50)
    picks = []
    for seed in range(10):
        order, observation = watch(env, seed)
        for choice in range(50):
            shown = things(observation["image"])
            assert list(shown) == [(2, 3), (4, 3)]
            left_first = order.index(shown[2, 3]) < order.index(shown[4, 3])
            assert shown[2, 3] != shown[4, 3]
            picks.append(left_first)
            observation, reward, terminated, truncated, info = env.step(LEFT if left_first else RIGHT)
            assert (terminated, truncated) == (choice == 49, False)
        assert (reward, info, env.step_count) == (1.0, {"success": True}, 68)
    assert 0.4 < np.mean(picks) < 0.6


@pytest.mark.parametrize("other", [None, 2, 3, 4, 5, 6])
def test_any_other_action_at_a_choice_is_wrong(other):
    env = OrderingEnv(length=3)
    for seed in range(10):
        order, observation = watch(env, seed)
        shown = things(observation["image"])
        wrong = RIGHT if order.index(shown[2, 3]) < order.index(shown[4, 3]) else LEFT
        _, reward, terminated, truncated, info = env.step(wrong if other is None else other)
        assert (reward, terminated, truncated, info) == (-1.0, True, False, {"success": False})
