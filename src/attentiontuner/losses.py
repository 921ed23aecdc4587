"""What training minimises: pure functions with named terms.

Legend: B episodes, S steps, T steps and n tokens of the longest episode, A attention weights, E the expert's matrix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import checkpoint

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch, Layout
from attentiontuner.data.blocks import Block, Entries
from attentiontuner.models.kernels import product
from attentiontuner.models.network import Output

LOG_FLOOR = -100.0
"""The logarithm of nothing, as PyTorch's binary cross-entropy has it."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch and what it is made of; all are scalar tensors on the device.

    Attributes:
        total: what is minimised.
        terms: its parts by name, before they are weighted; the same names in every batch.
        measures: sums over the steps of what the action head measures, by name: at how many the expert's action is the
            likeliest (`accuracy`), or likelihoods and errors.
        steps: number of steps in this batch (in this process).
    """

    total: Tensor
    terms: Mapping[str, Tensor]
    measures: Mapping[str, Tensor]
    steps: Tensor


def imitation_loss(output: Output, batch: Batch) -> Tensor:
    """Mean loss of the action head, of discrete actions their negative log-likelihood, over the steps of the whole
    batch (over all processes)."""
    return (output.head.loss(output.distribution, batch) * batch.learned).sum() / batch.totals.steps


def measured(output: Output, batch: Batch, which: Tensor) -> dict[str, Tensor]:
    """Sums of what the action head measures, by name, over the steps that are true in `which` `[S]`."""
    sums = torch.where(which[:, None], output.head.measure(output.distribution, batch.actions), 0).sum(0)
    return dict(zip(output.head.measures, sums, strict=True))


def recalled_as_wanted(strength: Tensor, wanted: Tensor, first: int = 0) -> Tensor:
    """Which rows recall what they should: every step that is wanted more strongly than every earlier one that is not.

    How strongly each step from `first` on recalls each other one, and the multiplicities wanted, `[B, Q, T]` each →
    bool `[B, Q]`; False where nothing is wanted.
    """
    past = torch.ones(strength.shape[-2:], dtype=torch.bool, device=strength.device).tril(first - 1)
    least = strength.masked_fill(wanted == 0, torch.inf).amin(-1)
    most = strength.masked_fill((wanted > 0) | ~past, -torch.inf).amax(-1)
    return (least > most) & (wanted > 0).any(-1)


def counting_loss(mass: Tensor, told: Tensor, cut: Tensor) -> Tensor:
    """Σ_p exp(s_qp) - Σ_p m_qp · s_qp for each row q, with what scores were cut off by added: the two sums, mass and
    what is told by the multiplicities m, and the cut → the same shape. Its gradient is exp(s) - m: at its lowest,
    exp(s_qp) = m_qp."""
    return mass - told + cut


def keep_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Binary cross-entropy of which steps will be recalled from beyond their window, from logits `[S]`: half of it is
    of those that will, half of the others, however few there are of either. Over the steps of annotated episodes that
    are learned from; 0 where the batch has no windows."""
    if batch.window is None:
        return logits.new_zeros(())
    entry = F.binary_cross_entropy_with_logits(logits, batch.window.far.to(logits.dtype), reduction="none")
    share = torch.where(batch.window.far, 0.5 / batch.window.kept, 0.5 / batch.window.others)
    return (entry * share * (batch.learned & batch.annotated[batch.row])).sum()


def memory_loss(attention: Tensor, expert: Tensor, lengths: Tensor | Sequence[int]) -> Tensor:
    """Equation 4: binary cross-entropy between the attention weights of one head and E, both `[B, n, n]`.

    Row i of both is what token i attends to. E is one, or True, where `data.tokens.expert_matrices` has it; `lengths`
    `[B]` are the trajectories' own n in tokens, 0 for one that takes no part. The mean over the n × n entries of every
    trajectory's own n; the upper triangle, where both sides are 0, counts among the entries. Over a batch: the sum of
    all entries divided by their number. Computed in float32, or float64 where that is given.

    A weight that has become exactly 0 has no gradient: where there are scores take `memory_loss_from_scores`.
    """
    expert, inside = _checked("memory_loss", "attention", attention, expert, lengths)
    weights = _at_least_float32(attention)
    entry = torch.where(expert, _log(weights), _log(1 - weights))
    return -torch.where(inside, entry, 0).sum() / inside.sum().clamp(min=1)


