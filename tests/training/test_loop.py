"""What the loop must not forget: the first look at the data, the schedule, the clip, and tests without dropout."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.data.blocks import Block
from attentiontuner.data.dataset import DemoData
from attentiontuner.models.optimiser import make_optimiser
from attentiontuner.runs.config import learning_rate_at
from attentiontuner.runs.run import Run
from attentiontuner.training import loop
from attentiontuner.training.step import TrainStep, held_out_metrics
from attentiontuner.training.train import train
from tests.training.toys import toy_config, toy_store


def test_a_network_that_standardises_sees_the_training_set_first(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data", "vector")
    run = train(toy_config("vector", "recall", epochs=1), store, tmp_path / "run", device="cpu").run
    seen = store.read_packed(np.arange(19))
    frames = store.observation.decode(seen.frames)[seen.frame_index]
    embedding = Run(run).load_model().model.observation_embedding
    torch.testing.assert_close(embedding.mean, torch.from_numpy(frames.mean(0)), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(embedding.scale, torch.from_numpy(1 / frames.std(0)), atol=1e-4, rtol=1e-3)


def test_every_batch_has_the_learning_rate_of_its_place_in_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    wanted = loop.set_learning_rate
    monkeypatch.setattr(
        loop, "set_learning_rate", lambda optimiser, rate: (rates.append(rate), wanted(optimiser, rate))
    )
    config = toy_config(method="recall", epochs=3, schedule="cosine", warmup_steps=3)
    train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")
    assert rates == [learning_rate_at(config, step, 9) for step in range(9)]
    assert rates[0] < rates[1] < rates[2] > rates[-1] > 0


def test_the_rate_that_is_set_is_the_rate_of_the_step(tmp_path: Path) -> None:
    config, store = toy_config(), toy_store(tmp_path)
    model = config.network.build()
    optimiser = make_optimiser(model, 1.0)
    loop.set_learning_rate(optimiser, 0.0)
    before = [parameter.clone() for parameter in model.parameters()]
    TrainStep(model, optimiser, DemoData(store.read_packed()), config)(np.arange(8))
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_gradients_are_no_larger_than_the_clip(tmp_path: Path, clip: float) -> None:
    config, store = toy_config(clip=clip), toy_store(tmp_path)
    model = config.network.build()
    step = TrainStep(model, make_optimiser(model, 1e-3), DemoData(store.read_packed()), config)
    step(np.arange(8))
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
    found = step.collect()["gradient_norm"]
    assert found > 0.1  # the log says how large it was before
    assert norm == pytest.approx(clip or found, rel=1e-4)


def test_weight_decay_is_of_matrices_alone() -> None:
    model = toy_config(method="recall").network.build()
    optimiser = make_optimiser(model, 0.1, 0.5)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for name, parameter in model.named_parameters():
        kept = 0.95 if parameter.dim() > 1 else 1.0
        torch.testing.assert_close(parameter, kept * before[name], msg=name)


def test_single_numbers_learn_as_much_faster_as_the_network_has_haste() -> None:
    model = toy_config(method="recall", model={"haste": 7.0}).network.build()
    optimiser = make_optimiser(model, 1.0)
    loop.set_learning_rate(optimiser, 0.01)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    moved = {name: float((before[name] - each).abs().max()) for name, each in model.named_parameters()}
    hasty = {name for name, each in model.named_parameters() if each.dim() == 0}
    assert hasty == {"layers.0.recall.bias", "observation_embedding.alike"}
    for name, way in moved.items():
        assert way == pytest.approx(0.07 if name in hasty else 0.01, rel=1e-3), name


def test_where_there_is_more_to_test_on_than_to_train_on_not_every_epoch_is_tested(tmp_path: Path) -> None:
    store, tests = toy_store(tmp_path / "data"), toy_store(tmp_path / "tests", seed=1)
    for demos, tested in ((24, [1, 2, 3, 4, 5]), (12, [2, 4, 5]), (7, [4, 5])):
        config = toy_config(method="recall", epochs=5, demos=demos)
        result = train(config, store, tmp_path / f"run-{demos}", test_data=tests, device="cpu")
        assert [epoch["epoch"] for epoch in result.metrics if "test_accuracy" in epoch] == tested


def test_nothing_is_dropped_while_testing(tmp_path: Path) -> None:
    config = toy_config(model={"dropout": 0.9})
    data = DemoData(toy_store(tmp_path).read_packed())
    model = config.network.build().train()
    first, again = (held_out_metrics(model, [data], config) for _ in range(2))
    assert first == again
    assert model.training
    model.eval()
    with torch.no_grad():
        output = model(data.batch(np.arange(len(data))))
    exact = torch.nn.functional.cross_entropy(output.distribution, data.batch(np.arange(len(data))).actions)
    assert first["test_imitation_loss"] == pytest.approx(exact.item(), rel=1e-5)


@pytest.mark.parametrize("method", ["attentiontuner", "vanilla", "recall", "recall-vanilla"])
def test_accuracy_where_memory_is_needed_stands_apart(tmp_path: Path, method: str) -> None:
    store, config = toy_store(tmp_path, annotate="odd"), toy_config(method=method)
    data = DemoData(store.read_packed())
    torch.manual_seed(0)
    model = config.network.build()
    found = held_out_metrics(model, [data], config)
    batch = data.batch(np.arange(len(data)))
    with torch.no_grad():
        output = model.eval()(batch, config.supervised())
    right = (output.distribution.argmax(-1) == batch.actions).split(data.lengths.tolist())
    steps = {(int(row), int(q)) for row, _, q, _ in data.packed.pairs.rows()}
    assert found["test_accuracy_at_pairs"] == pytest.approx(np.mean([right[row][q].item() for row, q in steps]))
    assert ("test_recall" in found) == (method in ("attentiontuner", "recall"))
    if "test_recall" not in found:
        return
    strength = config.way.recall_strength(output, Block(0, len(data), 0, batch.longest))
    as_expert = []
    for row, q in steps:
        wanted = {int(p) for r, p, other, _ in data.packed.pairs.rows() if (r, other) == (row, q)}
        others = [strength[row, q, p].item() for p in range(q) if p not in wanted]
        as_expert.append(min(strength[row, q, p].item() for p in wanted) > max(others))
    assert found["test_recall"] == pytest.approx(np.mean(as_expert))
    assert 0 < np.mean(as_expert) < 1


def test_without_pairs_nothing_is_said_of_them(tmp_path: Path) -> None:
    store = toy_store(tmp_path, annotate="none")
    config = toy_config(method="vanilla")
    found = held_out_metrics(config.network.build(), [DemoData(store.read_packed())], config)
    assert set(found) == {"test_accuracy", "test_imitation_loss"}


def test_a_trained_head_recalls_as_the_expert(tmp_path: Path) -> None:
    """Pairs all point at step 0, which is soon learned; the log says so."""
    metrics = train(toy_config(epochs=12), toy_store(tmp_path / "data"), tmp_path / "run", device="cpu").metrics
    assert metrics[0]["test_recall"] < 0.75 < 0.8 < metrics[-1]["test_recall"]
