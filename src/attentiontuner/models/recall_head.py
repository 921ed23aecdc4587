"""The head that recalls: scores whose exp is how many things a step recalls from each earlier one, and what is read.

The scores s are trained so that exp(s_qp) is the *number* of things at step p that matter at step q; the row's mass
c_q = Σ_p exp(s_qp) is the number recalled in all, and the network can read it.

- Where: the query at q meets every cell of the observation at p, not one summary of it (`models.memory`). What may be
  asked for is bounded, Σ over cells of a number in (0, 1), times a gate in (0, 1): amounts come to rest at whole
  numbers.
- When: a clock, a product of the two steps' numbers, opens and closes that gate.
- How much: c_q enters the residual stream as cos and sin of 2πc/τ for several periods τ, what each step adds to it
  rounded, and next to it the sums of a few numbers that each recalled step hands over.
- What: every cell in view is told whether the observations recalled hold its like, what they say of it on average, and
  how much of what is recalled came before.
- Nothing: a null key of score 0 and value 0 takes what is left, so a row may recall nothing.

Legend: B episodes, T steps of the longest, Q steps that ask, P past steps, D = d_model, M numbers an observation leaves
in memory, K cells of an observation that have a kind, k numbers a step will say when it is recalled.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.blocks import Block
from attentiontuner.models.memory import LITTLE, came_before
from attentiontuner.models.sizes import MOST, RecallConfig

NEVER = -1e4
"""The score of a step that cannot be recalled: the future and the present."""

START = -9.0
"""What every score starts at. There the cells of a past observation add up to next to nothing; a higher start makes the
first steps push all keys down."""

OPEN = 4.0
"""What gates start at: open."""


class Recall(nn.Module):
    """Scores of past observations, the amount recalled as something to read, and cells in view recognised.

    `cells` is K: how many cells of an observation have a kind."""

    def __init__(self, config: RecallConfig, cells: int) -> None:
        super().__init__()
        self.config = config
        self.bias = nn.Parameter(torch.tensor(START))
        self.asks = nn.Linear(config.d_model, 1)
        self.offers = nn.Linear(config.d_model, 1)
        self.when = nn.Linear(config.d_model, config.d_model) if config.adds else None
        self.clock = nn.Linear(config.d_model, config.d_model, bias=False) if config.turns else None
        for gate in (self.asks, self.offers, self.when, self.clock):
            for parameter in gate.parameters() if gate is not None else ():
                nn.init.zeros_(parameter)
        self.amount = nn.Linear(2 * len(config.periods), config.d_model) if config.periods else None
        self.periods: Tensor
        self.register_buffer("periods", torch.tensor(config.periods), persistent=False)
        self.said = config.marks if cells else 0
        if self.said:
            self.marks = nn.Linear(config.d_model, config.marks)
            nn.init.ones_(self.marks.bias)  # what a step says at first: it was here
            self.recognised = nn.Linear((config.marks + (2 if config.means else 0)) * cells, config.d_model)
        if config.sums:
            self.addends = nn.Linear(config.d_model, config.sums)
            self.added = nn.Linear(config.sums, config.d_model)

    def scores(self, normal: Tensor, cells: Tensor, offers: Tensor, now: Tensor, positions: Tensor) -> Tensor:
        """s before masking: tokens that ask `[B, Q, D]`, the match of the past's cells `[B, Q, P]`, what the past
        offers `[B, P, 1]`, positions of the present `[…, Q, D]` and of the past `[P, D]` → `[B, Q, P]`."""
        if not self.config.bounded:
            cells = cells + self.asks(normal) + offers.transpose(-1, -2)
            return cells if self.when is None else cells + self.when(normal) @ positions.T
        gate = OPEN + self.asks(normal) + offers.transpose(-1, -2)
        if self.when is not None:
            gate = gate + self.when(normal) @ positions.T
        if self.clock is not None:
            gate = gate + self.clock(now) @ positions.T
        return cells + F.logsigmoid(gate)

    def read(self, amounts: Tensor, mass: Tensor) -> Tensor | float:
        """All that is recalled, from amounts `[…, P]` and their sum `[…]`, as a vector `[…, D]`."""
        if self.amount is None:
            return 0.0
        if self.config.reads_whole:
            mass = mass + (amounts.round().sum(-1) - mass).detach()  # whole, with the gradient of what was rounded
        angles = 2 * math.pi * mass[..., None] / self.periods
        read: Tensor = self.amount(torch.cat([angles.cos(), angles.sin()], -1))
        return read

    def say(self, normal: Tensor) -> Tensor:
        """What a step will say of its cells and what it will add, when it is recalled: `[…, D]` → `[…, k]`."""
        said: Tensor = self.marks(normal) if self.said else normal[..., :0]
        return torch.cat([said, self.addends(normal)], -1) if self.config.sums else said

    def hear(self, amounts: Tensor, mass: Tensor, says: Tensor, memory: Tensor, kinds: Tensor) -> Tensor | float:
        """What the recalled steps add up to and what they say of each cell in view, as a vector: amounts `[B, Q, P]`
        and their sum `[B, Q]`, what the past says `[B, P, k]` and its memory `[B, P, M]`, the kinds of the cells in
        view `[B, Q, K]` → `[B, Q, D]`."""
        told: Tensor | float = 0.0
        if self.config.sums:
            told = self.added(amounts @ says[..., self.said :])
        if not self.said:
            return told
        everything = 1 + mass[:, None, :, None]  # with the null key
        said = amounts[:, None] * says[..., : self.said].transpose(1, 2)[:, :, None]  # [B, k, Q, P]
        if self.config.means:
            said = torch.cat([amounts[:, None], (amounts * came_before(amounts, mass))[:, None], said], 1)
        of_kind = said.flatten(1, 2) @ (memory > 0).to(said.dtype)  # [B, k · Q, M]
        of_kind = of_kind.unflatten(1, said.shape[1:3])
        of_cell = of_kind.gather(-1, kinds[:, None].expand(-1, of_kind.shape[1], -1, -1))  # [B, k, Q, K]
        if self.config.means:
            amount, rest = of_cell[:, :1], of_cell[:, 1:]
            of_cell = torch.cat([amount / everything, rest / (amount + LITTLE)], 1)
        else:
            of_cell = of_cell / everything
        recognised: Tensor = self.recognised(of_cell.transpose(1, 2).flatten(2))
        return recognised + told


class Settled(NamedTuple):
    """What a recall head recalls: scores s and amounts exp(s) `[…, P]`, the mass Σ exp(s) `[…]`, and by how much scores
    were cut off `[…]`: what was cut has no gradient of its own, so the loss leads it back."""

    scores: Tensor
    amounts: Tensor
    mass: Tensor
    cut: Tensor

    def of(self, block: Block) -> "Settled":
        """The same of a block, where this is of all steps."""
        rows, asks = block.rows, block.asks
        scores, amounts = (own[rows, asks, block.past] for own in (self.scores, self.amounts))
        return Settled(scores, amounts, self.mass[rows, asks], self.cut[rows, asks])

    def share(self) -> Tensor:
        """The weights beside a null key of score 0, `[…, P]`."""
        return self.amounts / (1 + self.mass[..., None])


def settle(scores: Tensor, possible: Tensor) -> Settled:
    """Scores `[…, P]`, masked and at most `MOST`, and what follows from them."""
    cut = (scores - MOST).clamp(min=0).masked_fill(~possible, 0).sum(-1)
    scores = scores.clamp(max=MOST).masked_fill(~possible, NEVER)
    amounts = scores.exp()
    return Settled(scores, amounts, amounts.sum(-1), cut)


@dataclass(frozen=True)
class Recalled:
    """What a recall head recalls at every step of a batch.

    Attributes:
        mass, cut: as in `Settled`, `[B, T]`.
        told: Σ_p m_qp · s_qp with the multiplicities m of the batch's pairs, `[B, T]`.
        settle: everything of the steps of a block, computed anew where there were too many to be held.
        every: the block of all steps.
    """

    mass: Tensor
    cut: Tensor
    told: Tensor
    settle: Callable[[Block], Settled]
    every: Block

    @cached_property
    def whole(self) -> Settled:
        """Everything of all steps, `[B, T, T]`."""
        return self.settle(self.every)


class Past(NamedTuple):
    """What the recall head looks at, `[B, T, …]` of every step; see `Recall` for what they are."""

    normal: Tensor
    query: Tensor
    value: Tensor
    offers: Tensor
    says: Tensor
    memory: Tensor
    kinds: Tensor

    def of(self, block: Block) -> tuple["Past", "Past"]:
        """Of the steps that ask, and of those they look at."""
        asking, past = (Past(*(own[block.rows, steps] for own in self)) for steps in (block.asks, block.past))
        return asking, past