def memory_loss_from_scores(scores: Tensor, expert: Tensor, lengths: Tensor | Sequence[int]) -> Tensor:
    """`memory_loss` of the causal softmax of one head's scores `[B, n, n]`, without its losses of precision.

    Scores are what the softmax is taken of: query · key, scaled. What they hold above the diagonal and in the padding,
    which is at the end, does not count. `expert` and `lengths` as in `memory_loss`.
    """
    expert, inside = _checked("memory_loss_from_scores", "scores", scores, expert, lengths)
    past = inside.tril()
    own = _at_least_float32(scores)
    own = own.masked_fill(~past, torch.finfo(own.dtype).min)  # finite: a row of padding has a softmax too
    rows = memory_cross_entropy(own.log_softmax(-1), expert & past)  # [B, n]
    return torch.where(inside.any(-1), rows, 0).sum() / inside.sum().clamp(min=1)


def _at_least_float32(given: Tensor) -> Tensor:
    return given.to(torch.promote_types(given.dtype, torch.float32))


def _checked(
    function: str, name: str, given: Tensor, expert: Tensor, lengths: Tensor | Sequence[int]
) -> tuple[Tensor, Tensor]:
    """E, and which entries are a trajectory's own, bool `[B, n, n]` each on the device of what is given."""
    for what, array in ((name, given), ("expert", expert)):
        if not isinstance(array, Tensor):
            raise UserError(f"{function}: {what} is a {type(array).__name__}: give a tensor, torch.as_tensor({what})")
    lengths = torch.as_tensor(lengths)
    shape = tuple(given.shape)
    if len(shape) != 3 or shape[1] != shape[2] or tuple(expert.shape) != shape or tuple(lengths.shape) != shape[:1]:
        raise UserError(
            f"{function}: {name} {shape}, expert {tuple(expert.shape)} and lengths {tuple(lengths.shape)} must be "
            "[B, n, n], [B, n, n] and [B]; of several heads give one at a time"
        )
    if not given.is_floating_point():
        raise UserError(f"{function}: {name} of {given.dtype}: give floating-point numbers")
    # On a GPU they are taken as they are: looking would mean to wait for it.
    if lengths.device.type == "cpu" and len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= shape[1]:
        wrong = int(lengths.max()) if int(lengths.min()) >= 0 else int(lengths.min())
        raise UserError(f"{function}: a trajectory of {wrong} tokens, but {name} over {shape[1]}")
    if expert.device.type == "cpu" and (expert.triu(1) > 0).any():
        row, i, j = (expert.triu(1) > 0).nonzero()[0].tolist()
        raise UserError(f"{function}: expert[{row}, {i}, {j}] is one, but token {i} cannot attend to the later {j}")
    token = torch.arange(shape[1], device=given.device)
    inside = token < lengths.to(given.device)[:, None]
    return expert.to(given.device) > 0, inside[:, :, None] & inside[:, None, :]


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


# --- Equation 4 in blocks --------------------------------------------------------------------------------------------


def memory_sum(query: Tensor, key: Tensor, ones: Entries, counted: Tensor, blocks: Sequence[Block]) -> Tensor:
    """Equation 4's sum over the entries of one head, from its queries and keys `[B, n, h]`, which are scaled here.

    `ones` are those of E, `counted` `[B, n]` says which tokens take part, all or none of an episode, and `blocks` are
    of tokens. Nothing larger than a block is held: the gradient is computed with the value, so that no weight has to be
    computed twice.
    """
    return _MemorySum.apply(query.float(), key.float(), ones, counted, blocks)  # type: ignore[no-any-return, no-untyped-call]


