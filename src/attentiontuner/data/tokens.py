"""The token layout, and pairs as places in the expert matrix E. The only file that knows both timesteps and tokens.

A trajectory of T steps is the token sequence o_0, a_0, o_1, a_1, …: observation t is token 2t, action t is token
2t + 1, n = 2T tokens in all. E is [n, n]; row i says what token i should attend to. Its rows of action tokens are zero.
"""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.data.batch import Batch
from attentiontuner.data.blocks import Entries
from attentiontuner.demos.pairs import PairTable

TOKENS_PER_STEP = 2


def expert_matrix(
    pairs: Any, length: int, attend_self: bool = True, tokens_per_step: int = TOKENS_PER_STEP
) -> NDArray[np.float32]:
    """E of one episode from pairs in timesteps, a `PairTable` or `[K, 2 or 3]` rows: float32 `[n, n]`, n =
    tokens_per_step · length, a one at (token of q, token of p) for each pair, however often it counts. The observation
    is the first token of its step.

    `attend_self` adds a one on the diagonal for every observation: attend to the present.
    """
    if tokens_per_step < 1:
        raise UserError(f"tokens_per_step={tokens_per_step}: a step has 1 token or more")
    steps = np.asarray(PairTable.of(pairs, length)).astype(np.int64)  # [K, 3]
    expert = np.zeros((tokens_per_step * length,) * 2, np.float32)
    expert[tokens_per_step * steps[:, 1], tokens_per_step * steps[:, 0]] = 1
    if attend_self:
        present = tokens_per_step * np.arange(length)
        expert[present, present] = 1
    return expert


def expert_matrices(
    pairs: Sequence[Any],
    lengths: Tensor | Sequence[int],
    attend_self: bool = True,
    tokens_per_step: int = TOKENS_PER_STEP,
    padded_to: int | None = None,
) -> tuple[Tensor, Tensor]:
    """E of a padded batch of B episodes, and how many tokens of each take part: what the memory losses take.

    Args:
        pairs: for each episode what `expert_matrix` takes; None where it is not annotated.
        lengths: `[B]`, steps of each episode.
        attend_self: as in `expert_matrix`.
        tokens_per_step: as in `expert_matrix`.
        padded_to: n, the tokens that every episode is padded to at its end; by default those of the longest.

    Returns:
        bool `[B, n, n]`, and int64 `[B]`: tokens_per_step · length, 0 where an episode is not annotated. Both on the
        CPU; the losses take them from there.
    """
    steps = np.asarray(lengths)
    if steps.ndim != 1 or (len(steps) and (steps.dtype.kind not in "iu" or steps.min() < 1)):
        raise UserError(
            f"expert_matrices: lengths {reprlib.repr(steps.tolist())}: give the steps of each episode, from 1"
        )
    if not isinstance(pairs, Sequence) or len(pairs) != len(steps):
        given = f"{len(pairs)} of them" if isinstance(pairs, Sequence) else type(pairs).__name__
        raise UserError(f"expert_matrices: pairs: give a list of pairs for each of {len(steps)}, not {given}")
    longest = tokens_per_step * int(steps.max(initial=0))
    n = longest if padded_to is None else padded_to
    if longest > n:
        raise UserError(f"expert_matrices: an episode of {counted(longest, 'token')}, but padded_to={padded_to}")
    expert = torch.zeros(len(steps), n, n, dtype=torch.bool)
    tokens = torch.zeros(len(steps), dtype=torch.long)
    for row, (own, length) in enumerate(zip(pairs, steps.tolist(), strict=True)):
        if own is not None:
            matrix = expert_matrix(PairTable.of(own, length, row), length, attend_self, tokens_per_step)
            tokens[row] = len(matrix)
            expert[row, : len(matrix), : len(matrix)] = torch.from_numpy(matrix > 0)
    return expert, tokens


def head_of(recalled: Any, recalling: Any, heads: int) -> Any:
    """Which of `heads` supervised heads a one of E belongs to when each row's ones are split over the heads.

    The row of token q is cut into `heads` equal stretches of the tokens up to it: token p goes to head
    p // ceil((q + 1) / heads). Both arguments are arrays or tensors of tokens, any shape.
    """
    return recalled // -(-(recalling + 1) // heads)


def _ones(batch: Batch, attend_self: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The ones of E: episodes (B and more for fillers), tokens that recall, and tokens recalled, `[K]` each."""
    row, p, q = batch.pairs.row, batch.pairs.p, batch.pairs.q
    if attend_self:
        own = torch.div(batch.slot, batch.longest, rounding_mode="floor")  # [S], B for fillers
        row, p, q = torch.cat([row, own]), torch.cat([p, batch.time]), torch.cat([q, batch.time])
    return row, TOKENS_PER_STEP * q, TOKENS_PER_STEP * p


def expert_of_heads(batch: Batch, heads: int, attend_self: bool, split: bool) -> Tensor:
    """E of the episodes of a batch, one for each of `heads` supervised heads: bool `[heads, B, n, n]`.

    `split` gives each one to one head alone (`head_of`). Without it all heads have the same matrix. What it says of
    episodes that are not annotated means nothing.
    """
    n, rows = TOKENS_PER_STEP * batch.longest, batch.rows
    row, recalling, recalled = _ones(batch, attend_self)
    matrices = heads if split else 1
    size = matrices * rows * n * n
    place = torch.add(recalled, torch.add(recalling, row, alpha=n), alpha=n)
    if split:
        place = place + head_of(recalled, recalling, heads) * (rows * n * n)
    flat = torch.zeros(size + 1, dtype=torch.bool, device=place.device)
    flat.index_fill_(0, torch.where(row < rows, place, size), True)
    return flat[:size].view(matrices, rows, n, n).expand(heads, -1, -1, -1)


def ones_of_heads(batch: Batch, heads: int, attend_self: bool, split: bool) -> list[Entries]:
    """The ones of `expert_of_heads` alone, for each head: of amount 1, or 0 where another head has them."""
    n = TOKENS_PER_STEP * batch.longest
    row, recalling, recalled = _ones(batch, attend_self)
    place, order = torch.sort(row * n + recalling, stable=True)
    recalled = recalled[order]
    owner = head_of(recalled, place % n, heads)
    return [
        Entries(place, recalled, (owner == head).float() if split else torch.ones_like(place, dtype=torch.float32), n)
        for head in range(heads)
    ]
