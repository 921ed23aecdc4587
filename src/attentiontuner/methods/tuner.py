"""AttentionTuner, the paper's method, and the vanilla Transformer, the same network without pairs."""

from typing import TYPE_CHECKING

from attentiontuner.methods.method import Method
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import TransformerConfig

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.data.batch import Batch
    from attentiontuner.models.attention import Watched
    from attentiontuner.models.network import Output
    from attentiontuner.runs.config import TrainConfig


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

    def recall_strength(self, output: "Output") -> "Tensor":
        """The logarithm of the largest weight of any supervised head, of observations on observations."""
        import torch

        from attentiontuner.data.tokens import TOKENS_PER_STEP

        heads: list[Watched] = list(output.watched.values())
        largest = torch.stack([head.log_attention() for head in heads]).amax(0)  # [B, n, n]
        return largest[:, ::TOKENS_PER_STEP, ::TOKENS_PER_STEP]

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        from attentiontuner.data.tokens import TOKENS_PER_STEP, expert_of_heads

        heads: list[Watched] = list(output.watched.values())
        expert = expert_of_heads(batch, len(heads), config.attend_self, config.split_pairs)
        entries = TOKENS_PER_STEP**2 * batch.totals.squares
        memory = entries.new_zeros(())
        for watched, own in zip(heads, expert, strict=True):
            memory = memory + _memory_sum(watched, own, batch) / entries / len(heads)
        return memory


def _memory_sum(watched: "Watched", expert: "Tensor", batch: "Batch") -> "Tensor":
    """Equation 4's sum over the entries of the annotated episodes, for one head and its bool `[B, n, n]`."""
    from attentiontuner.data.tokens import TOKENS_PER_STEP
    from attentiontuner.losses import LOG_FLOOR, memory_cross_entropy
    from attentiontuner.models.kernels import LARGEST_HEAD, fuses, memory_sum

    projected, head, layout = watched
    if fuses(projected) and projected.shape[-1] <= LARGEST_HEAD:
        return memory_sum(projected, head, layout.bounds, expert, batch.annotated, LOG_FLOOR)
    rows = memory_cross_entropy(watched.log_attention(), expert)  # [B, n]
    return (rows * batch.counted(TOKENS_PER_STEP)).sum()