class _MemorySum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, ones: Entries, counted: Tensor, blocks: Sequence[Block]
    ) -> Tensor:
        query, key = query * query.shape[-1] ** -0.5, key.contiguous()
        learned = any(ctx.needs_input_grad)
        of_query, of_key = (torch.zeros_like(each) if learned else None for each in (query, key.mT))
        total = query.new_zeros(())
        for block in reversed(blocks):  # the longest past first, in whose memory there is room for the others
            own = counted[block.rows, block.asks]
            if own.device.type == "cpu" and not own.any():
                continue
            with _disable_current_modes():  # who listens to every operation hears of a block once: they are many
                asking, past = query[block.rows, block.asks], key[block.rows, block.past]
                rows, gradient = memory_rows(_block_scores(asking, past, block), *ones.within(block))
                total += (rows * own).sum()
                if of_query is not None and of_key is not None:
                    whose = own[:, :1, None]  # padding needs no more: its queries are 0, and nobody sees it
                    of_query[block.rows, block.asks] = product(gradient, past) * whose
                    of_key[block.rows, :, block.past] += product((asking * whose).mT, gradient)
        ctx.save_for_backward(of_query, of_key)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        of_query, of_key = ctx.saved_tensors
        return of_query * (of_query.shape[-1] ** -0.5 * upstream[0]), of_key.mT * upstream[0], None, None, None


def _block_scores(asking: Tensor, past: Tensor, block: Block) -> Tensor:
    """The scores of a block's tokens `[E, Q, h]` on what they look at `[E, P, h]`; -inf in their future."""
    scores = product(asking, past.mT)
    size = block.end - block.start
    future = torch.ones(size, size, dtype=torch.bool, device=scores.device).triu_(1)
    scores[:, :, block.start :].masked_fill_(future, -torch.inf)
    return scores


