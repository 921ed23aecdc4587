"""The models of the example learn to look where the pairs say."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "memory_loss.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE), run_name="example")


@pytest.mark.parametrize("kind", ["SdpaPolicy", "MultiheadPolicy", "HuggingFacePolicy"])
def test_the_memory_loss_falls(kind: str, example: dict[str, Any]) -> None:
    if kind == "HuggingFacePolicy":
        pytest.importorskip("transformers", reason="the example with a Hugging Face model: pip install transformers")
    torch.manual_seed(0)
    losses = example["train"](example[kind](), steps=40)
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


def test_the_scores_computed_again_are_those_the_attention_had(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over unit vectors as values the fused attention reads its own weights."""
    torch.manual_seed(0)
    policy, weights = example["SdpaPolicy"](), []
    fused = torch.nn.functional.scaled_dot_product_attention

    def note(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool) -> torch.Tensor:
        n = value.shape[2]
        weights.append(fused(query, key, torch.eye(n).expand(*value.shape[:2], n, n), is_causal=is_causal))
        return fused(query, key, value, is_causal=is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", note)
    names = type(policy).forward.__globals__
    monkeypatch.setitem(names, "memory_loss_from_scores", lambda scores, expert, tokens: scores)
    observations, actions, _, _ = example["episodes"](3, seed=0)
    _, scores = policy(observations, actions, None, None)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    torch.testing.assert_close(scores.masked_fill(future, -torch.inf).softmax(-1), weights[0][:, 0])
