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


def blocks_of(lengths: Sequence[int], entries: int) -> Iterator[Block]:
    """Blocks of about `entries` steps times past steps each, over episodes of these lengths, in their order.

    As many whole episodes as fit go together, padded to the longest of them; one that does not fit goes by itself.
    """
    first, longest = 0, 0
    for number, length in enumerate(lengths):
        grown = max(longest, length)
        if number > first and (number + 1 - first) * grown**2 > entries:
            yield from _cut(first, number, longest, entries)
            first, grown = number, length
        longest = grown
    yield from _cut(first, len(lengths), longest, entries)


def _cut(first: int, last: int, longest: int, entries: int) -> Iterator[Block]:
    """One block where the episodes fit into one, else stretches of equal length."""
    whole = (last - first) * longest**2 <= entries
    size = longest if whole else max(1, entries // longest)
    for start in range(0, longest, max(size, 1)):
        yield Block(first, last, start, min(start + size, longest))


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
        else:
            inside = (self.place >= low) & (self.place < high)
            place, past, amount = torch.where(inside, self.place, low), self.past * inside, self.amount * inside
        row = torch.div(place, self.steps, rounding_mode="floor")
        return (row - block.first) * asking + place - row * self.steps - block.start, past, amount

    def matrix(self, block: Block) -> Tensor:
        """The amounts of a block, 0 elsewhere: float32 `[E, Q, P]`."""
        place, past, amount = self.within(block)
        shape = (block.last - block.first, block.end - block.start, block.end)
        flat = torch.zeros(shape[0] * shape[1] * shape[2], device=amount.device)
        return flat.index_add_(0, place * block.end + past, amount).view(shape)
