"""Observations that leave their cells in memory, for heads that meet a past observation cell by cell.

Legend: U distinct observations, D = d_model, h size of a head, M numbers an observation leaves in memory, Q queries,
P past observations, K kinds of cell in an observation. All classes turn bytes `[U, nbytes]` into vectors `[U, D]`,
memories `[U, M]` and the kinds of their cells `[U, K]`, standardise their input with the training set (`fit`), and
`match` queries with memories.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.models.embedders import (
    CellKinds,
    ImageEmbedding,
    VectorEmbedding,
    decode,
    split_parts,
    sum_of_rows,
)
from attentiontuner.models.kernels import BLOCK, image_blocks
from attentiontuner.models.network import Observed
from attentiontuner.spaces.observation import ObservationSpec, Part

FITTED = 20_000
"""The most images or vectors a mean is taken over, spread over the training set."""


class ObservationMemory(nn.Module, ABC):
    """What is common to the memories of all observations.

    Attributes:
        memory: M.
        kinds_in_view: K; 0 where cells have no kinds.
    """

    memory: int
    kinds_in_view: int

    def fit(self, observed: Observed, frames: int, rarity: bool = True) -> None:
        """Standardise with the training set, about `frames` observations; with `rarity` let rare kinds count more."""
        parts = self.each_part()
        statistics = [part.statistics(frames) for part in parts]
        for block, seen in observed:
            for own, encoded in zip(statistics, self.split(torch.from_numpy(block)), strict=True):
                own.add(encoded, seen)
        for part, own in zip(parts, statistics, strict=True):
            part.standardise(own, rarity)

    def each_part(self) -> "list[ObservationMemory]":
        """The memories of its parts."""
        return [self]

    def split(self, encoded: Tensor) -> list[Tensor]:
        """Bytes `[U, nbytes]` as those of each part."""
        return [encoded]

    def statistics(self, frames: int) -> Any:
        """Empty statistics for `standardise`; `add` takes bytes `[u, nbytes]` with how many steps saw each `[u]`."""
        raise TypeError(f"{type(self).__name__} is standardised part by part")

    def standardise(self, statistics: Any, rarity: bool) -> None:
        """What `fit` does with the statistics of the training set."""
        raise TypeError(f"{type(self).__name__} is standardised part by part")

    @abstractmethod
    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        """Log of Σ over the cells of exp(query · key): `[…, Q, h]`, `[…, P, M]` → `[…, Q, P]`."""


# --- symbol grids ----------------------------------------------------------------------------------------------------


class Frequencies:
    """How often each (cell, kind) occurs."""

    def __init__(self, part: Part, kinds: CellKinds) -> None:
        self.part, self.kinds = part, kinds
        self.count, self.steps = np.zeros(self.kinds.features), 0

    def add(self, encoded: Tensor, seen: NDArray[np.int64]) -> None:
        places = self.kinds.in_place(self.kinds(decode(encoded, self.part))).numpy()
        weights = np.repeat(seen, self.kinds.per_observation)
        self.count += np.bincount(places.ravel(), weights=weights, minlength=len(self.count))
        self.steps += int(seen.sum())


class GridCells(ObservationMemory):
    """A symbol grid: one-hot (cell, kind) features, standardised, through one layer. What it leaves in memory is how
    often each kind of cell occurs; a key belongs to a kind of cell, wherever it stands.

    A kind counts by how rare it is in the training set. Walls and floor are in every observation: counted as often as
    they occur, they drown the one object, and a query that has begun to match them may never find it."""

    def __init__(self, part: Part, d_model: int, head: int) -> None:
        super().__init__()
        self.part, self.kinds = part, CellKinds(part)
        self.memory, self.kinds_in_view = self.kinds.count, self.kinds.per_observation
        features = self.kinds.features
        self.weight = nn.Parameter(torch.randn(features, d_model) / math.sqrt(self.kinds_in_view))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.kind = nn.Embedding(self.kinds.count, 32)
        self.key = nn.Linear(32, head)
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.rarity: Tensor
        self.register_buffer("rarity", torch.ones(self.kinds.count))

    def statistics(self, frames: int) -> Frequencies:
        return Frequencies(self.part, self.kinds)

    def standardise(self, statistics: Frequencies, rarity: bool) -> None:
        """Standardise; rescale the first weights, so that vectors start at the same size; weigh kinds by rarity."""
        mean = statistics.count / statistics.steps
        deviation = np.sqrt(mean * (1 - mean).clip(0))
        scale = np.where(deviation > 1e-6, 1 / deviation.clip(0.05), 0)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        if rarity:
            often = mean.reshape(-1, self.kinds.count).sum(0)  # cells of each kind in an observation
            self.rarity.copy_(torch.from_numpy(np.where(often > 0, 1 / often.clip(0.02), 0)))
        spread = float((mean * (1 - mean) * scale**2).sum())
        with torch.no_grad():
            self.weight.mul_(math.sqrt(self.kinds_in_view) / math.sqrt(max(spread, 1.0)))

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and kinds `[U, K]`."""
        kinds = self.kinds(decode(encoded, self.part))
        feature = self.kinds.in_place(kinds)
        summed = sum_of_rows(self.weight, feature, self.scale[feature])
        counts = torch.zeros(len(kinds), self.kinds.count, device=kinds.device).scatter_add_(
            1, kinds, torch.ones_like(kinds, dtype=torch.float32)
        )
        vectors = torch.tanh(summed - (self.mean * self.scale) @ self.weight + self.bias)
        return vectors, counts * self.rarity, kinds

    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        scores = query @ self.key(self.kind.weight).T / math.sqrt(query.shape[-1])  # [..., Q, kinds]
        largest = scores.amax(-1, keepdim=True).detach()
        log_sum: Tensor = ((scores - largest).exp() @ memory.transpose(-1, -2)).clamp(min=1e-20).log()
        return torch.add(log_sum, largest)


