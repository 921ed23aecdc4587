"""Observations that leave their cells in memory, for heads that meet a past observation cell by cell.

Legend: U distinct observations, D = d_model, h size of a head, M numbers an observation leaves in memory, Q queries,
P past observations, K cells that have a kind. Both classes turn observations into vectors `[U, D]`, memories `[U, M]`
and the kinds of their cells `[U, K]`, standardise their input with the training set (`fit`), and `match` queries with
memories.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.models.embedders import ImageEmbedding, VectorEmbedding, cell_kinds, sum_of_rows
from attentiontuner.models.images import BLOCK, image_blocks
from attentiontuner.observations import ObservationSpec

Observed = Iterable[tuple[NDArray[Any], NDArray[np.int64]]]
"""Blocks of distinct observations `[u, …]` with how many steps of the training set saw each `[u]`."""

FITTED = 20_000
"""The most images or vectors a mean is taken over, spread over the training set."""


class GridCells(nn.Module):
    """A symbol grid: one-hot (cell, symbols) features, standardised, through one layer. What it leaves in memory is how
    often each kind of cell occurs; a key belongs to a kind of cell, wherever it stands.

    A kind counts by how rare it is in the training set. Walls and floor are in every observation: counted as often as
    they occur, they drown the one object, and a query that has begun to match them may never find it."""

    def __init__(self, observation: ObservationSpec, d_model: int, head: int) -> None:
        super().__init__()
        self.symbols, self.kinds = observation.symbols, math.prod(observation.symbols)
        self.cells = observation.shape[0] * observation.shape[1]
        self.memory, self.kinds_in_view = self.kinds, self.cells
        features = self.cells * self.kinds
        self.weight = nn.Parameter(torch.randn(features, d_model) / math.sqrt(self.cells))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.kind = nn.Embedding(self.kinds, 32)
        self.key = nn.Linear(32, head)
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.rarity: Tensor
        self.register_buffer("rarity", torch.ones(self.kinds))

    def fit(self, observed: Observed, frames: int, rarity: bool = True) -> None:
        """Standardise with the training set; rescale the first weights, so that vectors start at the same size; and
        weigh kinds by their rarity."""
        first = np.arange(self.cells) * self.kinds
        count, steps = np.zeros(self.cells * self.kinds), 0
        for block, seen in observed:
            feature = cell_kinds(torch.from_numpy(block), self.symbols).numpy() + first
            count += np.bincount(feature.ravel(), weights=np.repeat(seen, self.cells), minlength=len(count))
            steps += int(seen.sum())
        mean = count / steps
        deviation = np.sqrt(mean * (1 - mean).clip(0))
        scale = np.where(deviation > 1e-6, 1 / deviation.clip(0.05), 0)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        if rarity:
            often = mean.reshape(self.cells, self.kinds).sum(0)  # cells of each kind in an observation
            self.rarity.copy_(torch.from_numpy(np.where(often > 0, 1 / often.clip(0.02), 0)))
        spread = float((mean * (1 - mean) * scale**2).sum())
        with torch.no_grad():
            self.weight.mul_(math.sqrt(self.cells) / math.sqrt(max(spread, 1.0)))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[U, W, H, C]` → vectors `[U, D]`, memory `[U, M]` and kinds `[U, K]`."""
        kinds = cell_kinds(observations, self.symbols)  # [U, cells]
        feature = kinds + torch.arange(self.cells, device=kinds.device) * self.kinds
        summed = sum_of_rows(self.weight, feature, self.scale[feature])
        counts = torch.zeros(len(kinds), self.kinds, device=kinds.device).scatter_add_(
            1, kinds, torch.ones_like(kinds, dtype=torch.float32)
        )
        vectors = torch.tanh(summed - (self.mean * self.scale) @ self.weight + self.bias)
        return vectors, counts * self.rarity, kinds

    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        """Log of Σ over the cells of exp(query · key): `[…, Q, h]`, `[…, P, M]` → `[…, Q, P]`."""
        scores = query @ self.key(self.kind.weight).T / math.sqrt(query.shape[-1])  # [..., Q, kinds]
        largest = scores.amax(-1, keepdim=True).detach()
        log_sum: Tensor = ((scores - largest).exp() @ memory.transpose(-1, -2)).clamp(min=1e-20).log()
        return torch.add(log_sum, largest)


class DenseCells(nn.Module):
    """Images and vectors. What they leave in memory is a key for each place of the CNN's last map, or for all of it."""

    def __init__(self, observation: ObservationSpec, d_model: int, head: int) -> None:
        super().__init__()
        self.size = head
        self.embedding: nn.Module
        if observation.kind == "image":
            self.embedding = ImageEmbedding(observation, d_model)
            places = self.embedding.places
            self.key = nn.Linear(self.embedding.channels, self.size)
        else:
            self.embedding = VectorEmbedding(observation, d_model)
            places = 1
            self.key = nn.Linear(observation.shape[0], self.size)
        self.memory, self.kinds_in_view = places * self.size, 0
        self.mean: Tensor
        self.scale: Tensor
        shape = observation.shape if observation.kind == "vector" else (observation.shape[2], *observation.shape[:2])
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape[:1]))

    def fit(self, observed: Observed, frames: int, rarity: bool = True) -> None:
        """Standardise with the training set: the mean of every input, and the deviation of each channel. Places have
        no kinds, so none is rare."""
        vectors = isinstance(self.embedding, VectorEmbedding)
        every, first, steps = -(-frames // FITTED), 0, 0
        total: NDArray[np.float64] | float = 0.0
        squares: NDArray[np.float64] | float = 0.0
        for block, seen in observed:
            some, weight = block[first::every].astype(np.float64) / (1 if vectors else 255), seen[first::every]
            total += np.tensordot(weight, some, 1)
            squares += np.tensordot(weight, some**2, 1)
            steps += int(weight.sum())
            first = (first - len(block)) % every
        mean = np.asarray(total / steps)
        variance = (squares / steps - mean**2).clip(0)
        if not vectors:
            mean, variance = mean.transpose(2, 0, 1), variance.mean((0, 1))
        self.mean.copy_(torch.from_numpy(np.ascontiguousarray(mean)))
        deviation = np.sqrt(variance)
        self.scale.copy_(torch.from_numpy(np.where(deviation > 1e-6, 1 / deviation.clip(1e-3), 0)))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[U, …]` → vectors `[U, D]`, memory `[U, M]` and no kinds `[U, 0]`."""
        none = torch.zeros(len(observations), 0, dtype=torch.long, device=observations.device)
        if isinstance(self.embedding, ImageEmbedding):
            planes = self.embedding.planes(observations)  # [U, 16·C, w, h]
            mean = image_blocks(self.mean.permute(1, 2, 0)[None], planes.dtype)
            features = self.embedding.features((planes - mean) * self.scale.repeat(BLOCK**2)[:, None, None])
            keys = self.key(features.flatten(2).transpose(1, 2))  # [U, places, h]
            return self.embedding.vector(features), keys.flatten(1), none
        inputs = (observations - self.mean) * self.scale
        return self.embedding(inputs), self.key(inputs), none

    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        """Log of Σ over the places of exp(query · key): `[…, Q, h]`, `[…, P, M]` → `[…, Q, P]`."""
        keys = memory.reshape(*memory.shape[:-2], -1, self.size)  # [..., P · places, h]
        scores = query @ keys.transpose(-1, -2) / math.sqrt(self.size)
        return scores.view(*scores.shape[:-1], memory.shape[-2], -1).logsumexp(-1)
