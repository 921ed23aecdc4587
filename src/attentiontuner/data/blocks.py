"""Blocks of steps that look at their past together, so that nothing as large as all steps times all steps is held.

A batch whose episodes fit is one block: every step of every episode. A long episode is cut into stretches of steps,
each with all that came before it.

Legend: E episodes and Q steps of a block, P steps they look at, K entries. Of tokens all is as of steps.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Block(NamedTuple):
    """Steps `start` to `end - 1` of the episodes `first` to `last - 1`; they look at the steps before `end`."""

    first: int
    last: int
    start: int
    end: int

    @property
    def rows(self) -> slice:
        """Its episodes."""
        return slice(self.first, self.last)

    @property
    def asks(self) -> slice:
        """Its steps."""
        return slice(self.start, self.end)

    @property
    def past(self) -> slice:
        """What they look at, their own step included."""
        return slice(self.end)


LEAST = 128
"""Steps of several episodes that are cut together: fewer are not worth a block."""


def blocks_of(lengths: Sequence[int], entries: int) -> Iterator[Block]:
    """Blocks of about `entries` steps times past steps each, over episodes of these lengths, in their order.

    As many episodes go together, padded to the longest of them, as fit whole, or, if they are about as long as each
    other, in stretches of `LEAST` steps; one that does not fit goes by itself.
    """
    first, longest, own = 0, 0, 0
    for number, length in enumerate(lengths):
        grown, count = max(longest, length), number + 1 - first
        whole = count * grown**2 <= entries
        alike = count * grown**2 <= 2 * (own + length**2) and count * grown * LEAST <= entries
        if number > first and not whole and not alike:
            yield from _cut(first, number, longest, entries)
            first, grown, own = number, length, 0
        longest, own = grown, own + length**2
    yield from _cut(first, len(lengths), longest, entries)


def _cut(first: int, last: int, longest: int, entries: int) -> Iterator[Block]:
    """One block where the episodes fit into one, else stretches, the shorter the more they look at: as long as a power
    of two allows, so that their sizes recur whatever the length, and little is computed of their own future."""
    room = entries // max(last - first, 1)
    if longest**2 <= room:
        yield Block(first, last, 0, longest)
        return
    start, size = 0, 1
    while (4 * size) ** 2 <= room:
        size *= 2
    while start < longest:
        while size > 1 and size * (start + size) > room:
            size //= 2
        yield Block(first, last, start, min(start + size, longest))
        start += size


def joined(blocks: Sequence[Block], parts: Sequence[Tensor], longest: int) -> Tensor:
    """What was computed block by block, `[E, Q, …]` each, as `[B, longest, …]` of all episodes; 0 where one is over."""
    episodes: dict[int, list[Tensor]] = {}
    for block, part in zip(blocks, parts, strict=True):
        episodes.setdefault(block.first, []).append(part)
    rows = [own[0] if len(own) == 1 else torch.cat(own, 1) for own in episodes.values()]
    nothing = (0, 0) * (parts[0].dim() - 2)
    return torch.cat([F.pad(row, (*nothing, 0, longest - row.shape[1])) for row in rows])


class Entries(NamedTuple):
    """What steps are to recall, entry by entry, in order of (episode, step).

    Entries that only fill a shape stand at the end, with a `place` past every episode."""

    place: Tensor  # [K] episode · steps + the step that recalls
    past: Tensor  # [K] the step that is recalled
    amount: Tensor  # [K] float32
    steps: int  # of the longest episode

    def within(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of a block: the places `[k]` of their steps in `[E · Q]`, what they recall, and the amounts.

        Only a host that computes by itself leaves out the others: elsewhere they have the amount 0 and place 0, 0."""
        asking = block.end - block.start
        low = block.first * self.steps + block.start
        high = (block.last - 1) * self.steps + block.end
        if self.place.device.type == "cpu":
            begin, end = torch.searchsorted(self.place, torch.tensor([low, high])).tolist()
            place, past, amount = (column[begin:end] for column in self[:3])
            if block.last - block.first > 1 and asking < self.steps:  # between the stretches of two episodes lie others
                step = place % self.steps
                mine = (step >= block.start) & (step < block.end)
                place, past, amount = place[mine], past[mine], amount[mine]
        else:
            step = self.place % self.steps
            inside = (self.place >= low) & (self.place < high) & (step >= block.start) & (step < block.end)
            place, past, amount = torch.where(inside, self.place, low), self.past * inside, self.amount * inside
        row = torch.div(place, self.steps, rounding_mode="floor")
        return (row - block.first) * asking + place - row * self.steps - block.start, past, amount

    def matrix(self, block: Block) -> Tensor:
        """The amounts of a block, 0 elsewhere: float32 `[E, Q, P]`."""
        place, past, amount = self.within(block)
        shape = (block.last - block.first, block.end - block.start, block.end)
        flat = torch.zeros(shape[0] * shape[1] * shape[2], device=amount.device)
        return flat.index_add_(0, place * block.end + past, amount).view(shape)
