"""`evaluate` with a bounded memory: what it is told, what is recalled and filmed, and that episodes may be longer than
anything."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner import load_policy
from attentiontuner.cli import main
from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.evaluation.filming import record_recall
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import rollout
from attentiontuner.models.bound import Bound
from attentiontuner.models.recall import RecallTransformer
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from tests.evaluation.toys import LONGEST, recall_task

SIZES = {"d_model": 16, "feedforward": 32}


def a_network():
    task = recall_task()
    torch.manual_seed(3)
    return RecallTransformer(RecallConfig(task.observation, task.actions, keeps=True, **SIZES))


@pytest.fixture
def windowed(run, tmp_path):
    """The folder of an untrained run on windows of four steps."""
    config = paper_config(recall_task(), "recall", SIZES, window=4)
    folder = Run(tmp_path / "windowed")
    folder.begin(config, {"demonstrations": 5, "annotated": 4}, {"python": "3"})
    folder.save_best(config.network.build())
    (folder.path / "best.safetensors").rename(folder.path / "model.safetensors")
    return folder.path


def test_it_is_told_how_much_was_kept(windowed, capsys):
    command = ["evaluate", str(windowed), "--episodes", "6", "--workers", "0", "--json"]
    for options, memory in (
        ([], {"recent": 4, "keep": 4, "by": "score"}),
        (["--recent", "2", "--keep", "1", "--keep-by", "attention"], {"recent": 2, "keep": 1, "by": "attention"}),
        (["--keep-by", "all"], None),
    ):
        assert main([*command, *options]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["of"].get("memory") == memory
        assert told["episodes"] == 6
    assert len(list((windowed / "evaluation" / "earlier").iterdir())) == 2


REFUSED = {
    ("--recent", "0"): "--recent 0: give 1 or more",
    ("--keep", "-1"): "--keep -1: give 0 or more",
    ("--policy", "expert", "--keep", "3"): "--recent and --keep are for a trained model",
    ("--keep-by", "all", "--keep", "3"): "--keep-by all keeps every step",
}


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_what_cannot_be_is_refused_in_one_line(options, windowed, capsys):
    assert main(["evaluate", str(windowed), *options]) == 2
    assert REFUSED[options] in capsys.readouterr().err.splitlines()[-1]


def test_other_networks_say_that_they_cannot(run, capsys):
    assert main(["evaluate", str(run), "--recent", "3", "--keep", "2", "--keep-by", "recent"]) == 2
    assert "a transformer network cannot choose what to keep" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--keep", "2"]) == 2
    assert "not trained on windows: give both --recent and --keep" in capsys.readouterr().err


def test_what_is_recalled_names_steps_of_the_episode(windowed):
    policy = load_policy(windowed, recent=2, keep=1, keep_by="recent", watch="supervised")
    policy.reset(1)
    for step in range(8):
        policy.act(np.full((1, 2, 2, 1), step, np.uint8))
        there = [other for other in range(step - 2, step + 1) if other >= 0]
        assert [other for other in policy.steps[0].tolist() if other >= 0] == there
        assert {p for p, _ in policy.recalled(threshold=0.0)[0]} == set(there) - {step}


def test_a_film_shows_what_was_left_of_the_past():
    task = recall_task()
    policies = [
        ModelPolicy(network, LONGEST, watch=(RECALL_HEAD,))
        for network in (a_network(), a_network().bounded(Bound(1, 2, "recent")), a_network().bounded(Bound(9, 9)))
    ]
    seed = next(seed for seed in range(EVALUATION_START, EVALUATION_START + 99) if length_of(seed) > 6)
    everything, little, enough = (record_recall(policy, task, seed, 0).weights[RECALL_HEAD] for policy in policies)
    length = len(everything)
    assert length > 6
    np.testing.assert_allclose(enough, everything, rtol=1e-4, atol=1e-6)
    left = np.tril(np.ones((length, length)), -1) * np.triu(np.ones((length, length)), -2)
    assert ((little > 0) == (left > 0)).all()
    assert (np.tril(everything, -1)[2:] > 0).sum() > (little[2:] > 0).sum()


def length_of(seed):
    env = recall_task().make_env()
    env.reset(seed=seed)
    return env.unwrapped.length


def test_episodes_may_be_longer_than_anything_the_policy_was_made_for():
    task = replace(recall_task(), horizon=LONGEST)
    policy = ModelPolicy(a_network().bounded(Bound(2, 2)), 10**9)
    seeds = [EVALUATION_START + number for number in range(20)]
    results = rollout(policy, task, seeds, batch=7, workers=0)
    assert [result.length for result in results] == [length_of(seed) for seed in seeds]
    assert policy._cache.steps.shape[1] == 4
    alone = rollout(ModelPolicy(a_network().bounded(Bound(2, 2)), 10**9), task, seeds, batch=1, workers=0)
    assert [result.success for result in results] == [result.success for result in alone]
