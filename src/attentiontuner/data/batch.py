"""A packed batch: whole episodes end to end, no padding, equal observations once.

Legend: B episodes, S steps in all of them together, T steps of the longest, U distinct observations, K pairs.

A batch has the steps of its episodes one after another. `slot` says where a step would stand in a padded [B, T] layout,
which few parts of a network need. On a GPU sizes are rounded up (`data.dataset`), so that one recorded CUDA graph
serves many batches; steps beyond the real ones have the slot B·T, one past the end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attentiontuner.data.blocks import Block, Entries, blocks_of


class Pairs(NamedTuple):
    """The memory pairs of a batch in timesteps, `[K]` each; those that only fill the shape have row B."""

    row: Tensor
    p: Tensor
    q: Tensor
    amount: Tensor  # float32: multiplicity times weight


class Totals(NamedTuple):
    """What sums are divided by, in the whole batch (over all processes); float32 scalars."""

    steps: Tensor
    squares: Tensor  # the squared lengths of the annotated episodes, added up
    things: Tensor  # pairs times multiplicity that as many annotated episodes have on average


class Window(NamedTuple):
    """What a batch of windows knows beside its steps (`data.windows`)."""

    carried: Tensor  # [B] steps at the beginning of each row that are carried over
    step: Tensor  # [S] the step's number in its episode; `time` is its place in the row
    before: Tensor  # [S, …] the action before each step; where an episode begins, one that means nothing
    far: Tensor  # [S] bool: whether a step beyond the window that begins here recalls it
    kept: Tensor  # how many of the steps in the whole batch that say so are such, float32, and how many are not
    others: Tensor


@dataclass(frozen=True)
class Batch:
    """What a network reads, on its device.

    Attributes:
        observations: `[U, bytes]` uint8, the distinct observations, see `spaces`.
        frame: `[S]` which of them each step saw; None where step s saw observation s.
        actions: `[S, …]` the action taken at each step.
        time: `[S]` the step's number in its row; the fillers count as one more.
        slot: `[S]` row · longest + time; rows · longest for steps that only fill the shape.
        bounds: `[B + 2]` 0, then the steps up to the end of each episode, the fillers last.
        lengths: `[B]` steps of each episode.
        annotated: `[B]` whether the episode takes part in the memory loss.
        pairs: the memory pairs of its annotated episodes.
        totals: what sums are divided by.
        rows, longest: B and T.
        window: where rows are windows of episodes; None: they are whole.
    """

    observations: Tensor
    frame: Tensor | None
    actions: Tensor
    time: Tensor
    slot: Tensor
    bounds: Tensor
    lengths: Tensor
    annotated: Tensor
    pairs: Pairs
    totals: Totals
    rows: int
    longest: int
    window: Window | None = None

    @property
    def real(self) -> Tensor:
        """`[S]` bool: the steps that are not fillers."""
        return self.slot < self.rows * self.longest

    @property
    def learned(self) -> Tensor:
        """`[S]` bool: the steps whose decisions are learned from, all but fillers and those that are carried over."""
        return self.real if self.window is None else self.real & (self.time >= self.window.carried[self.row])

    @property
    def row(self) -> Tensor:
        """`[S]` the row of each step's episode; of the fillers the last."""
        return (self.slot // self.longest).clamp(max=self.rows - 1)

    @property
    def begins(self) -> Tensor:
        """`[S]` bool: the steps that are the first of their episode."""
        return (self.time if self.window is None else self.window.step) == 0

    @property
    def last_actions(self) -> Tensor:
        """`[S, …]` the action before each step; where an episode begins, one that means nothing."""
        return self.actions.roll(1, 0) if self.window is None else self.window.before

    def coming(self, chunk: int) -> tuple[Tensor, Tensor]:
        """The action of each step and those after it `[S, chunk, …]`, and which of them its episode has: bool
        `[S, chunk]`."""
        ahead = torch.arange(chunk, device=self.time.device)
        step = torch.arange(len(self.time), device=self.time.device)[:, None] + ahead
        step = step.clamp(max=len(self.time) - 1)
        return self.actions[step], self.time[step] == self.time[:, None] + ahead

    def per_step(self, embedded: Tensor) -> Tensor:
        """What belongs to distinct observations `[U, …]`, for each step `[S, …]`."""
        return embedded if self.frame is None else embedded.index_select(0, self.frame)

    def counted(self, per_step: int = 1) -> Tensor:
        """`[B, per_step · T]` bool: the tokens of annotated episodes that are learned from, where a step is `per_step`
        tokens."""
        token = torch.arange(per_step * self.longest, device=self.lengths.device)
        inside = (token < per_step * self.lengths[:, None]) & self.annotated[:, None]
        return inside if self.window is None else inside & (token >= per_step * self.window.carried[:, None])

    @property
    def deciding(self) -> Tensor:
        """`[S]` bool: the steps that recall something."""
        row, _, q, _ = self.pairs
        end = self.rows * self.longest
        place = torch.where(row < self.rows, row * self.longest + q, end)
        marked = torch.zeros(end + 1, dtype=torch.bool, device=place.device).index_fill(0, place, True)
        return marked[self.slot] & self.real

    def blocks(self, entries: int, per_step: int = 1) -> list[Block]:
        """Its steps, or tokens of which a step has `per_step`, in blocks of about `entries` (`data.blocks`). A host
        that computes by itself looks at the lengths, others take every episode for the longest and need not wait."""
        here = self.lengths.device.type == "cpu"
        lengths = self.lengths.tolist() if here else [self.longest] * self.rows
        return list(blocks_of([per_step * length for length in lengths], entries))

    def entries(self) -> Entries:
        """The memory pairs as what steps are to recall."""
        row, p, q, amount = self.pairs
        return Entries(row * self.longest + q, p, amount, self.longest)

    def recalled(self) -> Tensor:
        """How often each step recalls each earlier one: float32 `[B, T, T]`, row q, column p."""
        row, p, q, amount = self.pairs
        size = self.rows * self.longest**2
        place = torch.where(row < self.rows, (row * self.longest + q) * self.longest + p, size)
        flat = torch.zeros(size + 1, device=place.device).index_add(0, place, amount)
        return flat[:size].view(self.rows, self.longest, self.longest)


class Layout(NamedTuple):
    """Where packed tokens stand: end to end, and in the padded layout that attention weights need."""

    slot: Tensor  # [S] of each step, see `Batch`
    bounds: Tensor  # [B + 2] int32: 0, then the tokens up to the end of each episode, the fillers last
    rows: int  # B
    tokens: int  # n
    per_step: int

    @classmethod
    def of(cls, batch: Batch, per_step: int) -> "Layout":
        """The layout of a batch whose steps are `per_step` tokens each."""
        return cls(batch.slot, (per_step * batch.bounds).int(), batch.rows, per_step * batch.longest, per_step)

    @property
    def place(self) -> Tensor:
        """`[tokens]` flat place of each token in `[B·n]`; fillers stand at or after the end."""
        own = torch.arange(self.per_step, device=self.slot.device)
        return torch.add(own, self.slot[:, None], alpha=self.per_step).flatten()

    def pad(self, packed: Tensor) -> Tensor:
        """`[tokens, …]` → `[B, n, …]`, zeros where an episode is over."""
        size = self.rows * self.tokens
        padded = packed.new_zeros(size + self.per_step, *packed.shape[1:]).index_copy(0, self.place, packed)
        return padded[:size].view(self.rows, self.tokens, *packed.shape[1:])

    def pack(self, padded: Tensor) -> Tensor:
        """`[B, n, …]` → `[tokens, …]`."""
        last = self.rows * self.tokens - 1
        return padded.flatten(0, 1).index_select(0, self.place.clamp(max=last))
