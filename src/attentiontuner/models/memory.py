"""Observations that leave their cells in memory, for heads that meet a past observation cell by cell.

Legend: U distinct observations, D = d_model, h size of a head, M numbers an observation leaves in memory, Q queries,
P past observations, K kinds of cell in an observation, L looks. All classes turn bytes `[U, nbytes]` into vectors
`[U, D]`, memories `[U, M]` and the kinds of their cells `[U, K]`, standardise their input with the training set
(`fit`), and `match` queries with memories.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.models.embedders import (
    FIRST_CHANNELS,
    OwnEmbedding,
    VectorEmbedding,
    image_embedding,
    sum_of_rows,
)
from attentiontuner.models.network import Observed
from attentiontuner.models.parts import CellKinds, decode, split_parts
from attentiontuner.models.sizes import Images
from attentiontuner.models.standard import Moments, scale_of
from attentiontuner.spaces.observation import ObservationSpec, Part

TINY = 1e-20

LITTLE = 0.02
"""An amount that is as good as nothing: a mean over so little is near 0."""

SEVERAL = 4.0
"""What a sum of vectors is divided by, to be of the size of one."""

ALIKE = 2.0
"""By how much a kind that is in view is asked for at first."""


@dataclass(frozen=True)
class MemoryOptions:
    """Sizes of a memory, and what it can do; see `models.sizes.RecallConfig`. `head` is h."""

    d_model: int
    head: int
    bounded: bool
    alike: bool
    points: int
    looks: int
    dropped_cells: float
    images: Images
    beside: bool
    products: bool


class ObservationMemory(nn.Module, ABC):
    """What is common to the memories of all observations.

    Attributes:
        memory: M.
        kinds_in_view: K; 0 where cells have no kinds.
        cells: numbers that `match` holds for each query and past observation.
    """

    memory: int
    kinds_in_view: int
    cells: int = 1

    def fit(self, observed: Observed, frames: int) -> None:
        """Standardise with the training set, about `frames` observations."""
        parts = self.each_part()
        statistics = [part.statistics(frames) for part in parts]
        for block, seen in observed:
            for own, encoded in zip(statistics, self.split(torch.from_numpy(block)), strict=True):
                if own is not None:
                    own.add(decode(encoded, own.part), seen)
        for part, own in zip(parts, statistics, strict=True):
            if own is not None:
                part.standardise(own)

    def clear_unused(self) -> None:
        """Set to zero what the weights of a part hold for things the training set never had."""

    def each_part(self) -> "list[ObservationMemory]":
        """The memories of its parts."""
        return [self]

    def split(self, encoded: Tensor) -> list[Tensor]:
        """Bytes `[U, nbytes]` as those of each part."""
        return [encoded]

    def statistics(self, frames: int) -> Any:
        """Empty statistics for `standardise`, whose `add` takes values `[u, …]` with how many steps saw each `[u]`;
        None where nothing is standardised."""
        raise TypeError(f"{type(self).__name__} is standardised part by part")

    def standardise(self, statistics: Any) -> None:
        """What `fit` does with the statistics of the training set."""
        raise TypeError(f"{type(self).__name__} is standardised part by part")

    @abstractmethod
    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        """Log of how much of what is asked for each past observation holds: queries `[…, Q, h]`, the memory of the past
        `[…, P, M]`, what those who ask leave in memory themselves `[…, Q, M]`, and what scores start at `[]` →
        `[…, Q, P]`. Bounded, a cell counts at most once: Σ over cells of σ(start + query · key); else Σ of exp."""

    def lay(self, amounts: Tensor, mass: Tensor, memory: Tensor, own: Tensor) -> Tensor | float:
        """The recalled observations laid over the one in view, as a vector: how much of each is recalled `[…, Q, P]`,
        the sums of that `[…, Q]`, and memories as above → `[…, Q, D]`."""
        return 0.0


# --- symbol grids ----------------------------------------------------------------------------------------------------


class Frequencies:
    """How often each (cell, kind) occurs in grids `[u, W, H, C]`."""

    def __init__(self, part: Part, kinds: CellKinds) -> None:
        self.part, self.kinds = part, kinds
        self.count, self.steps = np.zeros(self.kinds.features), 0

    def add(self, grids: Tensor, seen: NDArray[np.int64]) -> None:
        places = self.kinds.in_place(self.kinds(grids)).numpy()
        weights = np.repeat(seen, self.kinds.per_observation)
        self.count += np.bincount(places.ravel(), weights=weights, minlength=len(self.count))
        self.steps += int(seen.sum())


class GridCells(ObservationMemory):
    """A symbol grid: one-hot (cell, kind) features, standardised, through one layer. What it leaves in memory is how
    often each kind of cell occurs; a key belongs to a kind of cell, wherever it stands.

    A kind counts by how rare it is in the training set. Walls and floor are in every observation: counted as often as
    they occur, they drown the one object, and a query that has begun to match them may never find it."""

    def __init__(self, part: Part, options: MemoryOptions) -> None:
        super().__init__()
        self.part, self.kinds = part, CellKinds(part)
        self.bounded, self.dropped = options.bounded, options.dropped_cells
        self.memory, self.kinds_in_view = self.kinds.count, self.kinds.per_observation
        features = self.kinds.features
        self.weight = nn.Parameter(torch.randn(features, options.d_model) / math.sqrt(self.kinds_in_view))
        self.bias = nn.Parameter(torch.zeros(options.d_model))
        self.kind = nn.Embedding(self.kinds.count, 32)
        self.key = nn.Linear(32, options.head)
        self.alike = nn.Parameter(torch.tensor(ALIKE)) if options.alike else None
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.rarity: Tensor
        self.register_buffer("rarity", torch.ones(self.kinds.count))

    def statistics(self, frames: int) -> Frequencies:
        return Frequencies(self.part, self.kinds)

    def standardise(self, statistics: Frequencies) -> None:
        """Standardise; rescale the first weights, so that vectors start at the same size; weigh kinds by rarity."""
        mean = statistics.count / statistics.steps
        deviation = np.sqrt(mean * (1 - mean).clip(0))
        scale = np.where(deviation > 1e-6, 1 / deviation.clip(0.05), 0)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        often = mean.reshape(-1, self.kinds.count).sum(0)  # cells of each kind in an observation
        self.rarity.copy_(torch.from_numpy(np.where(often > 0, 1 / often.clip(0.02), 0)))
        spread = float((mean * (1 - mean) * scale**2).sum())
        with torch.no_grad():
            self.weight.mul_(math.sqrt(self.kinds_in_view) / math.sqrt(max(spread, 1.0)))

    @torch.no_grad()
    def clear_unused(self) -> None:
        self.weight[self.scale == 0] = 0

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and kinds `[U, K]`."""
        kinds = self.kinds(decode(encoded, self.part))
        feature = self.kinds.in_place(kinds)
        summed = sum_of_rows(self.weight, feature, F.dropout(self.scale[feature], self.dropped, self.training))
        counts = torch.zeros(len(kinds), self.kinds.count, device=kinds.device).scatter_add_(
            1, kinds, torch.ones_like(kinds, dtype=torch.float32)
        )
        vectors = torch.tanh(summed - (self.mean * self.scale) @ self.weight + self.bias)
        return vectors, counts * ((self.rarity > 0) if self.bounded else self.rarity), kinds

    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        scores = query @ self.key(self.kind.weight).T / math.sqrt(query.shape[-1])  # [..., Q, kinds]
        if self.alike is not None:
            scores = scores + self.alike * (own > 0)
        if self.bounded:
            asked = torch.sigmoid(scores + start + self.rarity.clamp(min=TINY).log())
            return (asked @ memory.transpose(-1, -2)).clamp(min=TINY).log()
        largest = scores.amax(-1, keepdim=True).detach()
        log_sum: Tensor = ((scores - largest).exp() @ memory.transpose(-1, -2)).clamp(min=TINY).log()
        return torch.add(log_sum, largest) + start


