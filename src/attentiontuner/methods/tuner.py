"""AttentionTuner, the paper's method, and the vanilla Transformer, the same network without pairs."""

from typing import TYPE_CHECKING

from attentiontuner.methods.method import Method
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import TransformerConfig

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.data.batch import Batch
    from attentiontuner.data.blocks import Block, Entries
    from attentiontuner.models.attention import Watched
    from attentiontuner.models.network import Output
    from attentiontuner.runs.config import TrainConfig

AT_ONCE, IN_A_BLOCK = 2**18, 2**20
"""Attention weights that the memory loss looks at together where they are all there are, and else in a block: more of
them than stay in a processor's cache, for then there are fewer blocks."""


class Vanilla(Method):
    """Behavioural cloning alone."""

    name = "vanilla"
    title = "Vanilla Transformer"
    network = TransformerConfig
    pairs = False

    def watchable(self, config: "TrainConfig") -> tuple[Head, ...]:
        """The supervised heads, else those of the first layer."""
        return config.supervised() or tuple(Head(0, head) for head in range(config.model.heads))  # type: ignore[attr-defined]


class AttentionTuner(Vanilla):
    """Attention heads are led to the pairs: L = L_IL + λ · L(A, E), Equation 4, averaged over the supervised heads."""

    name = "attentiontuner"
    title = "AttentionTuner"
    pairs = True
    without_pairs = "vanilla"
    memory_weight = 10.0

    def recall_strength(self, output: "Output", block: "Block") -> "Tensor":
        """The logarithm of the largest weight of any supervised head, of observations on observations."""
        import torch

        heads: list[Watched] = list(output.watched.values())
        return torch.stack([head.of_observations(block) for head in heads]).amax(0)

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        from attentiontuner.data.tokens import TOKENS_PER_STEP, expert_of_heads, ones_of_heads
        from attentiontuner.models.kernels import LARGEST_HEAD, fuses

        heads: list[Watched] = list(output.watched.values())
        entries = TOKENS_PER_STEP**2 * batch.totals.squares
        memory = entries.new_zeros(())
        told = (batch, len(heads), config.attend_self, config.split_pairs)
        in_one_pass = fuses(heads[0].projected) and heads[0].projected.shape[-1] <= LARGEST_HEAD
        if in_one_pass or batch.rows * (TOKENS_PER_STEP * batch.longest) ** 2 <= AT_ONCE:
            for watched, expert in zip(heads, expert_of_heads(*told), strict=True):
                memory = memory + _memory_sum(watched, expert, batch, in_one_pass) / entries / len(heads)
        else:
            for watched, ones in zip(heads, ones_of_heads(*told), strict=True):
                memory = memory + _memory_sum_in_blocks(watched, ones, batch) / entries / len(heads)
        return memory


def _memory_sum(watched: "Watched", expert: "Tensor", batch: "Batch", in_one_pass: bool) -> "Tensor":
    """Equation 4's sum over the entries of the annotated episodes, for one head and its bool `[B, n, n]`."""
    from attentiontuner.data.tokens import TOKENS_PER_STEP
    from attentiontuner.losses import LOG_FLOOR, memory_cross_entropy
    from attentiontuner.models.kernels import memory_sum

    if in_one_pass:
        projected, head, layout = watched
        return memory_sum(projected, head, layout.bounds, expert, batch.annotated, LOG_FLOOR)
    rows = memory_cross_entropy(watched.log_attention(), expert)  # [B, n]
    return (rows * batch.counted(TOKENS_PER_STEP)).sum()


def _memory_sum_in_blocks(watched: "Watched", ones: "Entries", batch: "Batch") -> "Tensor":
    """The same from the ones alone, where there are too many entries to be held."""
    from attentiontuner.data.tokens import TOKENS_PER_STEP
    from attentiontuner.losses import memory_sum

    query, key = watched.asked()
    return memory_sum(query, key, ones, batch.counted(TOKENS_PER_STEP), batch.blocks(IN_A_BLOCK, TOKENS_PER_STEP))
