"""What training minimises: pure functions with named terms.

Legend: B episodes, S steps, n tokens of the longest episode, A attention weights, E the expert's matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attentiontuner.data.batches import Batch
from attentiontuner.data.tokens import TOKENS_PER_STEP
from attentiontuner.errors import UserError
from attentiontuner.models.fused import LARGEST_HEAD, LOG_FLOOR, fuses, memory_sum
from attentiontuner.models.transformer import Output, Recalled, Watched


@dataclass(frozen=True)
class LossTerms:
    """The loss of a batch and what it is made of; all are scalar tensors on the device.

    Attributes:
        imitation: mean negative log-likelihood of the expert's actions over all steps.
        memory: Equation 4 over the annotated episodes, averaged over the supervised heads, or `recall_loss`; 0 without
            any.
        total: imitation + memory_weight · memory.
        correct: number of steps at which the expert's action is the likeliest.
        steps: number of steps in this batch (in this process).
    """

    imitation: Tensor
    memory: Tensor
    total: Tensor
    correct: Tensor
    steps: Tensor


def loss_terms(output: Output, batch: Batch, memory_weight: float) -> LossTerms:
    """The training loss: L = L_IL + λ · L(A, E). Sums are divided by the batch's totals over all processes."""
    logits = output.logits.float()
    real = batch.real
    negative_log_likelihood = F.cross_entropy(logits, batch.actions, reduction="none")
    imitation = (negative_log_likelihood * real).sum() / batch.totals[0]
    memory = torch.zeros((), device=logits.device)
    if output.watched:
        expert = batch.expert(len(output.watched))
        for watched, own in zip(output.watched.values(), expert, strict=True):
            memory = memory + _memory_sum(watched, own, batch) / batch.totals[1] / len(output.watched)
    if output.recalled is not None:
        memory = recall_loss(output.recalled, batch)
    correct = ((logits.argmax(-1) == batch.actions) & real).sum()
    return LossTerms(imitation, memory, imitation + memory_weight * memory, correct, real.sum())


def _memory_sum(watched: Watched, expert: Tensor, batch: Batch) -> Tensor:
    """Equation 4's sum over the entries of the annotated episodes, for one head and its bool `[B, n, n]`."""
    projected, head, layout = watched
    if fuses(projected) and projected.shape[-1] <= LARGEST_HEAD:
        return memory_sum(projected, head, layout.bounds, expert, batch.annotated)
    token = torch.arange(batch.tokens, device=expert.device)
    counted = (token < TOKENS_PER_STEP * batch.lengths[:, None]) & batch.annotated[:, None]  # [B, n] rows that count
    return (memory_cross_entropy(watched.log_attention(), expert) * counted).sum()


def recall_loss(recalled: Recalled, batch: Batch) -> Tensor:
    """The loss of a recall head, by its kind, over the annotated episodes.

    `count`: Σ_q [exp(LSE_q) - Σ_p m_qp · s_qp], whose gradient is exp(s) - m: at its lowest, exp(s_qp) = m_qp.
    `rows`: cross-entropy of each row's weights beside a null key, with multiplicities and one for the null key.
    `binary`: the paper's cross-entropy of the weights with the pairs, multiplicities aside.
    All have what scores were cut off by added, and are divided by the number of things that as many annotated episodes
    recall on average: a task whose steps recall much would otherwise drown the imitation loss.
    """
    wanted, scores = batch.recalled(), recalled.scores
    token = torch.arange(batch.longest, device=scores.device)
    counted = (token < batch.lengths[:, None]) & batch.annotated[:, None]  # [B, T] rows that count
    if recalled.loss == "count":
        rows = recalled.mass - (wanted * scores).sum(-1)
    else:
        log_all = torch.logaddexp(scores.logsumexp(-1), torch.zeros_like(recalled.mass))
        if recalled.loss == "rows":
            rows = (wanted.sum(-1) + 1) * log_all - (wanted * scores).sum(-1)
        else:
            log_weights = scores - log_all[..., None]
            log_rest = torch.log1p(-log_weights.exp().clamp(max=1 - 1e-6))
            rows = -torch.where(wanted > 0, log_weights, log_rest).sum(-1)
    return ((rows + recalled.cut) * counted).sum() / batch.totals[2]


def memory_loss(attention: Tensor, expert: Tensor, lengths: Tensor | Sequence[int]) -> Tensor:
    """Equation 4: binary cross-entropy between the attention weights of one head and E, both `[B, n, n]`.

    Row i of both is what token i attends to. E is one, or True, where `data.tokens.expert_matrix` has a one; `lengths`
    `[B]` are the trajectories' own n in tokens. The mean over the n × n entries of every trajectory's own n; the upper
    triangle, where both sides are 0, counts among the entries. Over a batch: the sum of all entries divided by their
    number.
    """
    lengths = torch.as_tensor(lengths)
    shape = tuple(attention.shape)
    if len(shape) != 3 or shape[1] != shape[2] or tuple(expert.shape) != shape or tuple(lengths.shape) != shape[:1]:
        raise UserError(
            f"memory_loss: attention {shape}, expert {tuple(expert.shape)} and lengths {tuple(lengths.shape)} must be "
            "[B, n, n], [B, n, n] and [B]; of several heads give one at a time"
        )
    # On a GPU they are taken as they are: looking would mean to wait for it.
    if lengths.device.type == "cpu" and len(lengths) and int(lengths.max()) > shape[1]:
        raise UserError(f"memory_loss: a trajectory of {int(lengths.max())} tokens, but attention over {shape[1]}")
    token = torch.arange(shape[1], device=attention.device)
    inside = token < lengths.to(attention.device)[:, None]
    inside = inside[:, :, None] & inside[:, None, :]
    entry = torch.where(expert > 0, _log(attention), _log(1 - attention))
    return -torch.where(inside, entry, 0).sum() / inside.sum()


def _log(weight: Tensor) -> Tensor:
    """log with a floor, and with no gradient where there is nothing."""
    return (
        torch.where(weight > 0, weight.clamp(min=torch.finfo(weight.dtype).tiny), 1).log().where(weight > 0, LOG_FLOOR)
    )


def memory_cross_entropy(log_attention: Tensor, expert: Tensor) -> Tensor:
    """Equation 4's sum over each row, from log-weights: `[B, n, n]` and bool `[B, n, n]` → `[B, n]`.

    1 - A loses all its digits when A is close to 1, which is where training wants it. Only a row's largest weight can
    be above one half, and 1 minus it is the sum of the others: the logarithm of that sum is taken directly.
    """
    finite = log_attention.clamp(min=_NOTHING)
    largest = log_attention.argmax(-1, keepdim=True)
    others = finite.scatter(-1, largest, _NOTHING)
    log_rest = torch.log1p(-others.exp()).scatter(-1, largest, others.logsumexp(-1, keepdim=True).clamp(min=LOG_FLOOR))
    return -torch.where(expert, log_attention, log_rest).sum(-1)


_NOTHING = -1e4
"""The log of a weight that is none, but finite: a row of one key has no others, and its gradient must not be NaN."""