# --- images and vectors ----------------------------------------------------------------------------------------------


class DenseCells(ObservationMemory):
    """What images and vectors have in common: what they leave in memory are keys, one for each place."""

    part: Part
    mean: Tensor
    scale: Tensor

    def __init__(self, part: Part, options: MemoryOptions) -> None:
        super().__init__()
        self.part, self.size, self.bounded = part, options.head, options.bounded
        self.kinds_in_view = 0

    def statistics(self, frames: int) -> Moments | None:
        return Moments(self.part, frames)

    def standardise(self, statistics: Moments) -> None:
        """The mean of every input, and the deviation of each channel. Places have no kinds, so none is rare."""
        mean, variance = statistics.mean(), statistics.variance()
        if self.part.kind == "image":
            mean, variance = mean.transpose(2, 0, 1), variance.mean((0, 1))
        self.mean.copy_(torch.from_numpy(np.ascontiguousarray(mean)))
        self.scale.copy_(scale_of(variance))

    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        keys = memory.reshape(*memory.shape[:-2], -1, self.size)  # [..., P · places, h]
        scores = query @ keys.transpose(-1, -2) / math.sqrt(self.size)
        if self.bounded:
            scores = F.logsigmoid(scores + start)
        matched = scores.view(*scores.shape[:-1], memory.shape[-2], -1).logsumexp(-1)
        return matched if self.bounded else matched + start


