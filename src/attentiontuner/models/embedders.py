"""Observations and positions to vectors. Legend: U distinct observations, D = d_model.

Each part of an observation has an encoder of its own, and of several parts one layer makes one vector. The paper's two
CNNs differ between the benchmarks; images that are too small or too large for them get a small residual network,
vectors a small MLP. `lookup` is a cheap stand-in for the symbol grid's CNN on a laptop: every (cell, symbol) pair has
its own vector, and a grid is their sum. An encoder of one's own takes the place of any of them (`spaces.encoders`).
"""

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.models.kernels import (
    BLOCK,
    blocks_of_weight,
    conv_relu,
    image_blocks,
    linear,
    linear_of_map,
    sinusoids,
)
from attentiontuner.models.network import Observed
from attentiontuner.models.own_encoders import own_encoder
from attentiontuner.models.parts import CellKinds, decode, first_of_channel, split_parts
from attentiontuner.models.sizes import SMALLEST_IMAGE, Embedder, Images, images_for
from attentiontuner.models.standard import Moments, Standard
from attentiontuner.spaces.observation import ObservationSpec, Part

LARGEST_MAP = 8
"""Places a side of the last map of the residual network, at most."""

FIRST_CHANNELS = 32
"""Channels of an image after the first convolution."""


# --- encoders of one part --------------------------------------------------------------------------------------------


