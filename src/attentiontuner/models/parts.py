"""Observations taken apart: parts, their symbols, and the kinds of cell that they make.

A batch has its observations as bytes `[U, nbytes]` (`spaces.ObservationSpec.encode`). Legend: U distinct observations,
K kinds in an observation, C channels.
"""

import math

import torch
from torch import Tensor, nn

from attentiontuner.spaces.observation import ObservationSpec, Part

MOST_COMBINATIONS = 4096
"""Up to so many combinations of a cell's symbols are told apart; beyond, each channel's symbols on their own."""


def split_parts(observations: Tensor, observation: ObservationSpec) -> list[Tensor]:
    """Bytes `[U, nbytes]` as those of each part in order; of one part they are what was given."""
    if len(observation.parts) == 1:
        return [observations]
    rows = observations.split([part.nbytes for _, part in observation.parts], 1)
    # Copied, because a number of four bytes cannot begin just anywhere.
    return [own.clone(memory_format=torch.contiguous_format) for own in rows]


def decode(encoded: Tensor, part: Part) -> Tensor:
    """One part's bytes `[U, nbytes]` as `[U, …]`: a view of them."""
    values = encoded.contiguous().view(torch.float32) if part.kind == "vector" else encoded
    return values.reshape(len(encoded), *part.shape)


def first_of_channel(symbols: tuple[int, ...]) -> Tensor:
    """The numbers of the channels' first symbols where the symbols of all channels are counted on: `[C]`."""
    counts = torch.tensor(symbols, dtype=torch.long)
    return counts.cumsum(0) - counts


class CellKinds(nn.Module):
    """What kind a symbol grid's cells are: `[U, W, H, C]` → `[U, K]`, numbers in `range(count)`.

    A kind is a combination of symbols, one of each channel, as digits of a number, the first the highest. Where these
    would be too many each channel's symbols are kinds of their own, and a cell is of C of them.

    Attributes:
        count: how many kinds there are.
        per_observation: K.
        features: how many (cell, kind) there are.
    """

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.symbols = part.symbols
        self.combined = math.prod(part.symbols) <= MOST_COMBINATIONS
        self.count = math.prod(part.symbols) if self.combined else sum(part.symbols)
        cells, of_a_cell = part.shape[0] * part.shape[1], 1 if self.combined else len(part.symbols)
        self.per_observation, self.features = cells * of_a_cell, cells * self.count
        self.first_of_channel: Tensor
        self.first_of_cell: Tensor
        self.register_buffer("first_of_channel", first_of_channel(part.symbols), persistent=False)
        first = (torch.arange(cells) * self.count).repeat_interleave(of_a_cell)
        self.register_buffer("first_of_cell", first, persistent=False)

    def forward(self, grids: Tensor) -> Tensor:
        if not self.combined:
            return (grids + self.first_of_channel).flatten(1)
        kind = torch.zeros(grids.shape[:-1], dtype=torch.long, device=grids.device)
        for channel, count in enumerate(self.symbols):
            kind = kind * count + grids[..., channel].long()
        return kind.flatten(1)

    def in_place(self, kinds: Tensor) -> Tensor:
        """Kinds `[U, K]` as numbers of (cell, kind) in `range(features)`."""
        return kinds + self.first_of_cell
