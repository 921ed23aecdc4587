"""Pictures of attention: every head, the right matrix beside them, and numbers that can be read back."""

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load

from attentiontuner.data.tokens import expert_matrix
from attentiontuner.demos import Annotation, as_pairs, write_annotation
from attentiontuner.models import build_model
from attentiontuner.training.heatmaps import all_attention, write_heatmaps
from attentiontuner.training.source import on_device
from attentiontuner.training.trainer import train
from tests.training.toys import toy_config, toy_store


def test_every_head_and_the_experts_matrix(tmp_path: Path) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config()
    data = on_device(store.read_packed([4, 7]), config, torch.device("cpu"))
    torch.manual_seed(0)
    model = build_model(config.model).train()
    path = write_heatmaps(tmp_path, 12, model, data, row=1)
    assert model.training
    assert path == tmp_path / "heatmaps" / "00012.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    arrays = load(path.with_suffix(".safetensors").read_bytes())
    n = 2 * int(store.lengths[7])
    assert arrays["attention"].shape == (2, 2, n, n)
    assert np.array_equal(arrays["expert"] / 255, expert_matrix(store[7].pairs, n // 2))
    weights = all_attention(model, data, 1)
    assert np.abs(weights.sum(-1) - 1).max() < 1e-5
    assert not np.triu(weights, 1).any()
    assert np.abs(arrays["attention"] / 255 - weights).max() <= 0.5 / 255 + 1e-6


def test_the_matrix_beside_the_heads_is_that_of_the_runs_annotator(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    for episode, length in enumerate(store.lengths):
        write_annotation(store.path, "ada", episode, Annotation(as_pairs([(1, 2)], int(length))))
    run = train(toy_config(epochs=1, heatmap_epochs=(1,), annotator="ada"), store, tmp_path / "run", device="cpu").run
    arrays = load((run / "heatmaps" / "00001.safetensors").read_bytes())
    steps = len(arrays["expert"]) // 2
    assert np.array_equal(arrays["expert"] / 255, expert_matrix(np.array([[1, 2]]), steps))
