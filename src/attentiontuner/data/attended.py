"""What the heads of a network attend to on one demonstration, beside the expert's E."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attentiontuner.data.dataset import DemoData
from attentiontuner.data.tokens import expert_matrix


@dataclass(frozen=True)
class Attended:
    """All heads on one demonstration.

    Attributes:
        weights: `[layers, heads, n, n]`, n tokens or timesteps, as the network has them; rows attend to columns.
        expert: E over the same, `[n, n]`; None where the demonstration is not annotated.
        episode: its number in the data set.
    """

    weights: NDArray[np.float32]
    expert: NDArray[np.float32] | None
    episode: int


def attended(model: nn.Module, data: DemoData, row: int, attend_self: bool) -> Attended:
    """Ask the network for its `attention` on demonstration `row` of `data`; its training mode is left as it was."""
    network: Any = model
    training = model.training
    model.eval()
    with torch.no_grad():
        weights: NDArray[np.float32] = network.attention(data.batch(np.array([row])))[:, :, 0].float().cpu().numpy()
    model.train(training)
    steps = int(data.lengths[row])
    expert = None
    if data.annotated[row]:
        pairs = data.packed.pairs.select(np.array([row])).settled()
        expert = expert_matrix(pairs, steps, attend_self, tokens_per_step=weights.shape[-1] // steps)
    return Attended(weights, expert, int(data.packed.episodes[row]))
