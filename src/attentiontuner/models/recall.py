"""Recall heads: attention that learns where to look and how much. The whole network, top to bottom.

The paper's head spreads one unit of attention over the past, so it can say which steps matter but not how many things
are there. Here the scores s of one head are trained so that exp(s_qp) is the *number* of things at step p that matter
at step q; the row's mass c_q = Σ_p exp(s_qp) is the number recalled in all, and the network can read it.

- Where: the query at q meets every cell of the observation at p, not one summary of it, and the position of p.
- How much: c_q enters the residual stream as cos and sin of 2πc/τ for several periods τ. Things are whole: what each
  step adds to it is rounded, so that the small errors of many steps do not add up.
- What: every cell in view is told whether the observations recalled hold its like, and what they say of it.
- Nothing: a null key of score 0 and value 0 takes what is left, so a row may recall nothing.

Legend: B episodes, S steps packed end to end, T steps of the longest, Q steps that ask, P past steps, U distinct
observations, D = d_model, H heads of size h = D / H, M numbers an observation leaves in memory, K cells of an
observation that have a kind, k marks, R rows of a streaming cache, n tokens a step. A token is an observation together
with the action before it (n = 1), unless that action is to be a token of its own in front of it (n = 2).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.models.actions import action_head
from attentiontuner.models.attention import causal_attention
from attentiontuner.models.embedders import PositionalEmbedding
from attentiontuner.models.heads import Head
from attentiontuner.models.memory import observation_memory
from attentiontuner.models.network import Network, NetworkConfig, Observed, Output

MOST = 4.0
"""The largest score: exp(4) things at one step are more than any step holds."""

NEVER = -1e4
"""The score of a step that cannot be recalled: the future and the present."""

RECALL_HEAD = Head(0, 0)
"""The one head that recalls."""

Keys = Literal["cells", "observation"]
Gates = Literal["scalar", "full"]
RecallLoss = Literal["count", "rows", "binary"]


@dataclass(frozen=True)
class RecallConfig(NetworkConfig):
    """Sizes, and for studies what can be taken away.

    Attributes:
        layers: four for images where nothing is said, two for symbol grids and vectors, which need no more.
        periods: periods τ, in things, of the read-out of the amount; empty: the amount is not read.
        whole: what is read adds up whole numbers, which pairs teach; None: where there are pairs. Not where the loss is
            `binary`: its scores count nothing.
        bias: what every score starts at. At -9 the cells of a past observation add up to next to nothing; a higher
            start makes the first steps push all keys down.
        keys: `cells`: the query meets every cell of an observation; `observation`: one product of query and key for it.
        gates: `scalar`: two numbers say how much an observation is worth recalling and a step is worth asking;
            `full`: a product of query and key for the whole observation instead.
        when: a step may ask for a position p as well (if there are any); without it only content and gates say where.
        marks: numbers that a recalled step hands to those cells in view whose kind it holds; 0: they are not told.
            Only symbol grids have kinds.
        loss: `count`; `rows`: cross-entropy over each row with multiplicity and the null key; `binary`: the paper's.
        standardise: centre and scale the input with the training set's statistics.
        rarity: with the same statistics, let rare kinds of cell count more in a match.
        token_dropout: dropout on the tokens before the head. The mean of exp is not exp of the mean: leave it at 0.
        carry_action: tokens carry the action before them.
        action_tokens: that action is a token of its own instead, as in the paper. Only observations are recalled.
        positions: steps know their number. Without it episodes may be longer than those of the training set.
    """

    architecture: ClassVar[str] = "recall"

    d_model: int = 128
    layers: int = None  # type: ignore[assignment]  # never None once it is made
    heads: int = 2
    feedforward: int = 512
    dropout: float = 0.1
    periods: tuple[float, ...] = (2, 3, 4, 6, 8, 16)
    whole: bool | None = None
    bias: float = -9.0
    keys: Keys = "cells"
    gates: Gates = "scalar"
    when: bool = True
    marks: int = 4
    loss: RecallLoss = "count"
    standardise: bool = True
    rarity: bool = True
    token_dropout: float = 0.0
    carry_action: bool = True
    action_tokens: bool = False
    positions: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "periods", tuple(float(period) for period in self.periods))
        if self.layers is None:
            object.__setattr__(self, "layers", 4 if "image" in self.observation.kinds else 2)
        for name in ("d_model", "layers", "heads", "feedforward"):
            self.check_range(name, getattr(self, name) >= 1, "1 or more")
        self.check_range("d_model", self.d_model % (2 * self.heads) == 0, f"a multiple of twice {self.heads} heads")
        for name in ("dropout", "token_dropout"):
            self.check_range(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        for name, kind in (("keys", Keys), ("gates", Gates), ("loss", RecallLoss)):
            self.check_range(name, getattr(self, name) in get_args(kind), f"one of {', '.join(get_args(kind))}")
        self.check_range("marks", self.marks >= 0, "0 or more")
        self.check_range("periods", min(self.periods, default=1) > 0, "all above 0")

    def build(self) -> "RecallTransformer":
        return RecallTransformer(self)

    @property
    def tokens_per_step(self) -> int:
        """n: one token, or two with actions apart; the observation is the last of them."""
        return 2 if self.action_tokens else 1

    @property
    def reads_whole(self) -> bool:
        """Whether the network reads an amount, and as a sum of whole numbers."""
        return self.whole is not False and bool(self.periods) and self.loss != "binary"


# --- the head that recalls -------------------------------------------------------------------------------------------


class Recall(nn.Module):
    """Scores of past observations, the amount recalled as something to read, and cells in view recognised.

    `cells` is K: how many cells of an observation have a kind."""

    def __init__(self, config: RecallConfig, cells: int) -> None:
        super().__init__()
        self.config = config
        self.bias = nn.Parameter(torch.tensor(float(config.bias)))
        self.asks = nn.Linear(config.d_model, 1)
        self.offers = nn.Linear(config.d_model, 1)
        self.when = nn.Linear(config.d_model, config.d_model) if config.when and config.positions else None
        for gate in (self.asks, self.offers, *([self.when] if self.when else [])):
            nn.init.zeros_(gate.weight)
            nn.init.zeros_(gate.bias)
        self.amount = nn.Linear(2 * len(config.periods), config.d_model) if config.periods else None
        self.periods: Tensor
        self.register_buffer("periods", torch.tensor(config.periods), persistent=False)
        self.recognises = config.marks > 0 and cells > 0
        if self.recognises:
            self.marks = nn.Linear(config.d_model, config.marks)
            nn.init.ones_(self.marks.bias)  # what a step says at first: it was here
            self.recognised = nn.Linear(config.marks * cells, config.d_model)

    def scores(
        self, normal: Tensor, query: Tensor, key: Tensor, offers: Tensor, positions: Tensor, cells: Tensor | None
    ) -> Tensor:
        """s before masking: tokens that ask `[B, Q, D]`, their query `[B, Q, h]`; of the past its key `[B, P, h]`, what
        it offers `[B, P, 1]`, its positions `[P, D]`, and the match of its cells `[B, Q, P]` → `[B, Q, P]`."""
        scores: Tensor = self.bias
        if cells is not None:
            scores = scores + cells
        if cells is None or self.config.gates == "full":
            scores = scores + query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if self.config.gates == "scalar":
            scores = scores + self.asks(normal) + offers.transpose(-1, -2)
        if self.when is not None:
            scores = scores + self.when(normal) @ positions.T
        return scores

    def read(self, scores: Tensor, mass: Tensor) -> Tensor | float:
        """The amount, from scores `[…, P]` and their mass `[…]`, as a vector `[…, D]`."""
        if self.amount is None:
            return 0.0
        if self.config.reads_whole:
            mass = mass + (scores.exp().round().sum(-1) - mass).detach()  # whole, with the gradient of what was rounded
        angles = 2 * math.pi * mass[..., None] / self.periods
        read: Tensor = self.amount(torch.cat([angles.cos(), angles.sin()], -1))
        return read

    def mark(self, normal: Tensor) -> Tensor:
        """What a step will say of its cells, `[…, D]` → `[…, k]`."""
        marks: Tensor = self.marks(normal) if self.recognises else normal[..., :0]
        return marks

    def recognise(self, weights: Tensor, marks: Tensor, memory: Tensor, kinds: Tensor) -> Tensor | float:
        """What the recalled steps say of each cell in view, as a vector: weights `[B, Q, P]`, the marks of the past
        `[B, P, k]` and its memory `[B, P, M]`, the kinds of the cells in view `[B, Q, K]` → `[B, Q, D]`."""
        if not self.recognises:
            return 0.0
        said = weights[:, None] * marks.transpose(1, 2)[:, :, None]  # [B, k, Q, P]
        of_kind = said @ (memory > 0).to(said.dtype)[:, None]  # [B, k, Q, M]
        of_cell = of_kind.gather(-1, kinds[:, None].expand(-1, of_kind.shape[1], -1, -1))  # [B, k, Q, K]
        told: Tensor = self.recognised(of_cell.transpose(1, 2).flatten(2))
        return told


def settle(scores: Tensor, possible: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Masked scores `[…, P]` of at most `MOST`, the weights beside a null key of score 0, the mass Σ exp(s) `[…]`, and
    by how much scores were cut off `[…]`: what was cut has no gradient of its own, so the loss leads it back."""
    cut = (scores - MOST).clamp(min=0).masked_fill(~possible, 0).sum(-1)
    scores = scores.clamp(max=MOST).masked_fill(~possible, NEVER)
    log_mass = scores.logsumexp(-1, keepdim=True)
    weights = (scores - torch.logaddexp(log_mass, torch.zeros_like(log_mass))).exp()
    return scores, weights, log_mass.exp().squeeze(-1), cut


