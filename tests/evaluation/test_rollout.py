"""Rollouts: every seed once, the same result whatever the batch and workers, and honest failures."""

import dataclasses
from multiprocessing import active_children

import gymnasium as gym
import numpy as np
import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.evaluation.players import RandomPolicy
from attentiontuner.evaluation.rollout import EpisodeResult, rollout
from attentiontuner.spaces import ActionSpec, ObservationSpec
from tests.evaluation.toys import CuePolicy, HashPolicy, arm_task, recall_task

SEEDS = [2**30 + index for index in range(40)]


def by_hand(policy, task, seeds):
    """One episode after the other, in one environment: what every rollout must equal."""
    results = []
    for episode, seed in enumerate(seeds):
        env = task.make_env()
        observation, _ = env.reset(seed=seed)
        policy.reset(1)
        total, length, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, info = env.step(int(policy.act(observation[None])[0]))
            total, length, ended = total + reward, length + 1, terminated or truncated
        results.append(
            EpisodeResult(episode, seed, task.solved(reward, terminated, info, total, length), total, length)
        )
    return results


@pytest.mark.parametrize("batch", [1, 3, 16, 40, 100])
def test_every_batch_size_gives_what_single_episodes_give(batch):
    task = recall_task()
    expected = by_hand(HashPolicy(), task, SEEDS)
    assert rollout(HashPolicy(), task, SEEDS, batch=batch, workers=0) == expected
    assert {result.success for result in expected} == {True, False}


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(workers):
    task = recall_task()
    order_here, order_there = [], []
    here = rollout(HashPolicy(), task, SEEDS, batch=7, workers=0, on_result=order_here.append)
    there = rollout(HashPolicy(), task, SEEDS, batch=7, workers=workers, on_result=order_there.append)
    assert there == here
    assert order_there == order_here  # even the order in which they finish


def test_a_policy_without_clone_is_played_in_one_group():
    class Plain:
        def __init__(self):
            self.inner = CuePolicy()
            self.reset, self.restart, self.act = self.inner.reset, self.inner.restart, self.inner.act

    results = rollout(Plain(), recall_task(), SEEDS, batch=8, workers=0)
    assert all(result.success for result in results)
    assert [result.seed for result in results] == SEEDS


def test_episode_numbers_can_be_given():
    results = rollout(CuePolicy(), recall_task(), SEEDS[5:7], episodes=[5, 6], workers=0)
    assert [result.episode for result in results] == [5, 6]
    assert [result.seed for result in results] == SEEDS[5:7]


def test_results_survive_json():
    result = rollout(CuePolicy(), recall_task(), SEEDS[:1], workers=0)[0]
    assert result.to_json().keys() == {"episode", "seed", "success", "return", "length"}
    assert EpisodeResult.from_json(result.to_json()) == result


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        ("raise", "the environment raised ZeroDivisionError: the door is a wall"),
        ("shape", r"the observation of step 2: uint8 of shape \(3, 3, 1\)"),
        ("endless", "did not end within the 12 steps"),
    ],
)
def test_an_environment_in_trouble_is_named(workers, trouble, text):
    task = recall_task(trouble={SEEDS[20]: trouble})
    finished = []
    with pytest.raises(UserError, match=rf"^episode 20 \(seed {SEEDS[20]}\): .*{text}"):
        rollout(CuePolicy(), task, SEEDS, batch=4, workers=workers, on_result=finished.append)
    assert len(finished) >= 10
    assert SEEDS[20] not in [result.seed for result in finished]


@pytest.mark.parametrize("episode", [14, 15, 16])
def test_a_killed_worker_is_named(episode):
    task = recall_task(trouble={SEEDS[episode]: "kill"})
    finished = []
    line = rf"^episode {episode} \(seed {SEEDS[episode]}\): worker process \d died \(killed by SIGKILL\)"
    with pytest.raises(UserError, match=line):
        rollout(CuePolicy(), task, SEEDS, batch=6, workers=1, on_result=finished.append)
    assert len(finished) >= 5


def test_a_worker_killed_when_its_rows_are_over_is_told_too():
    lengths = [result.length for result in rollout(CuePolicy(), recall_task(), SEEDS, workers=0)]
    short, long = int(np.argmin(lengths)), int(np.argmax(lengths))

    def kill_its_worker(result):
        worker = sorted(active_children(), key=lambda child: child.pid)[result.episode]
        worker.kill()
        worker.join()

    with pytest.raises(UserError, match=r"^after 1 of 2 episodes: worker process 0 died \(killed by SIGKILL\)"):
        rollout(CuePolicy(), recall_task(), [SEEDS[short], SEEDS[long]], batch=2, workers=2, on_result=kill_its_worker)


