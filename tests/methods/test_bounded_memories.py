"""Memories that do not grow: recipes, going on after a stop, and what is watched and drawn."""

import json
from pathlib import Path

import numpy as np
import pytest

from attentiontuner import collect, get_task, paper_config
from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.data.attended import attended
from attentiontuner.data.dataset import DemoData
from attentiontuner.methods import DataFacts, get_method
from attentiontuner.models.sizes import RECALL_HEAD
from attentiontuner.runs.run import Run
from attentiontuner.training.step import held_out_metrics
from attentiontuner.training.train import train
from tests.training.toys import toy_store, toy_task, without_times

PAIRS = ("gru", "lru", "slots")
SMALL = {"d_model": 16, "feedforward": 32}


def config_of(method, kind="grid", model=None, **choices):
    choices = {"epochs": 3, "batch_size": 8, "test_fraction": 0.2, "labels": "exact", **choices}
    return paper_config(toy_task(kind), method, {**SMALL, **(model or {})}, **choices)


@pytest.mark.parametrize("method", PAIRS)
def test_the_control_has_the_same_network_and_recipe(method):
    for demonstrations in (100, 10_000):
        one, other = (
            paper_config(get_task("hallway"), name, data=DataFacts(demonstrations))
            for name in (method, get_method(method).without_pairs)
        )
        assert one.model == other.model
        different = {"method": "", "memory_weight": 0, "labels": ""}
        assert {**one.to_json(), **different} == {**other.to_json(), **different}
        assert one.supervised() == (RECALL_HEAD,)
        assert other.supervised() == ()


@pytest.mark.parametrize("method", PAIRS)
def test_recipes_look_at_the_data_as_that_of_recall_heads_does(method):
    for task in ("hallway", "mystery-path"):
        for demonstrations in (20, 100, 1000, 10_000):
            own, recall = (
                paper_config(get_task(task), name, data=DataFacts(demonstrations)) for name in (method, "recall")
            )
            assert (own.epochs, own.batch_size, own.model.d_model) == (
                recall.epochs,
                recall.batch_size,
                recall.model.d_model,
            )
    arm = paper_config(get_task("remember-reach"), method, data=DataFacts(100)).model
    assert (arm.action_head, arm.chunk, arm.last_action) == ("l1", 8, False)


def test_no_other_head_is_supervised():
    with pytest.raises(UserError, match="--heads '2:1': method 'gru' supervises head 1:1, no other"):
        config_of("gru", heads="2:1")


@pytest.mark.parametrize("method", PAIRS)
def test_stopped_it_goes_on_to_the_same_bytes(tmp_path: Path, method: str) -> None:
    store, config = toy_store(tmp_path / "data", annotate="odd"), config_of(method)
    whole = train(config, store, tmp_path / "whole", device="cpu")
    for _ in range(3):
        assert not train(config, store, tmp_path / "parts", device="cpu", budget_seconds=0.0).finished
    assert train(config, store, tmp_path / "parts", device="cpu").finished
    there, here = (tmp_path / name / "model.safetensors" for name in ("whole", "parts"))
    assert there.read_bytes() == here.read_bytes()
    assert without_times(whole.metrics) == without_times(Run(tmp_path / "parts").metrics())


@pytest.mark.parametrize("kind", ["grid", "vector"])
@pytest.mark.parametrize("method", ["slots", "lru-vanilla"])
def test_a_batch_in_parts_has_the_same_gradient(tmp_path: Path, method: str, kind: str) -> None:
    """But for a probe, which tells what is recalled from what is recalled in the same part."""
    store = toy_store(tmp_path / "data", kind, annotate="odd", episodes=8)
    found = []
    for parts in (1, 3):
        config = config_of(method, kind, {"dropout": 0.0}, epochs=1, parts=parts, test_fraction=0.0)
        found.append(train(config, store, tmp_path / f"{parts}", device="cpu").metrics[-1])
    for name in ("imitation_loss", "memory_loss", "gradient_norm"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4), name
    assert (found[0]["memory_loss"] > 0) == (method == "slots")


GOLDEN = {
    "gru": [
        (1.543997, 5.253179, 12.32949, 1.453),
        (1.534783, 5.123518, 8.974553, 1.45831),
    ],
    "lru": [
        (1.487656, 8.65764, 14.22415, 1.759207),
        (1.426637, 8.35931, 11.93536, 1.759926),
    ],
    "slots": [
        (1.38858, 3.614812, 5.541691, 1.431114),
        (1.384293, 3.517827, 5.144048, 1.429681),
    ],
}
"""method → (imitation loss, memory loss, gradient norm, test imitation loss) of each epoch, float32 on one thread."""


@pytest.mark.parametrize("method", PAIRS)
def test_golden_losses(tmp_path: Path, method: str) -> None:
    config = config_of(method, model={"dropout": 0.0}, epochs=2, warmup_steps=2)
    result = train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")
    names = ("imitation_loss", "memory_loss", "gradient_norm", "test_imitation_loss")
    found = [tuple(epoch[name] for name in names) for epoch in result.metrics]
    assert found == [pytest.approx(epoch, rel=2e-5) for epoch in GOLDEN[method]], found


@pytest.mark.parametrize(("method", "recalled"), [("gru", 0.4), ("lru", 0.5), ("slots", 0.9)])
def test_pairs_are_learned_and_pictures_show_it(tmp_path: Path, method: str, recalled: float) -> None:
    """What was seen first decides. A random guess finds it at three of ten steps."""
    store = toy_store(tmp_path / "data", "vector", episodes=240, shard_episodes=60, frames=1000)
    config = config_of(method, "vector", epochs=12, learning_rate=3e-3, warmup_steps=5)
    result = train(config, store, tmp_path / "run", device="cpu")
    assert result.metrics[-1]["memory_loss"] < 0.7 * result.metrics[0]["memory_loss"]
    data = DemoData(store.read_packed(range(192, 240)))
    model = Run(result.run).load_model().model
    assert held_out_metrics(model, [data], config)["test_recall"] > recalled
    found = attended(model, data, 0, attend_self=False).weights
    length = int(data.lengths[0])
    assert found.shape == (1, 1, length, length)
    assert not np.triu(found[0, 0]).any()
    assert found.sum(-1).max() < 1 + 1e-5
    if method == "slots":
        assert (found[0, 0][2:, 0] > 0.5).all()


@pytest.mark.parametrize("method", ["gru", "lru-vanilla"])
def test_from_the_command_line_to_a_film(tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(tmp_path / "data"), str(tmp_path / "run")
    collect(get_task("hallway", {"length": 2}), 12, 0, tmp_path / "data", workers=1)
    small = ["--epochs", "2", "--d-model", "16", "--feedforward", "32", "--heatmap-epochs", "2", "--device", "cpu"]
    assert main(["train", "--data", data, "--out", out, "--method", method, *small]) == 0
    assert (tmp_path / "run" / "heatmaps" / "00002.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main(["evaluate", out, "--episodes", "2", "--video", "1", "--json", "--device", "cpu"]) == 0
    (film,) = json.loads(capsys.readouterr().out)["films"]
    assert Path(film).read_bytes().startswith(b"GIF")
