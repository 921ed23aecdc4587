"""Slots: a memory of K steps of the past, each knowing which step it is; the least needed one is overwritten.

Legend: B episodes of T steps, R rows that stream, D = d_model, K slots, E episodes and Q steps of a block, P past
steps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.blocks import Block
from attentiontuner.models.recurrence import SELDOM

NEVER = -1e4
"""The score of a slot that holds nothing."""

NEEDED = 50.0
"""The largest logit of a write gate."""


class Read(NamedTuple):
    """What the slots held and what was read of them, at every step.

    Attributes:
        steps: which step each slot holds, `[B, T, K]`.
        scores: log of the share that was read of it `[B, T, K]`, `NEVER` or less where a slot holds nothing.
        write: logits of the write gate `[B, T]`.
    """

    steps: Tensor
    scores: Tensor
    write: Tensor

    def of(self, block: Block) -> Tensor:
        """The scores of a block of steps by what the slots hold: `[E, Q, P]`, `NEVER` of what they do not."""
        steps, scores = self.steps[block.rows, block.asks], self.scores[block.rows, block.asks].clamp(min=NEVER)
        empty = scores.new_full((*scores.shape[:2], block.end), NEVER)
        return empty.scatter_reduce(2, steps, scores, "amax")


class Slots(nn.Module):
    """Every step is written, over the slot that is needed least: that of the smallest write gate, of equal ones the
    oldest. Since gates see the present step alone, the K steps held are those of the largest gates so far.

    What is read is attention over the slots and a null slot of score 0 and value 0; the logarithm of a slot's gate is
    added to its score, so that a step that is not meant to be written is hardly seen, and gates learn by what is read.
    """

    def __init__(self, d_model: int, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.query = nn.Linear(d_model, d_model)
        self.entry = nn.Linear(d_model, 2 * d_model)  # key and value
        self.write = nn.Linear(d_model, 1)
        self.out = nn.Linear(d_model, d_model)
        nn.init.constant_(self.write.bias, SELDOM)

    def start(self, rows: int) -> list[Tensor]:
        """Entries, gates and steps of the slots, and whether they hold something."""
        weight = self.out.weight
        entries, gates = (
            weight.new_zeros(rows, self.slots, 2 * self.out.in_features),
            weight.new_zeros(rows, self.slots),
        )
        return [entries, gates, torch.zeros_like(gates, dtype=torch.long), torch.zeros_like(gates, dtype=torch.bool)]

    def _gate(self, tokens: Tensor) -> Tensor:
        gate: Tensor = self.write(tokens)[..., 0].clamp(-NEEDED, NEEDED)
        return gate

    def _read(self, query: Tensor, entries: Tensor, gates: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
        """Queries `[…, D]`, entries `[…, K, 2D]`, gates and what is held `[…, K]` → what is read `[…, D]`, and the log
        of each slot's share `[…, K]`."""
        key, value = entries.chunk(2, -1)
        scores = (key @ query[..., None])[..., 0] * query.shape[-1] ** -0.5 + F.logsigmoid(gates)
        scores = F.pad(scores.masked_fill(~held, NEVER), (0, 1)).log_softmax(-1)[..., :-1]
        out: Tensor = self.out((scores.exp()[..., None, :] @ value)[..., 0, :])
        return out, scores

    def forward(self, tokens: Tensor) -> tuple[Tensor, Read]:
        """`[B, T, D]` → the same, and what was read."""
        rows, length = tokens.shape[:2]
        write = self._gate(tokens)
        steps, held = held_before(write.detach(), self.slots)
        first = length * torch.arange(rows, device=tokens.device)[:, None, None]
        place = (first + steps).flatten()
        entries = self.entry(tokens).flatten(0, 1).index_select(0, place).view(*steps.shape, -1)
        gates = write.flatten().index_select(0, place).view(steps.shape)
        out, scores = self._read(self.query(tokens), entries, gates, held)
        return out, Read(steps, scores, write)

    def step(self, tokens: Tensor, state: list[Tensor], time: Tensor, room: int) -> tuple[Tensor, Tensor]:
        """`[R, D]` → the same, and the share that was read of each step so far `[R, room]`; the state is changed."""
        entries, gates, steps, held = state
        out, scores = self._read(self.query(tokens), entries, gates, held)
        shares = tokens.new_zeros(len(tokens), room).scatter_add(1, steps, scores.exp() * held)
        own = self._gate(tokens)[:, None]
        need = torch.cat([own, gates.masked_fill(~held, NEVER)], 1)
        order = need.sort(dim=-1, descending=True, stable=True).indices[:, :-1]
        for slot, new in zip(
            state, (self.entry(tokens), own[:, 0], time, torch.ones_like(time, dtype=torch.bool)), strict=True
        ):
            both = torch.cat([new[:, None], slot], 1)
            chosen = order if both.dim() == 2 else order[..., None].expand(-1, -1, both.shape[-1])
            slot.copy_(both.gather(1, chosen))
        return out, shares


@torch.no_grad()
def held_before(write: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    """Which steps the slots hold before each step, and whether they hold one: from the logits of all write gates
    `[B, T]`, `[B, T, K]` each, in log T rounds: after each a step knows the most needed of twice as many before it."""
    length = write.shape[1]
    need, step = (
        F.pad(own, (0, 0, 1, 0), value=nothing)[:, :length]  # of the step before
        for own, nothing in (
            (write[..., None], NEVER),
            (torch.arange(length, device=write.device).expand_as(write)[..., None], 0),
        )
    )
    known = 1
    while known < length:
        need, step = (
            torch.cat([own, F.pad(own[:, :-known], (0, 0, known, 0), value=nothing)], -1)
            for own, nothing in ((need, NEVER), (step, 0))
        )
        if need.shape[-1] > slots:
            need, order = need.sort(dim=-1, descending=True, stable=True)  # of equal ones the later first
            need, step = need[..., :slots], step.gather(-1, order[..., :slots])
        known *= 2
    missing = max(0, slots - need.shape[-1])
    return F.pad(step, (0, missing)), F.pad(need, (0, missing), value=NEVER) > NEVER