def test_an_action_that_does_not_exist_is_named():
    class Wild(CuePolicy):
        def act(self, observations):
            return np.full(len(observations), 4)

    with pytest.raises(UserError, match=rf"^episode 0 \(seed {SEEDS[0]}\): the policy's act: action 4, but .*only 4"):
        rollout(Wild(), recall_task(), SEEDS, workers=0)


def test_a_task_that_cannot_travel_says_so():
    task = recall_task()
    object.__setattr__(task, "success", lambda reward, terminated, info: True)
    with pytest.raises(UserError, match="--workers 0"):
        rollout(CuePolicy(), task, SEEDS, workers=1)


class Numbers(gym.ObservationWrapper):
    """The toy's observation as a vector; NaN after the last step, and at step 2 of the episode of seed `broken`."""

    def __init__(self, env, broken=None):
        super().__init__(env)
        self.broken = broken

    def observation(self, observation):
        toy = self.unwrapped
        nan = toy.step_now >= toy.length or (toy.step_now == 2 and toy.seed_now == self.broken)
        return np.full(4, np.nan if nan else observation[0, 0, 0], np.float32)


class FinitePolicy(CuePolicy):
    def act(self, observations):
        assert np.isfinite(observations).all()
        return super().act(observations[:, :, None, None])


def test_a_vector_that_is_not_a_number_is_named_unless_the_episode_is_over():
    task = dataclasses.replace(recall_task(), observation=ObservationSpec("vector", (4,)), wrap=Numbers)
    assert all(result.success for result in rollout(FinitePolicy(), task, SEEDS, batch=4, workers=0))
    broken = dataclasses.replace(task, wrap=lambda env: Numbers(env, SEEDS[20]))
    with pytest.raises(UserError, match=rf"^episode 20 \(seed {SEEDS[20]}\): .*step 2: .*not finite"):
        rollout(FinitePolicy(), broken, SEEDS, batch=4, workers=0)


def test_a_symbol_that_does_not_exist_is_named():
    task = dataclasses.replace(recall_task(), observation=ObservationSpec("grid", (2, 2, 1), (8,)))
    with pytest.raises(
        UserError, match=r"^episode \d+ .*the observation of step 4: symbol 8 in channel 0, which has 8"
    ):
        rollout(CuePolicy(), task, SEEDS, batch=4, workers=0)


class Arm:
    """Solves `ArmEnv`: from dictionaries to actions of a spec."""

    def __init__(self, actions):
        self.actions = actions

    def reset(self, n):
        self.next, self.begins = np.zeros((n, 2), np.float32), np.ones(n, bool)

    def restart(self, rows):
        self.begins[rows] = True

    def act(self, observations):
        assert observations["camera"].dtype == np.uint8
        assert observations["camera"].shape == (len(self.begins), 3, 5, 1)
        self.next = np.where(self.begins[:, None], observations["joints"], (self.next + 1) % 4)
        self.begins[:] = False
        return self.next.astype(self.actions.dtype)


ARM_ACTIONS = {"multi-discrete": ActionSpec.multi_discrete([4, 4]), "box": ActionSpec.box([0, 0], [3, 3])}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ARM_ACTIONS)
def test_dictionaries_come_and_arrays_go(kind, workers):
    actions = ARM_ACTIONS[kind]
    results = rollout(Arm(actions), arm_task(actions), SEEDS[:12], batch=5, workers=workers)
    assert all(result.success for result in results)
    drawn = rollout(RandomPolicy(1), arm_task(actions), SEEDS[:12], workers=workers)
    assert not any(result.success for result in drawn)
    assert len({result.return_ for result in drawn}) > 3


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        (np.full((5, 2), 7), r"action \[7, 7\], but there are only choices 4×4"),
        (np.zeros((5, 2)), r"action \[0.0, 0.0\]: expected whole numbers from 0"),
        (np.zeros(5, np.int64), r"actions of shape \(\), not \(2,\)"),
        (np.zeros((4, 2), np.int64), r"it gave actions of shape \(4, 2\) for 5 rows"),
    ],
)
def test_actions_of_another_kind_are_named(actions, problem):
    class Wrong(Arm):
        def act(self, observations):
            return actions

    spec = ARM_ACTIONS["multi-discrete"]
    with pytest.raises(UserError, match=rf"^episode 0 \(seed {SEEDS[0]}\): the policy's act: {problem}"):
        rollout(Wrong(spec), arm_task(spec), SEEDS, batch=5, workers=0)


def test_no_seeds_no_results():
    assert rollout(CuePolicy(), recall_task(), [], workers=0) == []
