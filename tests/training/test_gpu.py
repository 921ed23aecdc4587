"""The trainer on a GPU: it goes on after a stop, streams, and computes what the CPU does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.evaluation.opening import load_policy
from attentiontuner.training.train import train
from tests.training.toys import toy_config, toy_store

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *(("attentiontuner", "grid"), ("attentiontuner", "image"), ("recall", "grid"), ("recall", "image")),
        *(("gru", "grid"), ("lru", "grid"), ("lru", "image"), ("slots", "grid")),
    ],
)
def test_float32_losses_are_those_of_the_cpu(tmp_path: Path, method: str, kind: str) -> None:
    store = toy_store(tmp_path / "data", kind)
    config = toy_config(kind, method, epochs=4, model={"dropout": 0.0}, precision="float32")
    there = train(config, store, tmp_path / "gpu", device="cuda")
    here = train(config, store, tmp_path / "cpu", device="cpu")
    for mine, same in zip(there.metrics, here.metrics, strict=True):
        for name in ("imitation_loss", "memory_loss", "gradient_norm", "test_imitation_loss"):
            assert mine[name] == pytest.approx(same[name], rel=2e-3), name


@pytest.mark.parametrize("method", ["gru", "lru", "slots"])
def test_memories_stream_on_a_gpu_as_on_a_cpu(tmp_path: Path, method: str) -> None:
    """A step is recorded, too, and what it leaves behind is its own from the first one on."""
    store = toy_store(tmp_path / "data")
    run = train(toy_config("grid", method), store, tmp_path / "run", device="cpu").run
    seen = np.stack([store[episode].observations[:3] for episode in range(4)])
    found = {}
    for device in ("cpu", "cuda"):
        policy = load_policy(run, device=device, max_steps=9, watch="supervised")
        for _ in range(2):
            policy.reset(4)
            found[device] = [(policy.distribution(seen[:, t]).cpu(), dict(policy.weights)) for t in range(3)]
    for (here, weights), (there, others) in zip(found["cpu"], found["cuda"], strict=True):
        torch.testing.assert_close(here, there, atol=1e-4, rtol=1e-4)
        for head, own in weights.items():
            np.testing.assert_allclose(own, others[head], atol=1e-4)


def test_a_supervised_head_between_others_is_recorded(tmp_path: Path) -> None:
    config = toy_config(epochs=4, heads="1:2", model={"d_model": 24, "heads": 3})
    assert train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cuda").finished


@pytest.mark.parametrize("limit", [None, 5000])
def test_stopped_in_bfloat16_it_goes_on(tmp_path: Path, limit: int | None) -> None:
    store = toy_store(tmp_path / "data")
    config = toy_config(epochs=6, model={"dropout": 0.0}, memory_limit=limit)
    whole = train(config, store, tmp_path / "whole", device="cuda")
    for _ in range(4):
        assert not train(config, store, tmp_path / "parts", device="cuda", budget_seconds=0.0).finished
    parts = train(config, store, tmp_path / "parts", device="cuda")
    assert parts.finished
    assert parts.metrics[-1]["imitation_loss"] == pytest.approx(whole.metrics[-1]["imitation_loss"], rel=0.02)
    assert parts.metrics[0]["imitation_loss"] == pytest.approx(whole.metrics[0]["imitation_loss"], rel=0.02)