class ImageEmbedding(nn.Module):
    """An image or a symbol grid to one vector through the paper's convolutions: bytes `[U, nbytes]` → `[U, D]`."""

    def __init__(self, part: Part, d_model: int) -> None:
        super().__init__()
        self.part = part
        if part.kind == "grid":
            self.cnn = nn.Sequential(
                nn.Conv2d(sum(part.symbols), 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 80, 3, padding=1), nn.ReLU()
            )
        else:
            if min(part.shape[:2]) < SMALLEST_IMAGE:
                sides = " × ".join(map(str, part.shape[:2]))
                raise UserError(
                    f"images of {sides} pixels are too small for the paper's convolutions, which need {SMALLEST_IMAGE} "
                    "a side: leave out images=paper"
                )
            self.cnn = nn.Sequential(
                nn.Conv2d(part.shape[2], FIRST_CHANNELS, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(FIRST_CHANNELS, 64, 4, stride=2),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3),
                nn.ReLU(),
            )
        self.first_of_channel: Tensor
        self.register_buffer("first_of_channel", first_of_channel(part.symbols), persistent=False)
        with torch.no_grad():
            last_map = self.features(self.planes(torch.zeros(1, part.nbytes, dtype=torch.uint8)))
        self.channels, self.places, self.map_shape = last_map.shape[1], last_map[0, 0].numel(), last_map.shape[2:]
        self.fc = nn.Sequential(nn.Linear(last_map.numel(), d_model), nn.Tanh())

    def planes(self, encoded: Tensor) -> Tensor:
        """Bytes `[U, nbytes]` to what is convolved: one-hot symbols `[U, planes, W, H]`, or colours in [0, 1], in
        blocks `[U, 16·C, W/4, H/4]`."""
        dtype = next(self.cnn.parameters()).dtype
        values = decode(encoded, self.part)
        if self.part.kind == "image":
            return image_blocks(values, dtype)
        one_hot = torch.zeros(*values.shape[:3], sum(self.part.symbols), dtype=dtype, device=values.device)
        return one_hot.scatter_(-1, values + self.first_of_channel, 1).permute(0, 3, 1, 2)

    def standardised(self, encoded: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """The planes of images less a mean `[C, W, H]`, times a scale for each colour `[C]`."""
        planes = self.planes(encoded)
        return (planes - image_blocks(mean.permute(1, 2, 0)[None], planes.dtype)) * scale.repeat(BLOCK**2)[
            :, None, None
        ]

    def maps(self, planes: Tensor) -> list[Tensor]:
        """The map after each convolution, the last `[U, channels, w, h]`."""
        maps = []
        for layer in self.cnn:
            if isinstance(layer, nn.Conv2d):
                weight, stride = layer.weight, layer.stride[0]
                if stride == BLOCK:  # pixels are in blocks of as many, so it moves block by block
                    weight, stride = blocks_of_weight(weight), 1
                assert layer.bias is not None
                planes = conv_relu(planes, weight, layer.bias, stride, int(layer.padding[0]))
                maps.append(planes)
        return maps

    def features(self, planes: Tensor) -> Tensor:
        """The last map `[U, channels, w, h]`."""
        return self.maps(planes)[-1]

    def vector(self, features: Tensor) -> Tensor:
        """`[U, channels, w, h]` → `[U, D]`."""
        layer, tanh = self.fc
        assert isinstance(layer, nn.Linear)
        embedded: Tensor = tanh(linear_of_map(features, layer))
        return embedded

    def forward(self, encoded: Tensor) -> Tensor:
        return self.vector(self.features(self.planes(encoded)))


class ResidualBlock(nn.Module):
    """Two convolutions, added to their input: `[U, c, w, h]` → `[U, channels, w / stride, h / stride]`."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(inputs, channels, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        normal = F.relu(self.norm1(maps))
        added: Tensor = self.skip(normal) + self.conv2(F.relu(self.norm2(self.conv1(normal))))
        return added


class ResidualEmbedding(nn.Module):
    """An image of any size to one vector: bytes `[U, nbytes]` → `[U, D]`.

    A convolution whose stride grows with the image, then residual blocks with group norm that halve the map until it
    has at most 8 places a side, so that the layer after it, and what recall heads keep of an image, is never large.
    """

    channels = 64

    def __init__(self, part: Part, d_model: int) -> None:
        super().__init__()
        self.part = part
        stride = 4 if max(part.shape[:2]) > 64 else 2 if max(part.shape[:2]) > 16 else 1
        self.stem = nn.Conv2d(part.shape[2], FIRST_CHANNELS, 2 * stride + 1, stride, padding=stride)
        first_map = max(-(-side // stride) for side in part.shape[:2])
        halvings = max(0, math.ceil(math.log2(first_map / LARGEST_MAP)))
        widths = [FIRST_CHANNELS, *[self.channels] * max(1, halvings)]
        self.blocks = nn.Sequential(*(ResidualBlock(*two, 2 if halvings else 1) for two in pairwise(widths)))
        self.norm = nn.GroupNorm(8, self.channels)
        with torch.no_grad():
            last_map = self.maps(self.planes(torch.zeros(1, part.nbytes, dtype=torch.uint8)))[-1]
        self.places, self.map_shape = last_map[0, 0].numel(), last_map.shape[2:]
        self.fc = nn.Sequential(nn.Linear(last_map.numel(), d_model), nn.Tanh())

    def planes(self, encoded: Tensor) -> Tensor:
        """Bytes `[U, nbytes]` to colours in [0, 1], `[U, C, W, H]`."""
        return decode(encoded, self.part).permute(0, 3, 1, 2).to(self.stem.weight.dtype) / 255

    def standardised(self, encoded: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """The planes less a mean `[C, W, H]`, times a scale for each colour `[C]`."""
        return (self.planes(encoded) - mean) * scale[:, None, None]

    def maps(self, planes: Tensor) -> list[Tensor]:
        """The map after the first convolution, and the last `[U, channels, w, h]`."""
        first = F.relu(self.stem(planes))
        return [first, F.relu(self.norm(self.blocks(first)))]

    def vector(self, features: Tensor) -> Tensor:
        """`[U, channels, w, h]` → `[U, D]`."""
        embedded: Tensor = self.fc(features.flatten(1))
        return embedded

    def forward(self, encoded: Tensor) -> Tensor:
        return self.vector(self.maps(self.planes(encoded))[-1])


def image_embedding(part: Part, d_model: int, images: Images) -> "ImageEmbedding | ResidualEmbedding":
    """The encoder of an image."""
    return ResidualEmbedding(part, d_model) if images == "residual" else ImageEmbedding(part, d_model)


class LookupEmbedding(nn.Module):
    """A symbol grid to one vector by table look-up, the sum over its cells of a vector for (cell, symbols): bytes
    `[U, nbytes]` → `[U, D]`."""

    def __init__(self, part: Part, d_model: int) -> None:
        super().__init__()
        self.part, self.kinds = part, CellKinds(part)
        self.table = nn.Embedding(self.kinds.features, d_model)
        nn.init.normal_(self.table.weight, std=1 / math.sqrt(self.kinds.per_observation))

    def forward(self, encoded: Tensor) -> Tensor:
        kinds = self.kinds(decode(encoded, self.part))
        return torch.tanh(sum_of_rows(self.table.weight, self.kinds.in_place(kinds)))


class VectorEmbedding(nn.Module):
    """A flat vector to one vector through an MLP: bytes `[U, nbytes]` → `[U, D]`. Where it is `standard` its numbers
    are first put on the scale of the training set (`fit_vectors`)."""

    def __init__(self, part: Part, d_model: int, standard: bool = False) -> None:
        super().__init__()
        self.part = part
        self.standard = Standard(part.shape[0]) if standard else None
        self.mlp = nn.Sequential(nn.Linear(part.shape[0], d_model), nn.ReLU(), nn.Linear(d_model, d_model), nn.Tanh())

    def vector(self, values: Tensor) -> Tensor:
        """`[U, features]` → `[U, D]`."""
        values = values if self.standard is None else self.standard(values)
        embedded: Tensor = self.mlp(values.to(next(self.mlp.parameters()).dtype))
        return embedded

    def forward(self, encoded: Tensor) -> Tensor:
        return self.vector(decode(encoded, self.part))


class OwnEmbedding(nn.Module):
    """A part through an encoder of one's own, and its features, normalised, through one layer: bytes `[U, nbytes]` →
    `[U, D]`."""

    def __init__(self, part: Part, d_model: int, name: str) -> None:
        super().__init__()
        self.part, two = part, decode(torch.zeros(2, part.nbytes, dtype=torch.uint8), part)
        if part.kind != "grid":
            two[1:] += 1
        self.own, (self.places, self.channels) = own_encoder(name, part, two)
        self.norm = nn.LayerNorm(self.channels)
        self.fc = nn.Sequential(nn.Linear(self.places * self.channels, d_model), nn.Tanh())

    def cells(self, encoded: Tensor) -> Tensor:
        """Bytes `[U, nbytes]` → normalised features `[U, places, channels]`."""
        normal: Tensor = self.norm(self.own(decode(encoded, self.part)).to(self.norm.weight.dtype))
        return normal

    def forward(self, encoded: Tensor) -> Tensor:
        embedded: Tensor = self.fc(self.cells(encoded).flatten(1))
        return embedded


# --- whole observations ----------------------------------------------------------------------------------------------


class PartsEmbedding(nn.Module):
    """Several parts to one vector, each through its encoder and all through one layer: `[U, nbytes]` → `[U, D]`."""

    def __init__(self, observation: ObservationSpec, d_model: int, parts: list[nn.Module]) -> None:
        super().__init__()
        self.observation = observation
        self.parts = nn.ModuleList(parts)
        self.joined = nn.Linear(len(self.parts) * d_model, d_model)

    def forward(self, observations: Tensor) -> Tensor:
        rows = split_parts(observations, self.observation)
        vectors = torch.cat([part(own) for part, own in zip(self.parts, rows, strict=True)], -1)
        return linear(vectors, self.joined.weight, self.joined.bias)


def observation_embedding(
    observation: ObservationSpec,
    d_model: int,
    embedder: Embedder,
    images: Images | None = None,
    *,
    encoders: Mapping[str, str] | None = None,
    standard: bool = False,
) -> nn.Module:
    """The embedder of these observations: bytes `[U, nbytes]` → `[U, D]`.

    Args:
        images: the encoder of images; None: what fits them.
        encoders: encoders of one's own by part (`spaces.encoders`).
        standard: vectors are put on the scale of the training set: the network calls `fit_vectors`.
    """
    images, own = images or images_for(observation), encoders or {}
    parts = [
        OwnEmbedding(part, d_model, own[name])
        if name in own
        else part_embedding(part, d_model, embedder, images, standard)
        for name, part in observation.parts
    ]
    return parts[0] if len(parts) == 1 else PartsEmbedding(observation, d_model, parts)


def part_embedding(part: Part, d_model: int, embedder: Embedder, images: Images, standard: bool) -> nn.Module:
    """The encoder of this kind of part."""
    if part.kind == "vector":
        return VectorEmbedding(part, d_model, standard)
    if part.kind == "image":
        return image_embedding(part, d_model, images)
    return LookupEmbedding(part, d_model) if embedder == "lookup" else ImageEmbedding(part, d_model)


def fit_vectors(embedding: nn.Module, observation: ObservationSpec, observed: Observed, frames: int) -> None:
    """Put vectors on the scale of the training set; see `Network.fit`."""
    parts = list(embedding.parts) if isinstance(embedding, PartsEmbedding) else [embedding]
    moments = [Moments(part, frames) for _, part in observation.parts]
    vectors = [isinstance(module, VectorEmbedding) and module.standard is not None for module in parts]
    for block, seen in observed:
        for own, rows, wanted in zip(moments, split_parts(torch.from_numpy(block), observation), vectors, strict=True):
            if wanted:
                own.add(decode(rows, own.part), seen)
    for module, own in zip(parts, moments, strict=True):
        if isinstance(module, VectorEmbedding) and module.standard is not None:
            module.standard.fit(own)


def sum_of_rows(table: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """The (weighted) sum of rows of a table: `[N, D]`, `[U, K]` and `[U, K]` → `[U, D]`."""
    if not rows.is_cuda:
        return F.embedding_bag(rows, table, mode="sum", per_sample_weights=weights)
    # On a GPU the step is recorded, and the gradient of index_select is sure to allow that.
    chosen = table.index_select(0, rows.flatten()).view(*rows.shape, -1)
    return (chosen if weights is None else chosen * weights[..., None]).sum(1)


# --- positions -------------------------------------------------------------------------------------------------------


class PositionalEmbedding(nn.Module):
    """Sinusoidal positions in timesteps: o_t and a_t share position t. `[S]` → `[S, D]`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, time: Tensor) -> Tensor:
        return sinusoids(time, self.d_model)
