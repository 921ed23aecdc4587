"""Observations and actions to vectors. Legend: U distinct observations, D = d_model.

The paper's two CNNs differ between the benchmarks; vectors get a small MLP. `lookup` is a cheap stand-in for the symbol
grid's CNN on a laptop: every (cell, symbol) pair has its own vector, and a grid is their sum.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.observations import ObservationSpec

Embedder = Literal["paper", "lookup"]


class ImageEmbedding(nn.Module):
    """An observation to one vector: `[U, …]` → `[U, D]`."""

    def __init__(self, observation: ObservationSpec, d_model: int) -> None:
        super().__init__()
        self.observation = observation
        if observation.kind == "grid":
            channels = sum(observation.symbols)
            self.cnn = nn.Sequential(
                nn.Conv2d(channels, 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 80, 3, padding=1), nn.ReLU()
            )
        else:
            self.cnn = nn.Sequential(
                nn.Conv2d(observation.shape[2], 32, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, stride=2),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3),
                nn.ReLU(),
            )
        with torch.no_grad():
            features = self.cnn(self.planes(torch.zeros(1, *observation.shape, dtype=torch.uint8))).numel()
        self.fc = nn.Sequential(nn.Linear(features, d_model), nn.Tanh())

    def planes(self, observations: Tensor) -> Tensor:
        """Bytes `[U, W, H, C]` to float planes `[U, planes, W, H]`: one-hot symbols, or colours in [0, 1]."""
        if self.observation.kind == "image":
            return observations.permute(0, 3, 1, 2).float() / 255
        symbols = observations.long()
        planes = [F.one_hot(symbols[..., c], count) for c, count in enumerate(self.observation.symbols)]
        return torch.cat(planes, -1).permute(0, 3, 1, 2).float()

    def forward(self, observations: Tensor) -> Tensor:
        embedded: Tensor = self.fc(self.cnn(self.planes(observations)).flatten(1))
        return embedded


class LookupEmbedding(nn.Module):
    """A symbol grid to one vector by table look-up: the sum over its cells of a vector for (cell, symbols)."""

    def __init__(self, observation: ObservationSpec, d_model: int) -> None:
        super().__init__()
        self.symbols = observation.symbols
        self.kinds = math.prod(observation.symbols)
        cells = observation.shape[0] * observation.shape[1]
        self.table = nn.EmbeddingBag(cells * self.kinds, d_model, mode="sum")
        nn.init.normal_(self.table.weight, std=1 / math.sqrt(cells))
        self.first_of_cell: Tensor
        self.register_buffer("first_of_cell", torch.arange(cells) * self.kinds, persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        return torch.tanh(self.table(cell_kinds(observations, self.symbols) + self.first_of_cell))


class VectorEmbedding(nn.Module):
    """A flat vector to one vector through an MLP: `[U, features]` → `[U, D]`."""

    def __init__(self, observation: ObservationSpec, d_model: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(observation.shape[0], d_model), nn.ReLU(), nn.Linear(d_model, d_model), nn.Tanh()
        )

    def forward(self, observations: Tensor) -> Tensor:
        embedded: Tensor = self.mlp(observations)
        return embedded


class ActionEmbedding(nn.Module):
    """A discrete action to one vector: `[S]` → `[S, D]`."""

    def __init__(self, actions: int, d_model: int) -> None:
        super().__init__()
        self.actions = actions
        self.mlp = nn.Sequential(nn.Linear(actions, d_model), nn.Tanh())

    def forward(self, actions: Tensor) -> Tensor:
        embedded: Tensor = self.mlp(F.one_hot(actions, self.actions).float())
        return embedded


class PositionalEmbedding(nn.Module):
    """Sinusoidal positions in timesteps: o_t and a_t share position t. `[S]` → `[S, D]`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
        self.rates: Tensor
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, time: Tensor) -> Tensor:
        angles = time[:, None] * self.rates
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def observation_embedding(observation: ObservationSpec, d_model: int, embedder: Embedder) -> nn.Module:
    """The embedder of this kind of observation."""
    if observation.kind == "vector":
        return VectorEmbedding(observation, d_model)
    if embedder == "lookup" and observation.kind == "grid":
        return LookupEmbedding(observation, d_model)
    return ImageEmbedding(observation, d_model)


def cell_kinds(observations: Tensor, symbols: tuple[int, ...]) -> Tensor:
    """Symbol grids `[U, W, H, C]` to one number per cell `[U, W·H]`: its symbols as digits, the first the highest."""
    kind = torch.zeros(observations.shape[:-1], dtype=torch.long, device=observations.device)
    for channel, count in enumerate(symbols):
        kind = kind * count + observations[..., channel].long()
    return kind.flatten(1)
