"""Memories that carry a state from step to step: gated recurrent units, and gated linear recurrences.

Legend: B episodes of T steps, R rows that stream, D = d_model, L lanes (numbers of a state).
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SELDOM = -2.0
"""What the write gate of kept lanes starts at: nearly closed."""


class Gates(NamedTuple):
    """What pairs may teach of a memory, `[B, T]` each.

    Attributes:
        write: logits of the write gate.
        faded: nats by which all that is remembered has faded since the episode began.
    """

    write: Tensor
    faded: Tensor


def spans(lanes: int, longest: float) -> Tensor:
    """Steps from 1 to the longest, evenly on a logarithmic scale: `[lanes]`."""
    return torch.logspace(0, math.log10(longest), lanes)


# --- gated recurrent units -------------------------------------------------------------------------------------------


class GatedUnits(nn.Module):
    """A GRU whose units remember for 1 to `span` steps at first: the gate that keeps starts at log(steps)."""

    def __init__(self, d_model: int, span: float) -> None:
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True)
        self.out = nn.Linear(d_model, d_model)
        with torch.no_grad():
            own, of_state = (getattr(self.gru, name)[d_model : 2 * d_model] for name in ("bias_ih_l0", "bias_hh_l0"))
            own.copy_(spans(d_model, span).log())
            of_state.zero_()

    def start(self, rows: int) -> list[Tensor]:
        return [self.out.weight.new_zeros(rows, self.gru.hidden_size)]

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        """`[B, T, D]` → the same."""
        return self.out(self.gru(tokens)[0]), None

    def step(self, tokens: Tensor, state: list[Tensor], time: Tensor, room: int) -> tuple[Tensor, None]:
        """`[R, D]` → the same; the state is changed."""
        state[0].copy_(self.gru(tokens[:, None], state[0][None])[1][0])
        return self.out(state[0]), None


# --- gated linear recurrences ----------------------------------------------------------------------------------------


class LinearRecurrence(nn.Module):
    """h_t = k_t · h_{t-1} + w_t · v_t with gates k (keep) and w (write) in (0, 1) that see the present step alone, so
    that all steps of an episode are computed at once, in log T rounds.

    The first `kept` lanes share one write gate and one keep gate, which pairs may teach.
    """

    def __init__(self, d_model: int, span: float, kept: int = 0) -> None:
        super().__init__()
        self.kept = kept
        own = d_model - kept
        self.sizes = [own + (kept > 0), own + (kept > 0), d_model, d_model]
        self.project = nn.Linear(d_model, sum(self.sizes))
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, d_model)
        with torch.no_grad():
            keep, write, *_ = self.project.bias.split(self.sizes)
            keep[-own:], write[-own:] = spans(own, span).log(), 0.0
            if kept:
                keep[0], write[0] = math.log(span), SELDOM

    def start(self, rows: int) -> list[Tensor]:
        return [self.out.weight.new_zeros(rows, self.out.in_features)]

    def _gates(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens `[…, D]` → log-keep and logits of the write gates `[…, D]`, values, and what opens the output."""
        keep, write, value, shown = self.project(tokens).split(self.sizes, -1)
        return F.logsigmoid(self._lanes(keep)), self._lanes(write), value, shown

    def _lanes(self, gates: Tensor) -> Tensor:
        """The gates of all lanes: the first is that of all kept ones."""
        if not self.kept:
            return gates
        return torch.cat([gates[..., :1].expand(*gates.shape[:-1], self.kept), gates[..., 1:]], -1)

    def _show(self, state: Tensor, shown: Tensor) -> Tensor:
        out: Tensor = self.out(self.norm(state) * F.silu(shown))
        return out

    def forward(self, tokens: Tensor) -> tuple[Tensor, Gates | None]:
        """`[B, T, D]` → the same, and the gates of the kept lanes."""
        keep, write, value, shown = self._gates(tokens)
        states = carried(keep.exp(), write.sigmoid() * value)
        gates = Gates(write[..., 0], -keep[..., 0].cumsum(1)) if self.kept else None
        return self._show(states, shown), gates

    def step(self, tokens: Tensor, state: list[Tensor], time: Tensor, room: int) -> tuple[Tensor, None]:
        """`[R, D]` → the same; the state is changed."""
        keep, write, value, shown = self._gates(tokens)
        state[0].copy_(keep.exp() * state[0] + write.sigmoid() * value)
        return self._show(state[0], shown), None


def carried(keep: Tensor, new: Tensor) -> Tensor:
    """h with h_t = keep_t · h_{t-1} + new_t and nothing before the first step: `[B, T, L]` each."""
    return _Carried.apply(keep, new)  # type: ignore[no-any-return, no-untyped-call]


class _Carried(torch.autograd.Function):
    """Its gradient is the same recurrence backwards, so that no round has to be held."""

    @staticmethod
    def forward(ctx: Any, keep: Tensor, new: Tensor) -> Tensor:
        states = _in_rounds(keep, new)
        ctx.save_for_backward(keep, states)
        return states

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        keep, states = ctx.saved_tensors
        later = F.pad(keep[:, 1:], (0, 0, 0, 1))  # what the next step keeps of this one
        of_new = _in_rounds(later.flip(1), upstream[0].flip(1)).flip(1)
        return of_new * F.pad(states[:, :-1], (0, 0, 1, 0)), of_new


def _in_rounds(keep: Tensor, new: Tensor) -> Tensor:
    """After each round a step knows of twice as many steps before it."""
    known = 1
    while known < new.shape[1]:
        new = torch.cat([new[:, :known], torch.addcmul(new[:, known:], keep[:, known:], new[:, :-known])], 1)
        keep = torch.cat([keep[:, :known], keep[:, known:] * keep[:, :-known]], 1)
        known *= 2
    return new