# --- the network -----------------------------------------------------------------------------------------------------


class RecallLayer(nn.Module):
    """Attention and a feed-forward network, each normalising its input (pre-LN). In the first layer, head 0 recalls."""

    def __init__(self, config: RecallConfig, recall: Recall | None) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1, self.norm2 = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.in_proj = nn.Linear(config.d_model, 3 * config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.d_model)
        self.feedforward = nn.Sequential(
            nn.Linear(config.d_model, config.feedforward),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.d_model),
            nn.Dropout(config.dropout),
        )
        self.recall = recall

    def project(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised tokens, and queries, keys and values `[…, 3, H, h]`."""
        normal = self.norm1(tokens)
        return normal, self.in_proj(normal).view(*tokens.shape[:-1], 3, self.heads, -1)

    def finish(self, tokens: Tensor, attended: Tensor) -> Tensor:
        """The layer after its attention."""
        tokens = tokens + attended
        finished: Tensor = tokens + self.feedforward(self.norm2(tokens))
        return finished


class RecallCache(NamedTuple):
    """The past of R episodes; step t stands in place t, its tokens in the n places from n·t on."""

    keys: list[Tensor]  # per layer [R, H, n·max_steps, h]
    values: list[Tensor]
    memory: Tensor  # [R, max_steps, M]
    offers: Tensor  # [R, max_steps, 1]
    marks: Tensor  # [R, max_steps, k]
    time: Tensor  # [R] the present step of each row


class Recalled(NamedTuple):
    """What the recall head did: scores s `[B, T, T]` over timesteps, their mass Σ exp(s) and by how much they were cut
    off, both `[B, T]`."""

    scores: Tensor
    mass: Tensor
    cut: Tensor


class RecallTransformer(Network):
    """The policy: actions from all observations and actions so far."""

    config: RecallConfig
    fits = True
    tested_at_once = 0  # every query meets every cell of the past, which takes room

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        self.config = config
        self.action_head = action_head(config.actions)
        self.observation_embedding = observation_memory(
            config.observation, config.d_model, config.d_model // config.heads
        )
        # The last row: no action yet.
        self.action_embedding = nn.Embedding(self.action_head.features + 1, config.d_model)
        nn.init.normal_(self.action_embedding.weight, std=0.3)
        self.positional_encoding = PositionalEmbedding(config.d_model)
        self.embedding_norm = nn.LayerNorm(config.d_model)
        self.token_dropout = nn.Dropout(config.token_dropout)
        recall = Recall(config, self.observation_embedding.kinds_in_view)
        self.layers = nn.ModuleList(RecallLayer(config, None if number else recall) for number in range(config.layers))
        self.output_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, self.action_head.width)

    @property
    def watchable(self) -> tuple[Head, ...]:
        return (RECALL_HEAD,)

    def fit(self, observed: Observed, frames: int) -> None:
        """Standardise the input with the training set: blocks of its distinct observations `[u, nbytes]` with how many
        steps saw each `[u]`, about `frames` observations in all."""
        if self.config.standardise:
            self.observation_embedding.fit(observed, frames, self.config.rarity)

    def tokens(self, seen: Tensor, last: Tensor, begins: Tensor, time: Tensor) -> Tensor:
        """Vectors of observations `[S, D]`, the action before each `[S, …]` (none where an episode begins) and its time
        `[S]` → `[S, n, D]`."""
        done = self.action_head.embed(last, begins, self.action_embedding.weight)
        if self.config.action_tokens:
            tokens = torch.stack([done, seen], 1)
        else:
            tokens = (seen + done if self.config.carry_action else seen)[:, None]
        if self.config.positions:
            tokens = tokens + self.positional_encoding(time)[:, None]
        normal: Tensor = self.token_dropout(self.embedding_norm(tokens))
        return normal

    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The action distribution of every step, and a `Recalled` for the recall head if it is asked for."""
        vectors, memory, kinds = self.observation_embedding(batch.observations)
        tokens = self.tokens(batch.per_step(vectors), batch.last_actions, batch.begins, batch.time)
        steps, layout = Layout.of(batch, per_step=1), Layout.of(batch, self.config.tokens_per_step)
        recalled = None
        for layer in self.layers:
            assert isinstance(layer, RecallLayer)
            normal, projected = layer.project(tokens)  # [S, n, D], [S, n, 3, H, h]
            fused = projected[:, :, :, 0 if layer.recall is None else 1 :].flatten(0, 1)  # the heads that only attend
            mixed = causal_attention(fused, layout).view(*tokens.shape[:2], -1) if fused.shape[2] else tokens[..., :0]
            told: Tensor | float = 0.0
            if layer.recall is not None:
                past = (steps.pad(batch.per_step(memory)), steps.pad(batch.per_step(kinds)))
                asking = (steps.pad(normal[:, -1]), steps.pad(projected[:, -1, :, 0]))
                own, told, recalled = self._recall(layer.recall, *asking, *past)
                own, told = (self._at_observations(steps.pack(part)) for part in (own, told))
                mixed = torch.cat([own, mixed], -1)
            tokens = layer.finish(tokens, layer.out_proj(mixed) + told)
        watched = {head: recalled for head in watch if head == RECALL_HEAD}
        return Output(self.action_head, self.output(self.output_norm(tokens[:, -1])), watched)

    def _at_observations(self, part: Tensor) -> Tensor:
        """Something of each step `[S, D]` at its last token, its observation: `[S, n, D]`, zeros elsewhere."""
        return F.pad(part[:, None], (0, 0, self.config.tokens_per_step - 1, 0))

    def _recall(
        self, recall: Recall, normal: Tensor, projected: Tensor, memory: Tensor, kinds: Tensor
    ) -> tuple[Tensor, Tensor, Recalled]:
        """The recall head over whole episodes `[B, T, …]`: its output `[B, T, h]`, what else it tells the step
        `[B, T, D]`, and its scores and mass."""
        query, key, value = projected.unbind(2)  # [B, T, h] each
        step = torch.arange(normal.shape[1], device=normal.device)
        cells = self.observation_embedding.match(query, memory) if self.config.keys == "cells" else None
        scores = recall.scores(normal, query, key, recall.offers(normal), self.positional_encoding(step), cells)
        scores, weights, mass, cut = settle(scores, step < step[:, None])
        told = recall.read(scores, mass) + recall.recognise(weights, recall.mark(normal), memory, kinds)
        return weights @ value, torch.zeros_like(normal) + told, Recalled(scores, mass, cut)

    def attention(self, batch: Batch) -> Tensor:
        """How many things each step recalls from each other one, exp(s) up to 1: `[1, 1, B, T, T]`."""
        recalled: Recalled = self(batch, (RECALL_HEAD,)).watched[RECALL_HEAD]
        return recalled.scores.exp().clamp(max=1)[None, None]

    # --- one step at a time ------------------------------------------------------------------------------------------

    def start(self, rows: int, max_steps: int) -> RecallCache:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the model's device."""
        config, weight = self.config, self.output.weight
        shape = (rows, config.heads, config.tokens_per_step * max_steps, config.d_model // config.heads)
        keys, values = ([weight.new_zeros(shape) for _ in range(config.layers)] for _ in range(2))
        memory = weight.new_zeros(rows, max_steps, self.observation_embedding.memory)
        offers, marks = (
            weight.new_zeros(rows, max_steps, size)
            for size in (1, config.marks if self.observation_embedding.kinds_in_view else 0)
        )
        return RecallCache(keys, values, memory, offers, marks, torch.full((rows,), -1, device=weight.device))

    def step(
        self, cache: RecallCache, observations: Tensor, last_actions: Tensor, begins: Tensor, watch: Sequence[Head] = ()
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes; see `Network.step`. The recall head's weights are exp(s): how many things were
        recalled from each step. They sum to the mass, not to 1."""
        row = torch.arange(len(cache.time), device=cache.time.device)
        time = torch.where(begins, 0, cache.time + 1)
        cache.time.copy_(time)
        vectors, memory, kinds = self.observation_embedding(observations)
        cache.memory[row, time] = memory
        tokens, n = self.tokens(vectors, last_actions, begins, time), self.config.tokens_per_step  # [R, n, D]
        # A host that computes by itself saves the steps nobody has reached; a GPU keeps one shape and never waits.
        total = cache.memory.shape[1]
        end = int(time.max()) + 1 if time.device.type == "cpu" else total
        step, place = torch.arange(end, device=time.device), torch.arange(n * end, device=time.device)
        places = n * time[:, None] + place[:n]  # [R, n] of the new tokens
        past, visible = step < time[:, None], place <= places[..., None]  # [R, end], [R, n, n·end]
        weights: dict[Head, Tensor] = {}
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, RecallLayer)
            normal, projected = layer.project(tokens)
            query, key, value = projected.unbind(2)  # [R, n, H, h] each
            keys, values = cache.keys[number], cache.values[number]
            keys[row[:, None], :, places], values[row[:, None], :, places] = key, value
            keys, values = keys[:, :, : n * end], values[:, :, : n * end]
            seen = F.scaled_dot_product_attention(query.transpose(1, 2), keys, values, visible[:, None])
            mixed = seen.transpose(1, 2).flatten(2)  # [R, n, D]
            told: Tensor | float = 0.0
            if (recall := layer.recall) is not None:
                asking, own = normal[:, -1:], query[:, -1:, 0]  # [R, 1, D], [R, 1, h]
                cache.offers[row, time], cache.marks[row, time] = recall.offers(asking[:, 0]), recall.mark(asking[:, 0])
                memories, offers, marks = cache.memory[:, :end], cache.offers[:, :end], cache.marks[:, :end]
                cells = self.observation_embedding.match(own, memories) if self.config.keys == "cells" else None
                its_keys, its_values = keys[:, 0, n - 1 :: n], values[:, 0, n - 1 :: n]
                scores = recall.scores(asking, own, its_keys, offers, self.positional_encoding(step), cells)
                scores, share, mass, _ = settle(scores, past[:, None])
                attended = self._at_observations((share @ its_values)[:, 0])  # [R, n, h]
                mixed = torch.cat([attended, mixed[..., attended.shape[-1] :]], -1)
                told = torch.zeros_like(asking) + recall.read(scores, mass)
                told = self._at_observations((told + recall.recognise(share, marks, memories, kinds[:, None]))[:, 0])
                if RECALL_HEAD in watch:
                    weights[RECALL_HEAD] = F.pad(scores[:, 0].exp(), (0, total - end))
            tokens = layer.finish(tokens, layer.out_proj(mixed) + told)
        return self.output(self.output_norm(tokens[:, -1])), weights
