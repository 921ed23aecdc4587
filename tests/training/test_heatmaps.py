"""Pictures of attention: every head, the right matrix beside them, and numbers that can be read back."""

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load

from attentiontuner.data.tokens import expert_matrix
from attentiontuner.models import build_model
from attentiontuner.training.heatmaps import all_attention, write_heatmaps
from attentiontuner.training.source import on_device
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
