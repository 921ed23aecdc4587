"""Pictures of attention: every head, the right matrix beside them, and numbers that can be read back."""

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load

from attentiontuner.data.attended import attended
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.tokens import expert_matrix
from attentiontuner.demos import Annotation, PairTable, write_annotation
from attentiontuner.training.train import train
from attentiontuner.viz.heatmaps import write_heatmaps
from tests.training.toys import toy_config, toy_store


def test_every_head_and_the_experts_matrix(tmp_path: Path) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config()
    data = DemoData(store.read_packed([4, 7]))
    torch.manual_seed(0)
    model = config.network.build().train()
    found = attended(model, data, row=1, attend_self=True)
    assert model.training
    assert found.episode == 7
    path = tmp_path / "00012.png"
    write_heatmaps(path, found.weights, found.expert, "attention")
    assert path.read_bytes().startswith(b"\x89PNG")
    arrays = load(path.with_suffix(".safetensors").read_bytes())
    n = 2 * int(store.lengths[7])
    assert arrays["attention"].shape == (2, 2, n, n)
    assert np.array_equal(arrays["expert"] / 255, expert_matrix(store[7].pairs, n // 2))
    weights = found.weights
    assert np.abs(weights.sum(-1) - 1).max() < 1e-5
    assert not np.triu(weights, 1).any()
    assert np.abs(arrays["attention"] / 255 - weights).max() <= 0.5 / 255 + 1e-6


def test_the_matrix_beside_the_heads_is_that_of_the_runs_annotator(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    for episode, length in enumerate(store.lengths):
        write_annotation(store.path, "ada", episode, Annotation(PairTable.of([(1, 2)], int(length))))
    run = train(toy_config(epochs=1, heatmap_epochs=(1,), annotator="ada"), store, tmp_path / "run", device="cpu").run
    arrays = load((run / "heatmaps" / "00001.safetensors").read_bytes())
    steps = len(arrays["expert"]) // 2
    assert np.array_equal(arrays["expert"] / 255, expert_matrix(np.array([[1, 2]]), steps))
