"""Actions that are numbers, and several choices at once, from demonstrations to played episodes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.collecting.collection import collect
from attentiontuner.core.errors import UserError
from attentiontuner.demos import Demonstration, DemoStore, DemoWriter
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import load_policy
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.runs.config import paper_config, recipe
from attentiontuner.spaces import ActionSpec
from attentiontuner.training import loop
from attentiontuner.training.train import train
from tests.continuous_tasks import POINT

SMALL = {"d_model": 16, "layers": 2, "feedforward": 16}
SPEC = POINT.observation


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> DemoStore:
    return collect(POINT, 8, 1, tmp_path_factory.mktemp("point") / "data", workers=1)


def small(method: str, **model) -> dict:
    return paper_config(POINT, method, {**SMALL, **model}, epochs=2, batch_size=3, test_fraction=0.3)


def test_a_chunk_is_no_longer_than_the_longest_demonstration_or_the_usual_one(store: DemoStore) -> None:
    longest = int(store.lengths.max())
    for method, chunk in (("recall", 8), ("attentiontuner", 1)):
        most = max(longest, chunk)
        assert recipe(POINT, method, {"chunk": most}, store).model.chunk == most
        with pytest.raises(UserError, match=f"--chunk {most + 1}: the longest demonstration has {longest} steps"):
            recipe(POINT, method, {"chunk": most + 1}, store)


@pytest.mark.parametrize("method", ["recall", "attentiontuner"])
@pytest.mark.parametrize(("head", "chunk"), [("gmm", 1), ("gmm", 3), ("l1", 3)])
def test_numbers_are_learned_and_played(tmp_path: Path, store: DemoStore, method: str, head: str, chunk: int) -> None:
    config = small(method, action_head=head, chunk=chunk)
    result = train(config, store, tmp_path / "run", device="cpu")
    last = result.metrics[-1]
    likelihoods = {"train_log_likelihood", "test_log_likelihood", "test_log_likelihood_at_pairs"}
    errors = {"train_error", "test_error", "test_error_at_pairs"}
    assert errors <= set(last)
    assert (likelihoods <= set(last)) == (head == "gmm")
    assert "test_accuracy" not in last
    assert loop.tested(last).startswith(f"test error {last['test_error']:.4g} (")
    policy = load_policy(tmp_path / "run", device="cpu", execute=chunk)
    torch.testing.assert_close(policy.model.action_head.low, torch.tensor([-0.2, -0.2]))
    assert float(policy.model.action_head.spread.max()) < 0.5  # looked at the training set, and kept with the weights
    for workers in (0, 1):
        results, _ = evaluate(policy, POINT, 3, workers=workers)
        assert len(results) == 3


def test_a_run_that_goes_on_ends_as_one_that_never_stopped(tmp_path: Path, store: DemoStore) -> None:
    whole = train(small("attentiontuner"), store, tmp_path / "whole", device="cpu").metrics
    train(replace(small("attentiontuner"), epochs=1), store, tmp_path / "parts", device="cpu")
    parts = train(small("attentiontuner"), store, tmp_path / "parts", device="cpu").metrics
    timeless = [
        {name: value for name, value in line.items() if "second" not in name} for line in (whole[-1], parts[-1])
    ]
    assert timeless[0] == timeless[1]


def test_several_actions_of_a_chunk_are_played_and_a_new_episode_begins_a_new_chunk() -> None:
    torch.manual_seed(0)
    model = small("recall", chunk=3).network.build()
    seen = np.random.default_rng(0).normal(size=(7, 2, 6)).astype(np.float32)
    policy, every = ModelPolicy(model, 9, execute=3), ModelPolicy(model, 9)
    plans = []
    for player in (policy, every):
        player.reset(2)
    for step, observation in enumerate(seen):
        if step == 4:
            for player in (policy, every):
                player.restart([1])
        played = policy.act(observation)
        plans.append(model.action_head.plan(every.distribution(observation)).numpy())
        every.took(played)
        begun = [3 * (step // 3), step - (step - 4) % 3 if step >= 4 else 3 * (step // 3)]
        expected = [plans[first][row, step - first] for row, first in enumerate(begun)]
        np.testing.assert_allclose(played, expected, atol=1e-5)
    policy.took(np.zeros((2, 2), np.float32))  # somebody else acts: what was planned is forgotten
    np.testing.assert_allclose(policy.act(seen[0])[0], model.action_head.plan(policy._distribution)[0, 0], atol=1e-6)


def test_more_actions_than_a_chunk_has_are_refused() -> None:
    model = small("recall", chunk=3).network.build()
    with pytest.raises(UserError, match="execute 4: the network reads 3 actions at a step"):
        ModelPolicy(model, 9, execute=4)


@pytest.mark.parametrize("method", ["recall", "attentiontuner"])
def test_an_exported_step_gives_the_actions(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    policy = ModelPolicy(small(method, chunk=2).network.build(), 6)
    step = policy.step_function()
    torch.export.save(torch.export.export(step, step.inputs(2)), tmp_path / "policy.pt2")
    program = torch.export.load(tmp_path / "policy.pt2").module()
    cache, _, last, begins = step.inputs(2)
    policy.reset(2)
    for observation in np.random.default_rng(0).normal(size=(4, 2, 6)).astype(np.float32):
        actions, cache = program(cache, torch.from_numpy(observation), last, begins)
        assert actions.shape == (2, 2, 2)
        np.testing.assert_allclose(actions[:, 0], policy.act(observation), atol=1e-5)
        last, begins = actions[:, 0].clone(), torch.zeros(2, dtype=torch.bool)
    with pytest.raises(UserError, match="there are no logits of actions that are numbers"):
        _ = policy.logits


@pytest.mark.parametrize("method", ["recall", "attentiontuner"])
def test_several_choices_at_once_are_learned_and_played(tmp_path: Path, method: str) -> None:
    actions = ActionSpec.multi_discrete([3, 2])
    task = replace(POINT, name="choices", actions=actions)
    writer = DemoWriter(tmp_path / "data", task=task.name, settings={}, observation=SPEC, actions=actions)
    generator = np.random.default_rng(0)
    demonstrations = [
        Demonstration(
            generator.normal(size=(5, 6)), np.stack([actions.draw(generator) for _ in range(5)]), pairs=[(0, 4)]
        )
        for _ in range(6)
    ]
    writer.append([replace(made, seed=seed) for seed, made in enumerate(demonstrations)], "expert")
    config = paper_config(task, method, SMALL, epochs=2, batch_size=3, test_fraction=0.3)
    result = train(config, DemoStore.open(tmp_path / "data"), tmp_path / "run", device="cpu")
    assert {"train_accuracy", "test_accuracy", "test_accuracy_at_pairs"} <= set(result.metrics[-1])
    policy = load_policy(tmp_path / "run", device="cpu", max_steps=5)
    policy.reset(3)
    actions.encode(policy.act(np.zeros((3, 6), np.float32)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_pairs_teach_where_to_go(tmp_path: Path) -> None:
    data = collect(POINT, 320, 1, tmp_path / "data", workers=1)
    config = paper_config(POINT, "recall", epochs=40)
    train(config, data, tmp_path / "run", device="cpu")
    _, summary = evaluate(load_policy(tmp_path / "run", device="cpu"), POINT, 100, workers=0)
    assert summary["success_rate"] >= 0.9