class VectorCells(DenseCells):
    """A flat vector: one key for all of it, and beside it the vector itself.

    What is recalled is a vector again: the one in view, the sum of those recalled, their mean and their mean by how
    much came before go through two layers, so that how far it is from here to there, and how often something was there,
    can be read off as exactly as it was seen.

    And what is recalled looks things up in what is in view: numbers made of the one are multiplied by numbers made of
    the other. So "where is the thing of that colour now?" is one product for a colour, and need not be learned anew for
    every arrangement of the others.
    """

    def __init__(self, part: Part, options: MemoryOptions) -> None:
        super().__init__(part, options)
        self.embedding = VectorEmbedding(part, options.d_model)
        self.key = nn.Linear(part.shape[0], self.size)
        self.beside, self.products = options.beside, options.products
        self.memory = self.size + (part.shape[0] if self.beside else 0)
        width, numbers = options.d_model, part.shape[0]
        if self.beside:
            self.laid = nn.Sequential(nn.Linear(4 * numbers, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        if self.products:
            self.asked, self.shown = nn.Linear(3 * numbers, 2 * width), nn.Linear(numbers, 2 * width)
            self.looked_up = nn.Linear(2 * width, width)
        self.register_buffer("mean", torch.zeros(part.shape))
        self.register_buffer("scale", torch.ones(part.shape[:1]))

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and no kinds `[U, 0]`."""
        inputs = (decode(encoded, self.part) - self.mean) * self.scale
        memory = torch.cat([self.key(inputs), inputs], 1) if self.beside else self.key(inputs)
        return self.embedding.vector(inputs), memory, no_kinds(encoded)

    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        return super().match(query, memory[..., : self.size], own, start)

    def lay(self, amounts: Tensor, mass: Tensor, memory: Tensor, own: Tensor) -> Tensor | float:
        if not self.beside:
            return 0.0
        vectors, in_view = memory[..., self.size :], own[..., self.size :]
        share = amounts / mass[..., None].clamp(min=1)
        mean, before = share @ vectors, (share * came_before(amounts, mass)) @ vectors
        recalled = torch.cat([amounts @ vectors / SEVERAL, mean, before], -1)
        laid: Tensor = self.laid(torch.cat([in_view, recalled], -1))
        if self.products:
            laid = laid + self.looked_up(self.asked(recalled) * self.shown(in_view))
        return laid


class OwnCells(DenseCells):
    """A part with an encoder of one's own: a key for each place of what that makes of it."""

    def __init__(self, part: Part, options: MemoryOptions, name: str) -> None:
        super().__init__(part, options)
        self.embedding = OwnEmbedding(part, options.d_model, name)
        self.key = nn.Linear(self.embedding.channels, self.size)
        self.cells = self.embedding.places
        self.memory = self.cells * self.size

    def statistics(self, frames: int) -> None:
        return None

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and no kinds `[U, 0]`."""
        cells = self.embedding.cells(encoded)
        return self.embedding.fc(cells.flatten(1)), self.key(cells).flatten(1), no_kinds(encoded)


class ImageCells(DenseCells):
    """An image: a key for each place of the CNN's last map, and beside them a map of `looks` channels.

    Its vector is told where the points are that the network has learned to find: for each the mean place under a map of
    weights, as coordinates from -1 to 1, and the largest weight. So how far apart two things are can be read off, and
    a sum of steps tells where one has got to.

    A map of looks has a say in what is recalled: the map in view, through two convolutions, asks for looks place by
    place, such as somebody next to where I am. And what is recalled is looked at as an image again: the map in view,
    the mean of those recalled and their mean by how much came before, through two convolutions. What such layers find
    in one place they know in all.
    """

    def __init__(self, part: Part, options: MemoryOptions) -> None:
        super().__init__(part, options)
        self.embedding = image_embedding(part, options.d_model, options.images)
        self.key = nn.Linear(self.embedding.channels, self.size)
        self.register_buffer("mean", torch.zeros(part.shape[2], *part.shape[:2]))
        self.register_buffer("scale", torch.ones(part.shape[2]))
        self.cells = self.embedding.places
        self.keys = self.cells * self.size
        self.points, self.looks = options.points, options.looks
        self.memory = self.keys + self.embedding.places * self.looks
        if self.points:
            self.point = nn.Conv2d(FIRST_CHANNELS, self.points, 1)
            self.pointed = nn.Linear(3 * self.points, options.d_model)
        if self.looks:
            self.look = nn.Linear(self.embedding.channels, self.looks)
            self.ask = nn.Sequential(
                nn.Conv2d(self.looks, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, self.looks, 3, padding=1)
            )
            for parameter in self.ask[-1].parameters():
                nn.init.zeros_(parameter)
            self.over = nn.Sequential(
                nn.Conv2d(3 * self.looks, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 3, padding=1), nn.ReLU()
            )
            self.laid = nn.Linear(16 * self.embedding.places, options.d_model)

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes `[U, nbytes]` → vectors `[U, D]`, memory `[U, M]` and no kinds `[U, 0]`."""
        first, *_, last = self.embedding.maps(self.embedding.standardised(encoded, self.mean, self.scale))
        vectors, places = self.embedding.vector(last), last.flatten(2).transpose(1, 2)  # [U, D], [U, places, channels]
        memory = [self.key(places).flatten(1)]
        if self.points:
            vectors = vectors + self.pointed(places_of(self.point(first)))
        if self.looks:
            memory.append(self.look(places).tanh().transpose(1, 2).flatten(1))
        return vectors, torch.cat(memory, 1), no_kinds(encoded)

    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        scores = super().match(query, memory[..., : self.keys], own, start)
        if not self.looks:
            return scores
        looks, in_view = memory[..., self.keys :], own[..., self.keys :]
        asked: Tensor = self.ask(self._map(in_view)).reshape(in_view.shape)
        return scores + asked @ looks.transpose(-1, -2) / math.sqrt(self.looks)

    def lay(self, amounts: Tensor, mass: Tensor, memory: Tensor, own: Tensor) -> Tensor | float:
        if not self.looks:
            return 0.0
        looks, in_view = memory[..., self.keys :], own[..., self.keys :]
        share = amounts / mass[..., None].clamp(min=1)
        shown = torch.cat([in_view, share @ looks, (share * came_before(amounts, mass)) @ looks], -1)
        laid: Tensor = self.laid(self.over(self._map(shown)).flatten(1))
        return laid.view(*own.shape[:-1], -1)

    def _map(self, looks: Tensor) -> Tensor:
        """Looks `[…, c·places]` as maps `[N, c, w, h]`."""
        return looks.reshape(-1, looks.shape[-1] // self.embedding.places, *self.embedding.map_shape)


def places_of(maps: Tensor) -> Tensor:
    """Where each map is highest: `[U, n, w, h]` → mean places under its softmax, from -1 to 1, and the largest weight,
    `[U, 3·n]`."""
    weights = maps.flatten(2).softmax(-1).view(maps.shape)
    x, y = (torch.linspace(-1, 1, size, device=maps.device, dtype=maps.dtype) for size in maps.shape[2:])
    return torch.cat([weights.sum(3) @ x, weights.sum(2) @ y, weights.flatten(2).amax(-1)], 1)


def came_before(amounts: Tensor, mass: Tensor) -> Tensor:
    """Which share of all that is recalled, `[…]`, came before each step: `[…, P]` → `[…, P]`."""
    return (amounts.cumsum(-1) - amounts) / (mass[..., None] + LITTLE)


def no_kinds(encoded: Tensor) -> Tensor:
    """`[U, 0]`"""
    return torch.zeros(len(encoded), 0, dtype=torch.long, device=encoded.device)


# --- whole observations ----------------------------------------------------------------------------------------------


class PartsMemory(ObservationMemory):
    """Several parts: their vectors through one layer, their memories and kinds side by side. A query meets the cells of
    all of them."""

    def __init__(
        self, observation: ObservationSpec, options: MemoryOptions, parts: Sequence[ObservationMemory]
    ) -> None:
        super().__init__()
        self.observation = observation
        self.parts = nn.ModuleList(parts)
        self.joined = nn.Linear(len(self.parts) * options.d_model, options.d_model)
        self.sizes = [part.memory for part in self.each_part()]
        self.memory, self.kinds_in_view = sum(self.sizes), sum(part.kinds_in_view for part in self.each_part())
        self.cells = sum(part.cells for part in self.each_part())

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

    def match(self, query: Tensor, memory: Tensor, own: Tensor, start: Tensor) -> Tensor:
        parts = zip(self.each_part(), memory.split(self.sizes, -1), own.split(self.sizes, -1), strict=True)
        return torch.stack([part.match(query, past, mine, start) for part, past, mine in parts]).logsumexp(0)

    def lay(self, amounts: Tensor, mass: Tensor, memory: Tensor, own: Tensor) -> Tensor | float:
        parts = zip(self.each_part(), memory.split(self.sizes, -1), own.split(self.sizes, -1), strict=True)
        laid: Tensor | float = 0.0
        for part, past, mine in parts:
            laid = laid + part.lay(amounts, mass, past, mine)
        return laid


MEMORIES: dict[str, type[GridCells | ImageCells | VectorCells]] = {
    "grid": GridCells,
    "image": ImageCells,
    "vector": VectorCells,
}


def observation_memory(
    observation: ObservationSpec, options: MemoryOptions, encoders: Mapping[str, str] | None = None
) -> ObservationMemory:
    """The memory of these observations; `encoders` are those of one's own by part (`spaces.encoders`)."""
    own = encoders or {}
    parts = [
        OwnCells(part, options, own[name]) if name in own else MEMORIES[part.kind](part, options)
        for name, part in observation.parts
    ]
    return parts[0] if len(parts) == 1 else PartsMemory(observation, options, parts)
