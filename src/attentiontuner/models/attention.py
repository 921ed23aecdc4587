"""Causal attention over packed tokens, as both of our networks use it.

Legend: tokens of B episodes end to end (`data.batch.Layout`), n of the longest, H heads of size h.
"""

import inspect
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from torch.utils.checkpoint import checkpoint

from attentiontuner.data.batch import Layout
from attentiontuner.data.blocks import Block, blocks_of
from attentiontuner.data.dataset import FILLER_STEPS

# PyTorch changed how one asks for causal attention over packed sequences.
_BY_WINDOW = "window_size" in inspect.signature(varlen_attn).parameters
_CAUSAL: dict[str, Any] = {"window_size": (-1, 0)} if _BY_WINDOW else {"is_causal": True}


def causal_attention(projected: Tensor, layout: Layout) -> Tensor:
    """Causal attention within each episode: queries, keys and values `[tokens, 3, H, h]` → `[tokens, H, h]`."""
    size = projected.shape[-1]
    if projected.is_cuda and projected.dtype == torch.bfloat16 and size % 8 == 0 and size <= 256:  # what it can do
        longest = max(layout.tokens, layout.per_step * FILLER_STEPS)
        query, key, value = projected.unbind(1)
        out = varlen_attn(query, key, value, layout.bounds, layout.bounds, longest, longest, **_CAUSAL)
        assert isinstance(out, Tensor)
        return out
    if projected.device.type == "cpu":  # a host that computes by itself takes episode after episode, unpadded
        episodes = [part for part in projected.split(layout.bounds.diff().tolist()) if len(part)]
        return torch.cat([_attend(part[None])[0] for part in episodes])
    return layout.pack(_attend(layout.pad(projected)))


LONG, IN_A_BLOCK = 2**35, 2**21
"""Products from which on an episode's attention is computed block by block on a CPU, and tokens times tokens of a
block: one operation for all of them would take seconds, and nobody could stop it."""


def _attend(projected: Tensor) -> Tensor:
    """Causal attention: `[B, n, 3, H, h]` → `[B, n, H, h]`."""
    query, key, value = projected.permute(2, 0, 3, 1, 4)  # [B, H, n, h] each
    tokens = query.shape[2]
    if projected.device.type != "cpu" or tokens * query[0].numel() <= LONG:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
    again = partial(checkpoint, _attend_in, use_reentrant=False, preserve_rng_state=False)
    parts = [again(block, query, key, value) for block in blocks_of([tokens], IN_A_BLOCK)]
    return torch.cat(parts, 2).transpose(1, 2)


def _attend_in(block: Block, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """What the tokens of a block attend to, `[B, H, Q, h]`. Its mask is made anew for the gradient: the masks of all
    blocks would be as large as all tokens times all tokens."""
    token = torch.arange(block.end)
    seen = token <= token[block.asks, None]
    past = slice(block.end)
    return F.scaled_dot_product_attention(query[:, :, block.asks], key[:, :, past], value[:, :, past], seen)


def causal_log_attention(query: Tensor, key: Tensor) -> Tensor:
    """Log of the causal softmax of the scaled scores, in float32 whatever the precision around: `[B, n, n]`."""
    scores = query.float() @ key.float().transpose(-1, -2) * query.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return F.log_softmax(scores.masked_fill(future, -torch.inf), -1)


class Watched(NamedTuple):
    """A head whose weights are wanted: what its layer projected `[tokens, 3, H, h]`, and where the tokens stand."""

    projected: Tensor
    head: int
    layout: Layout

    def asked(self) -> tuple[Tensor, Tensor]:
        """Its queries and keys, `[B, n, h]` each."""
        query, key = self.layout.pad(self.projected[:, :2, self.head]).unbind(2)
        return query, key

    def log_attention(self) -> Tensor:
        """Log of the attention weights, -inf above the diagonal: float32 `[B, n, n]`."""
        return causal_log_attention(*self.asked())

    def of_observations(self, block: Block) -> Tensor:
        """The same for the observations, each the first token of its step, of a block of steps `[E, Q, P]`."""
        query, key = self.asked()
        each = self.layout.per_step
        asking = query[block.rows, each * block.start : each * block.end : each].float()
        scores = asking @ key[block.rows, : each * block.end].float().mT * asking.shape[-1] ** -0.5
        token, now = torch.arange(each * block.end, device=scores.device), torch.arange(block.end, device=scores.device)
        future = token > each * now[block.asks, None]
        return F.log_softmax(scores.masked_fill_(future, -torch.inf), -1)[..., ::each]