def memory_rows(scores: Tensor, place: Tensor, past: Tensor, amount: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 4's sum over each row and its gradient by the scores `[E, Q, P]`: `[E, Q]` and `[E, Q, P]`.

    The ones of E have their rows' places in `[E · Q]` and their columns, `[k]` each; those of amount 0 are none. As in
    `memory_cross_entropy` 1 minus a weight above one half is the sum of the others.
    """
    flat = scores.flatten(0, 1)  # rows by columns
    weights = flat.softmax(-1)
    most = weights.amax(-1)
    told, whole = flat[place, past], flat.amax(-1) - most.log()  # whole: the logarithm of the row's sum
    apart, column = _those(most > 0.5), torch.full_like(most, -1, dtype=torch.int64)
    if len(apart):  # rows whose largest weight is taken out of them, to be counted by itself
        column[apart] = flat.index_select(0, apart).argmax(-1)
        weights[apart, column[apart]] = 0
    others, odds = weights.sum(-1), torch.sub(1, weights)
    torch.div(weights, odds, out=odds)  # A / (1 - A): log1p of it is -log(1 - A)
    slope = odds.sum(-1)
    rows = _sums_of_logs(weights, odds, others, slope)
    # The ones that are still there: -log A in place of -log(1 - A).
    ones, own = amount * (past != column[place]), odds[place, past]
    there = ones * (1 + own)
    rows.index_add_(0, place, ones * (whole[place] - told - own.log1p()))
    slope.index_add_(0, place, -there)
    taken = None
    if len(apart):
        wanted = (torch.zeros_like(most).index_add_(0, place, amount - ones) > 0)[apart]
        taken = _taken_out(flat.index_select(0, apart), column[apart], wanted, whole[apart], (others / most)[apart])
        rows.index_add_(0, apart, taken.value)
        slope.index_add_(0, apart, -taken.counted)
    gradient = odds.addcmul_(weights, slope[:, None], value=-1)
    gradient.index_put_((place, past), -there, accumulate=True)
    if taken is not None:
        gradient.index_add_(0, apart, taken.others, alpha=-1)
        gradient[apart, column[apart]] = -wanted.float() - (slope * most)[apart]
    return rows.view(scores.shape[:2]), gradient.view_as(scores)


class TakenOut(NamedTuple):
    """What the largest weights of some rows add: their losses `[R]`, whether they learn from them (0 or 1, `[R]`), and
    what each learns about the others, `[R, P]`."""

    value: Tensor
    counted: Tensor
    others: Tensor


def _taken_out(scores: Tensor, largest: Tensor, wanted: Tensor, whole: Tensor, others: Tensor) -> TakenOut:
    """The largest weight of each row of scores `[R, P]`, which are overwritten: as a one by its own logarithm, else by
    that of the others, unless these are next to nothing.

    Of every row `[R]` are given its place, whether it is a one, the logarithm of the row's sum, and the other weights'
    sum in multiples of the largest."""
    rest = scores.scatter_(-1, largest[:, None], -torch.inf)
    log_rest = rest.logsumexp(-1) - whole
    by_others = (log_rest > LOG_FLOOR) & ~wanted
    value = torch.where(wanted, others.log1p(), -log_rest.clamp(min=LOG_FLOOR))
    return TakenOut(value, (wanted | by_others).float(), torch.where(by_others[:, None], rest.softmax(-1), 0))


def _those(which: Tensor) -> Tensor:
    """The numbers of the rows that are true; of all rows on a device that one would have to wait for."""
    return which.nonzero()[:, 0] if which.device.type == "cpu" else torch.arange(len(which), device=which.device)


SMALL = 2**-7
"""Weights up to it are small: the fourth power and those above it do not count."""


def _sums_of_logs(weights: Tensor, odds: Tensor, others: Tensor, slope: Tensor) -> Tensor:
    """Σ -log(1 - A) of each row of weights `[R, P]`, none above one half, from their odds and the sums of both `[R]`.

    It is Σ A + A²/2 + A³/3 + …, and the odds are A + A² + A³ + …, so that of small weights no logarithm is needed.
    """
    squares: Tensor = torch.linalg.vector_norm(weights, dim=-1).square()
    rows = others + squares / 2 + (slope - others - squares) / 3
    large = _those(weights.amax(-1) > SMALL)
    sums = odds.index_select(0, large).log1p().sum(-1)
    return rows.index_copy_(0, large, sums)


# --- memories that do not grow ---------------------------------------------------------------------------------------

FOUND_TOGETHER = 2**18
"""Scores that a probe is taught by together."""

OTHERS = 64
"""Recalled steps of all episodes that a probe has to tell from those of its own."""


class Others(NamedTuple):
    """Steps of all episodes of a batch that are recalled: their keys `[N, D]`, and which observation each saw `[N]`."""

    key: Tensor
    saw: Tensor


def retrieval_loss(query: Tensor, key: Tensor, batch: Batch) -> Tensor:
    """How far a probe is from the pairs: InfoNCE over the earlier steps of the episode and over what is recalled in
    others, mean over the things recalled.

    A step that asks, with its query, gives every earlier step of its episode, with its key (`[B, T, D]` each), a share
    of 1: the softmax of their products. Minimised is Σ_p m_qp · -log share_qp with the multiplicities m. A red ball is
    easily told from a corridor; that it must be told from green ones, `OTHERS` see to: some of what is recalled in the
    batch, but for observations equal to that of p. Only what has pairs is computed, in blocks, of which none is held
    (on a GPU all steps of the blocks).
    """
    if not len(batch.pairs.p):
        return 0 * query.sum()
    saw = torch.arange(len(batch.time), device=query.device) if batch.frame is None else batch.frame
    saw = Layout.of(batch, per_step=1).pad(saw)
    entries, others, total = batch.entries(), _others(key, saw, batch), query.new_zeros(())
    for block in batch.blocks(FOUND_TOGETHER):
        told = entries.within(block)
        if len(told[0]):
            own = (query[block.rows, block.asks], key[block.rows, block.past], saw[block.rows, block.past])
            total = total + checkpoint(
                _not_found, *own, *told, block.start, others, use_reentrant=False, preserve_rng_state=False
            )
    return total / batch.totals.things


def _others(key: Tensor, saw: Tensor, batch: Batch) -> Others:
    """The steps recalled by `OTHERS` of the batch's pairs, evenly among them and of few some several times; from keys
    `[B, T, D]` and what was seen `[B, T]`."""
    row, p, _, _ = batch.pairs
    pairs = (row < batch.rows).sum()
    chosen = torch.arange(OTHERS, device=key.device) * pairs // OTHERS
    place = (row * batch.longest + p).index_select(0, chosen).clamp(max=saw.numel() - 1)
    return Others(key.flatten(0, 1).index_select(0, place), saw.flatten().index_select(0, place))


def _not_found(
    asking: Tensor,
    past: Tensor,
    saw: Tensor,
    place: Tensor,
    recalled: Tensor,
    amount: Tensor,
    start: int,
    others: Others,
) -> Tensor:
    """Σ m · -log share of a block: of the steps from `start` on `[E, Q, D]`, the past `[E, P, D]` with what it saw `[E,
    P]`, and the pairs, `[k]` each, with the places of their steps in `[E · Q]`."""
    step = torch.arange(past.shape[1], device=past.device)
    asks = step[start:]
    episode = torch.div(place, len(asks), rounding_mode="floor")
    wanted = saw.flatten().index_select(0, episode * len(step) + recalled)
    if len(asking) == 1 and past.device.type == "cpu":  # the steps that have pairs, and no others
        own, place = place.unique(return_inverse=True)
        asking, asks = asking[:, own], asks[own]
    scores = torch.bmm(asking.float(), past.float().mT).masked_fill(step >= asks[:, None], -BEYOND)
    found = scores.flatten().index_select(0, place * len(step) + recalled)
    within = scores.logsumexp(-1).flatten().index_select(0, place)
    query = asking.flatten(0, 1).index_select(0, place)
    elsewhere = (query @ others.key.mT).masked_fill(others.saw == wanted[:, None], -BEYOND).logsumexp(-1)
    return (amount * (torch.logaddexp(within, elsewhere) - found)).sum()


BEYOND = 1e4
"""Minus it is the score of what cannot be recalled: finite, so that a first step has a gradient too."""


def read_loss(steps: Tensor, scores: Tensor, batch: Batch) -> Tensor:
    """How far slots are from the pairs: Σ_p m_qp · -log share_qp, mean over the things recalled. Of each step and slot
    `[B, T, K]` are given which step it holds and the log of the share that was read of it. What no slot holds does not
    count: to hold it is the write gate's business."""
    told = _told(batch)
    step, share = (each.flatten(0, 1).index_select(0, told.asked) for each in (steps, scores))
    held = (step == told.past[:, None]) & (share > -BEYOND / 2)
    return -(told.amount[:, None] * torch.where(held, share, 0)).sum() / batch.totals.things


def write_loss(write: Tensor, batch: Batch) -> Tensor:
    """Logits of a write gate `[B, T]` against whether a step is recalled later, in the annotated episodes: mean over
    the things recalled of what is to be written, plus mean over the steps of what is not."""
    told = _told(batch)
    wanted = torch.zeros(write.numel(), device=write.device).index_add(0, told.recalled, told.amount).view_as(write)
    own = batch.counted() & (wanted == 0)
    missed = (wanted * F.softplus(-write.float())).sum() / batch.totals.things
    return missed + (own * F.softplus(write.float())).sum() / batch.totals.steps


def fading_loss(faded: Tensor, batch: Batch) -> Tensor:
    """Nats by which a thing has faded when it is recalled, mean over the things; `faded` `[B, T]` counts them from the
    beginning of the episode. More than a few are not told apart much: log(1 + nats)."""
    told = _told(batch)
    now, then = (faded.flatten().index_select(0, place) for place in (told.asked, told.recalled))
    return (told.amount * (now - then).clamp(min=0).log1p()).sum() / batch.totals.things


class Told(NamedTuple):
    """The pairs of a batch, `[K]` each: amounts, 0 for those that only fill the shape, the places in `[B · T]` of the
    steps that recall and of those recalled, and the numbers of the latter in their episodes."""

    amount: Tensor
    asked: Tensor
    recalled: Tensor
    past: Tensor


def _told(batch: Batch) -> Told:
    row, p, q, amount = batch.pairs
    there = row < batch.rows
    first, past = row.clamp(max=batch.rows - 1) * batch.longest, p * there
    return Told(amount * there, (first + q) * there, first + past, past)
