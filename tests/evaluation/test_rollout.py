"""Rollouts: every seed once, the same result whatever the batch and workers, and honest failures."""

import dataclasses
from multiprocessing import active_children

import gymnasium as gym
import numpy as np
import pytest
import torch

from attentiontuner.errors import UserError
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import EpisodeResult, rollout
from attentiontuner.models import Transformer, TransformerConfig
from attentiontuner.observations import ObservationSpec
from tests.evaluation.toys import CuePolicy, HashPolicy, recall_task

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
        results.append(EpisodeResult(episode, seed, task.solved(reward, terminated, info), total, length))
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
        ("shape", r"observations of shape \(3, 3, 1\)"),
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

    with pytest.raises(UserError, match=rf"^episode 0 \(seed {SEEDS[0]}\): the policy chose action 4.*0 to 3"):
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


def test_a_vector_that_is_not_a_number_is_named_unless_the_episode_is_over():
    spec = ObservationSpec("vector", (4,))
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(spec, 4, d_model=16, layers=1, heads=2, feedforward=32))
    task = dataclasses.replace(recall_task(), observation=spec, wrap=Numbers)
    alone = rollout(ModelPolicy(model, 12), task, SEEDS, batch=1, workers=0)
    assert rollout(ModelPolicy(model, 12), task, SEEDS, batch=4, workers=0) == alone
    broken = dataclasses.replace(task, wrap=lambda env: Numbers(env, SEEDS[20]))
    with pytest.raises(UserError, match=rf"^episode 20 \(seed {SEEDS[20]}\): .*step 2 .*not a finite number"):
        rollout(ModelPolicy(model, 12), broken, SEEDS, batch=4, workers=0)


def test_no_seeds_no_results():
    assert rollout(CuePolicy(), recall_task(), [], workers=0) == []
