"""Observations and actions to vectors. Legend: U distinct observations, D = d_model.

The paper's two CNNs differ between the benchmarks; vectors get a small MLP. `lookup` is a cheap stand-in for the symbol
grid's CNN on a laptop: every (cell, symbol) pair has its own vector, and a grid is their sum.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.errors import UserError
from attentiontuner.models.fused import sinusoids
from attentiontuner.models.images import BLOCK, blocks_of_weight, conv_relu, image_blocks, linear_of_map
from attentiontuner.observations import ObservationSpec

Embedder = Literal["paper", "lookup"]

SMALLEST_IMAGE = 36
"""Pixels a side that the three convolutions need."""


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
            if min(observation.shape[:2]) < SMALLEST_IMAGE:
                sides = " × ".join(map(str, observation.shape[:2]))
                raise UserError(
                    f"images of {sides} pixels are too small for the network: enlarge them to {SMALLEST_IMAGE} or more "
                    "a side in the task's wrap"
                )
            self.cnn = nn.Sequential(
                nn.Conv2d(observation.shape[2], 32, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, stride=2),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3),
                nn.ReLU(),
            )
        self.one_hot: Tensor
        if observation.kind == "grid":
            self.register_buffer("one_hot", one_hot_table(observation.symbols), persistent=False)
        with torch.no_grad():
            last_map = self.features(self.planes(torch.zeros(1, *observation.shape, dtype=torch.uint8)))
        self.channels, self.places = last_map.shape[1], last_map[0, 0].numel()
        self.fc = nn.Sequential(nn.Linear(last_map.numel(), d_model), nn.Tanh())

    def planes(self, observations: Tensor) -> Tensor:
        """Bytes `[U, W, H, C]` to what is convolved: one-hot symbols `[U, planes, W, H]`, or colours in [0, 1], in
        blocks `[U, 16·C, W/4, H/4]`."""
        dtype = next(self.cnn.parameters()).dtype
        if self.observation.kind == "image":
            return image_blocks(observations, dtype)
        cells = F.embedding(cell_kinds(observations, self.observation.symbols), self.one_hot.to(dtype))
        return cells.view(*observations.shape[:3], -1).permute(0, 3, 1, 2)

    def features(self, planes: Tensor) -> Tensor:
        """The last map `[U, channels, w, h]`."""
        for layer in self.cnn:
            if isinstance(layer, nn.Conv2d):
                weight, stride = layer.weight, layer.stride[0]
                if stride == BLOCK:  # pixels are in blocks of as many, so it moves block by block
                    weight, stride = blocks_of_weight(weight), 1
                assert layer.bias is not None
                planes = conv_relu(planes, weight, layer.bias, stride, int(layer.padding[0]))
        return planes

    def vector(self, features: Tensor) -> Tensor:
        """`[U, channels, w, h]` → `[U, D]`."""
        linear, tanh = self.fc
        assert isinstance(linear, nn.Linear)
        embedded: Tensor = tanh(linear_of_map(features, linear))
        return embedded

    def forward(self, observations: Tensor) -> Tensor:
        return self.vector(self.features(self.planes(observations)))


class LookupEmbedding(nn.Module):
    """A symbol grid to one vector by table look-up: the sum over its cells of a vector for (cell, symbols)."""

    def __init__(self, observation: ObservationSpec, d_model: int) -> None:
        super().__init__()
        self.symbols = observation.symbols
        self.kinds = math.prod(observation.symbols)
        cells = observation.shape[0] * observation.shape[1]
        self.table = nn.Embedding(cells * self.kinds, d_model)
        nn.init.normal_(self.table.weight, std=1 / math.sqrt(cells))
        self.first_of_cell: Tensor
        self.register_buffer("first_of_cell", torch.arange(cells) * self.kinds, persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        cells = cell_kinds(observations, self.symbols) + self.first_of_cell
        return torch.tanh(sum_of_rows(self.table.weight, cells))


class VectorEmbedding(nn.Module):
    """A flat vector to one vector through an MLP: `[U, features]` → `[U, D]`."""

    def __init__(self, observation: ObservationSpec, d_model: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(observation.shape[0], d_model), nn.ReLU(), nn.Linear(d_model, d_model), nn.Tanh()
        )

    def forward(self, observations: Tensor) -> Tensor:
        weight = next(self.mlp.parameters())
        embedded: Tensor = self.mlp(observations.to(weight.dtype))
        return embedded


class ActionEmbedding(nn.Module):
    """A discrete action to one vector: `[S]` → `[S, D]`."""

    def __init__(self, actions: int, d_model: int) -> None:
        super().__init__()
        self.actions = actions
        self.mlp = nn.Sequential(nn.Linear(actions, d_model), nn.Tanh())

    def forward(self, actions: Tensor) -> Tensor:
        weight = next(self.mlp.parameters())
        embedded: Tensor = self.mlp(F.one_hot(actions, self.actions).to(weight.dtype))
        return embedded


class PositionalEmbedding(nn.Module):
    """Sinusoidal positions in timesteps: o_t and a_t share position t. `[S]` → `[S, D]`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, time: Tensor) -> Tensor:
        return sinusoids(time, self.d_model)


def observation_embedding(observation: ObservationSpec, d_model: int, embedder: Embedder) -> nn.Module:
    """The embedder of this kind of observation."""
    if observation.kind == "vector":
        return VectorEmbedding(observation, d_model)
    if embedder == "lookup" and observation.kind == "grid":
        return LookupEmbedding(observation, d_model)
    return ImageEmbedding(observation, d_model)


def sum_of_rows(table: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """The (weighted) sum of rows of a table: `[N, D]`, `[U, K]` and `[U, K]` → `[U, D]`."""
    if not rows.is_cuda:
        return F.embedding_bag(rows, table, mode="sum", per_sample_weights=weights)
    # On a GPU the step is recorded, and the gradient of index_select is sure to allow that.
    chosen = table.index_select(0, rows.flatten()).view(*rows.shape, -1)
    return (chosen if weights is None else chosen * weights[..., None]).sum(1)


def one_hot_table(symbols: tuple[int, ...]) -> Tensor:
    """For each kind of cell (see `cell_kinds`) its one-hot symbols side by side: `[kinds, planes]`."""
    digits = torch.cartesian_prod(*(torch.arange(count) for count in symbols)).view(-1, len(symbols))
    return torch.cat([F.one_hot(digits[:, channel], count) for channel, count in enumerate(symbols)], -1).float()


def cell_kinds(observations: Tensor, symbols: tuple[int, ...]) -> Tensor:
    """Symbol grids `[U, W, H, C]` to one number per cell `[U, W·H]`: its symbols as digits, the first the highest."""
    kind = torch.zeros(observations.shape[:-1], dtype=torch.long, device=observations.device)
    for channel, count in enumerate(symbols):
        kind = kind * count + observations[..., channel].long()
    return kind.flatten(1)
