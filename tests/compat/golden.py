"""Short runs whose losses are written down in `golden.json`. Their data sets are collected from seeds."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

import attentiontuner as at
from attentiontuner.models.sizes import BEFORE
from tests.compat.files import sha256

FILE = Path(__file__).parent / "golden.json"
NETWORK = {"d_model": 32, "feedforward": 64}
OLD_RECALL_NETWORK = {**BEFORE, "haste": 1.0}
OLD_RECALL = {"batch_size": 32, "weight_decay": 0.0}
"""What the recipe of recall heads was then, where it is another now."""


@dataclass(frozen=True)
class Case:
    """A method on a data set of `episodes` demonstrations, seed 1."""

    task: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    episodes: int = 64
    held_out: float = 0.05


SIX_ROOMS = {"length": 6}
CASES = {
    "hallway-attentiontuner": Case("hallway", "attentiontuner", SIX_ROOMS),
    "hallway-vanilla": Case("hallway", "vanilla", SIX_ROOMS),
    "hallway-recall": Case("hallway", "recall", SIX_ROOMS),
    "hallway-recall-vanilla": Case("hallway", "recall-vanilla", SIX_ROOMS),
    "counting-recall": Case("counting", "recall", {"length": 5}),
    "mystery-path-attentiontuner": Case("mystery-path", "attentiontuner", episodes=4, held_out=0.25),
    "mystery-path-recall": Case("mystery-path", "recall", episodes=4, held_out=0.25),
}
LENGTHS = ("steps", "epochs")


def config_of(case: Case, length: str) -> at.TrainConfig:
    """`steps`: five epochs of one batch each, with the recipe as it is (dropout, schedule, clipping): an epoch's losses
    are those of one step. `epochs`: three epochs of several batches, without dropout, some episodes held out."""
    task, recalls = at.get_task(case.task, case.settings), case.method.startswith("recall")
    network, recipe = {**NETWORK, **(OLD_RECALL_NETWORK if recalls else {})}, OLD_RECALL if recalls else {}
    if length == "steps":
        batch = recipe.get("batch_size", at.TrainConfig.batch_size)
        short = {"epochs": 5, "demos": min(batch, case.episodes), "test_fraction": 0.0}
        return at.paper_config(task, case.method, {"dropout": 0.1, **network}, **{**recipe, **short})
    warm = {"warmup_steps": 2} if recalls else {"learning_rate": 1e-3}
    few = {"epochs": 3, "batch_size": max(case.episodes // 4, 2), "test_fraction": case.held_out}
    return at.paper_config(task, case.method, {**network, "dropout": 0.0}, **{**recipe, **few, **warm})


def data_of(case: Case, folder: Path) -> at.DemoStore:
    """The case's data set, collected in `folder` unless it is there."""
    path = folder / f"{case.task}-{case.episodes}"
    if path.exists():
        return at.DemoStore.open(path)
    return at.collect(at.get_task(case.task, case.settings), case.episodes, 1, path, workers=1)


def golden_run(name: str, length: str, folder: Path) -> dict[str, Any]:
    """Every epoch's metrics but the times, with the total loss, and the checksum of the weights at the end."""
    case = CASES[name]
    config = config_of(case, length)
    result = at.train(config, data_of(case, folder), folder / f"{name}-{length}", device="cpu")
    epochs = without_times(result.metrics)
    for epoch in epochs:
        epoch["total_loss"] = epoch["imitation_loss"] + config.weight * epoch["memory_loss"]
    weights = save(load((result.run / "model.safetensors").read_bytes()))  # without their seal
    return {"epochs": epochs, "weights": sha256(weights)}


def without_times(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an epoch computed, and neither how fast nor how well it played."""
    others = ("seconds", "demonstrations_per_second", "success_rate")
    return [{key: value for key, value in epoch.items() if key not in others} for epoch in metrics]


def arithmetic() -> str:
    """A checksum of how processor and PyTorch round here: where it is another, weights differ in their last bits."""
    generator = np.random.default_rng(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.from_numpy(generator.normal(size=shape).astype(np.float32)).requires_grad_()

    tokens, weight, image, kernel = numbers(90, 32), numbers(96, 32), numbers(3, 48, 21, 21), numbers(32, 48, 2, 2)
    projected = F.layer_norm(F.linear(tokens, weight), (96,))
    attention = F.softmax(projected[:, :32] @ projected[:, 32:64].T, -1) @ projected[:, 64:]
    total = attention.exp().mean() + F.relu(F.conv2d(image, kernel)).square().mean()
    total.backward()
    digest = hashlib.sha256(f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()}".encode())
    for tensor in (total, attention, tokens.grad, weight.grad, image.grad, kernel.grad):
        assert tensor is not None
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()