# --- images and vectors ----------------------------------------------------------------------------------------------


class Moments:
    """Sums of every input and of its square, over about `FITTED` of `frames` observations; colours are in [0, 1]."""

    def __init__(self, part: Part, frames: int) -> None:
        self.part, self.every, self.first, self.steps = part, -(-frames // FITTED), 0, 0
        self.total, self.squares = np.zeros(part.shape), np.zeros(part.shape)

    def add(self, encoded: Tensor, seen: NDArray[np.int64]) -> None:
        some, weight = decode(encoded[self.first :: self.every], self.part).numpy(), seen[self.first :: self.every]
        values = some.astype(np.float64) / (255 if self.part.kind == "image" else 1)
        self.total += np.tensordot(weight, values, 1)
        self.squares += np.tensordot(weight, values**2, 1)
        self.steps += int(weight.sum())
        self.first = (self.first - len(encoded)) % self.every


class DenseCells(ObservationMemory):
    """Images and vectors. What they leave in memory is a key for each place of the CNN's last map, or for all of it."""

    def __init__(self, part: Part, d_model: int, head: int) -> None:
        super().__init__()
        self.part, self.size = part, head
        self.embedding: ImageEmbedding | VectorEmbedding
        if part.kind == "image":
            self.embedding = ImageEmbedding(part, d_model)
            places = self.embedding.places
            self.key = nn.Linear(self.embedding.channels, self.size)
        else:
            self.embedding = VectorEmbedding(part, d_model)
            places = 1
            self.key = nn.Linear(part.shape[0], self.size)
        self.memory, self.kinds_in_view = places * self.size, 0
        self.mean: Tensor
        self.scale: Tensor
        shape = part.shape if part.kind == "vector" else (part.shape[2], *part.shape[:2])
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(shape[:1]))

    def statistics(self, frames: int) -> Moments:
        return Moments(self.part, frames)

    def standardise(self, statistics: Moments, rarity: bool) -> None:
        """The mean of every input, and the deviation of each channel. Places have no kinds, so none is rare."""
        mean = statistics.total / statistics.steps
        variance = (statistics.squares / statistics.steps - mean**2).clip(0)
        if self.part.kind == "image":
            mean, variance = mean.transpose(2, 0, 1), variance.mean((0, 1))
        self.mean.copy_(torch.from_numpy(np.ascontiguousarray(mean)))
        deviation = np.sqrt(variance)
        self.scale.copy_(torch.from_numpy(np.where(deviation > 1e-6, 1 / deviation.clip(1e-3), 0)))

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and no kinds `[U, 0]`."""
        none = torch.zeros(len(encoded), 0, dtype=torch.long, device=encoded.device)
        if isinstance(self.embedding, ImageEmbedding):
            planes = self.embedding.planes(encoded)  # [U, 16·C, w, h]
            mean = image_blocks(self.mean.permute(1, 2, 0)[None], planes.dtype)
            features = self.embedding.features((planes - mean) * self.scale.repeat(BLOCK**2)[:, None, None])
            keys = self.key(features.flatten(2).transpose(1, 2))  # [U, places, h]
            return self.embedding.vector(features), keys.flatten(1), none
        inputs = (decode(encoded, self.part) - self.mean) * self.scale
        return self.embedding.vector(inputs), self.key(inputs), none

    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        keys = memory.reshape(*memory.shape[:-2], -1, self.size)  # [..., P · places, h]
        scores = query @ keys.transpose(-1, -2) / math.sqrt(self.size)
        return scores.view(*scores.shape[:-1], memory.shape[-2], -1).logsumexp(-1)


# --- whole observations ----------------------------------------------------------------------------------------------


class PartsMemory(ObservationMemory):
    """Several parts: their vectors through one layer, their memories and kinds side by side. A query meets the cells of
    all of them."""

    def __init__(self, observation: ObservationSpec, d_model: int, head: int) -> None:
        super().__init__()
        self.observation = observation
        self.parts = nn.ModuleList(part_memory(part, d_model, head) for _, part in observation.parts)
        self.joined = nn.Linear(len(self.parts) * d_model, d_model)
        self.sizes = [part.memory for part in self.each_part()]
        self.memory, self.kinds_in_view = sum(self.sizes), sum(part.kinds_in_view for part in self.each_part())

    def each_part(self) -> list[ObservationMemory]:
        return [part for part in self.parts if isinstance(part, ObservationMemory)]

    def split(self, encoded: Tensor) -> list[Tensor]:
        return split_parts(encoded, self.observation)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and kinds `[U, K]`, which are places of a memory."""
        parts = zip(self.parts, self.split(observations), strict=True)
        vectors, memories, kinds = zip(*(part(own) for part, own in parts), strict=True)
        places = [own + sum(self.sizes[:number]) for number, own in enumerate(kinds)]
        return self.joined(torch.cat(vectors, -1)), torch.cat(memories, -1), torch.cat(places, -1)

    def match(self, query: Tensor, memory: Tensor) -> Tensor:
        parts = zip(self.each_part(), memory.split(self.sizes, -1), strict=True)
        return torch.stack([part.match(query, own) for part, own in parts]).logsumexp(0)


def observation_memory(observation: ObservationSpec, d_model: int, head: int) -> ObservationMemory:
    """The memory of these observations."""
    if len(observation.parts) > 1:
        return PartsMemory(observation, d_model, head)
    return part_memory(observation.parts[0][1], d_model, head)


def part_memory(part: Part, d_model: int, head: int) -> ObservationMemory:
    """The memory of this kind of part."""
    return (GridCells if part.kind == "grid" else DenseCells)(part, d_model, head)
