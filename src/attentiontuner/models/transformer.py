"""The paper's causal Transformer over o_0, a_0, o_1, a_1, …: the whole model, top to bottom.

Legend: B episodes, S steps in all of them (packed end to end, see `data.batches`), T steps of the longest episode,
n = 2T tokens, D = d_model, H heads of size D / H, R rows of a streaming cache. Module and parameter names are those of
the network tree printed in the paper's appendix, so weights trained with the authors' code load as they are.
"""

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from attentiontuner.data.batches import FILLER_STEPS, Batch
from attentiontuner.data.tokens import TOKENS_PER_STEP
from attentiontuner.errors import UserError
from attentiontuner.models.embedders import ActionEmbedding, Embedder, PositionalEmbedding, observation_embedding
from attentiontuner.models.fused import embed_norm, linear, linear_add_norm, linear_relu
from attentiontuner.models.heads import Head
from attentiontuner.observations import ObservationSpec

# PyTorch changed how one asks for causal attention over packed sequences.
_BY_WINDOW = "window_size" in inspect.signature(varlen_attn).parameters
_CAUSAL: dict[str, Any] = {"window_size": (-1, 0)} if _BY_WINDOW else {"is_causal": True}


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of the network; the defaults are the paper's."""

    observation: ObservationSpec
    actions: int
    d_model: int = 512
    layers: int = 4
    heads: int = 2
    feedforward: int = 2048
    dropout: float = 0.1
    embedder: Embedder = "paper"

    def __post_init__(self) -> None:
        for field in ("actions", "d_model", "layers", "heads", "feedforward"):
            if getattr(self, field) < 1:
                raise UserError(f"model {field}: {getattr(self, field)} is below 1")
        if self.d_model % (2 * self.heads):
            raise UserError(
                f"model d_model: {self.d_model} is not a multiple of twice the number of heads, {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"model dropout: {self.dropout} is not in [0, 1)")
        if self.embedder not in ("paper", "lookup"):
            raise UserError(f"model embedder: {self.embedder!r} is neither 'paper' nor 'lookup'")
        if self.embedder == "lookup" and self.observation.kind != "grid":
            raise UserError(
                f"model embedder: 'lookup' is for symbol grids, not for {self.observation.kind} observations"
            )

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `models.model_config_from_json` reads back."""
        return {"architecture": "transformer", **asdict(self), "observation": self.observation.to_json()}


class Output(NamedTuple):
    """What a forward pass gives.

    Attributes:
        logits: `[S, actions]`, the action distribution at each step.
        watched: the heads asked for.
        recalled: what a recall head did (`models.recall`), None without one.
    """

    logits: Tensor
    watched: dict[Head, "Watched"]
    recalled: "Recalled | None" = None


class Watched(NamedTuple):
    """A head whose weights are wanted: what its layer projected `[2S, 3, H, D / H]`, and where the tokens stand."""

    projected: Tensor
    head: int
    layout: "Layout"

    def log_attention(self) -> Tensor:
        """Log of the attention weights, -inf above the diagonal: float32 `[B, n, n]`."""
        query, key = self.layout.pad(self.projected[:, :2, self.head]).unbind(2)  # [B, n, D / H] each
        return causal_log_attention(query, key)


class Recalled(NamedTuple):
    """Scores s `[B, T, T]` over timesteps, their mass Σ exp(s) and by how much they were cut off, both `[B, T]`, and
    the loss they are trained with."""

    scores: Tensor
    mass: Tensor
    cut: Tensor
    loss: str


class Layout(NamedTuple):
    """Where packed tokens stand: end to end, and in the padded layout that attention weights need."""

    slot: Tensor  # [S] of each step, see `Batch`
    bounds: Tensor  # [B + 2] int32: 0, then the tokens up to the end of each episode, the fillers last
    rows: int  # B
    tokens: int  # n
    per_step: int

    @classmethod
    def of(cls, batch: Batch, per_step: int = TOKENS_PER_STEP) -> "Layout":
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

    def fused_attention(self, projected: Tensor) -> Tensor:
        """Causal attention within each episode: `[tokens, 3, h, D / H]` → `[tokens, h, D / H]`."""
        size = projected.shape[-1]
        if projected.is_cuda and projected.dtype == torch.bfloat16 and size % 8 == 0 and size <= 256:  # what it can do
            longest = max(self.tokens, self.per_step * FILLER_STEPS)
            query, key, value = projected.unbind(1)
            out = varlen_attn(query, key, value, self.bounds, self.bounds, longest, longest, **_CAUSAL)
            assert isinstance(out, Tensor)
            return out
        if projected.device.type == "cpu":  # a host that computes by itself takes episode after episode, unpadded
            episodes = [part for part in projected.split(self.bounds.diff().tolist()) if len(part)]
            return torch.cat([_attend(part[None])[0] for part in episodes])
        return self.pack(_attend(self.pad(projected)))


def _attend(projected: Tensor) -> Tensor:
    """Causal attention: `[B, n, 3, h, D / H]` → `[B, n, h, D / H]`."""
    query, key, value = projected.permute(2, 0, 3, 1, 4)  # [B, h, n, D / H] each
    return F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)


class SelfAttention(nn.Module):
    """Causal multi-head self-attention, fused: the weights of a head are had from `Watched` alone."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def project(self, tokens: Tensor) -> Tensor:
        """`[…, D]` → queries, keys and values `[…, 3, H, D / H]`."""
        projected = linear(tokens, self.in_proj_weight, self.in_proj_bias)
        return projected.view(*tokens.shape[:-1], 3, self.heads, -1)

    def step(
        self, tokens: Tensor, keys: Tensor, values: Tensor, slots: Tensor, visible: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend from new tokens `[R, 2, D]` over the cache `[R, H, slots, D / H]` after writing them into it.

        Returns what the heads saw `[R, 2, D]` and the queries `[R, H, 2, D / H]`.
        """
        query, key, value = self.project(tokens).permute(2, 0, 3, 1, 4)  # [R, H, 2, D / H]
        where = slots[:, None, :, None].expand_as(key)
        keys.scatter_(2, where, key.to(keys.dtype))
        values.scatter_(2, where, value.to(values.dtype))
        end = visible.shape[-1]
        seen = F.scaled_dot_product_attention(query.to(keys.dtype), keys[:, :, :end], values[:, :, :end], visible)
        return seen.transpose(1, 2).flatten(2), query


def causal_log_attention(query: Tensor, key: Tensor) -> Tensor:
    """Log of the causal softmax of the scaled scores, in float32 whatever the precision around: `[B, n, n]`."""
    scores = query.float() @ key.float().transpose(-1, -2) * query.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return F.log_softmax(scores.masked_fill(future, -torch.inf), -1)


class TransformerLayer(nn.Module):
    """Attention, then a feed-forward network, each added to its input and normalised after (post-LN)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.d_model, config.heads)
        self.norm1 = nn.LayerNorm(config.d_model)
        self.feedforward = nn.Sequential(
            nn.Linear(config.d_model, config.feedforward),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.d_model),
            nn.Dropout(config.dropout),
        )
        self.norm2 = nn.LayerNorm(config.d_model)

    def finish(self, tokens: Tensor, attended: Tensor) -> Tensor:
        """The layer after its attention; `attended` is what its heads saw, side by side."""
        widen, _, narrow, dropout = self.feedforward
        assert isinstance(widen, nn.Linear)
        assert isinstance(narrow, nn.Linear)
        assert isinstance(dropout, nn.Dropout)
        tokens = linear_add_norm(attended, self.self_attention.out_proj, tokens, self.norm1)
        hidden = linear_relu(tokens, widen)
        return linear_add_norm(hidden, narrow, tokens, self.norm2, dropout.p if dropout.training else 0.0)

    def forward(self, tokens: Tensor, layout: Layout, wanted: slice) -> tuple[Tensor, Tensor]:
        """Packed tokens `[2S, D]` → the wanted ones after the layer, and what all were projected to."""
        projected = self.self_attention.project(tokens)  # [2S, 3, H, D / H]
        attended = layout.fused_attention(projected)[wanted].flatten(1)
        return self.finish(tokens[wanted], attended), projected


class Cache(NamedTuple):
    """Keys and values of the past of R episodes. Token i stands in slot i + 1; slot 0 belongs to nobody."""

    keys: list[Tensor]  # per layer [R, H, 2·max_steps, D / H]
    values: list[Tensor]
    time: Tensor  # [R] the present step of each row


class Transformer(nn.Module):
    """The policy: actions from all observations and actions so far."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.image_embedding = observation_embedding(config.observation, config.d_model, config.embedder)
        self.action_embedding = ActionEmbedding(config.actions, config.d_model)
        self.positional_encoding = PositionalEmbedding(config.d_model)
        self.embedding_LN = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer_layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.layers))
        self.output = nn.Linear(config.d_model, config.actions)

    def forward(self, batch: Batch, supervised: Sequence[Head] = ()) -> Output:
        """Logits of every step of a packed batch, and the supervised heads."""
        seen = batch.per_step(self.image_embedding(batch.observations))  # [S, D]
        done = self.action_embedding(batch.actions)
        dropout = self.dropout.p if self.dropout.training else 0.0
        # [2S, D]: o, a, o, a, …
        tokens = embed_norm(seen, done, batch.time, self.embedding_LN, dropout)
        layout = Layout.of(batch)
        watched = {}
        for number, layer in enumerate(self.transformer_layers):
            # Actions are read from the observation tokens: the last layer need not finish the others.
            last = number == self.config.layers - 1
            tokens, projected = layer(tokens, layout, slice(None, None, TOKENS_PER_STEP if last else 1))
            watched.update({head: Watched(projected, head.head, layout) for head in supervised if head.layer == number})
        return Output(self.output(tokens), {head: watched[head] for head in supervised})

    def attention(self, batch: Batch) -> Tensor:
        """Attention weights of every head over the tokens: `[layers, H, B, n, n]`."""
        heads = [Head(layer, head) for layer in range(self.config.layers) for head in range(self.config.heads)]
        watched = self(batch, heads).watched
        weights = torch.stack([watched[head].log_attention().exp() for head in heads])
        return weights.view(self.config.layers, self.config.heads, *weights.shape[1:])

    def start(self, rows: int, max_steps: int) -> Cache:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the model's device."""
        config, weight = self.config, self.output.weight
        shape = (rows, config.heads, TOKENS_PER_STEP * max_steps, config.d_model // config.heads)
        empty = [[weight.new_zeros(shape) for _ in range(config.layers)] for _ in range(2)]
        return Cache(empty[0], empty[1], torch.full((rows,), -1, device=weight.device))

    def step(
        self, cache: Cache, observations: Tensor, last_actions: Tensor, watch: Sequence[Head] = ()
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes at once.

        `observations` `[R, …]` are the present ones; `last_actions` `[R]` the actions before them, -1 where a new
        episode begins in that row. Returns logits `[R, actions]` and, for each watched head, its weights on the
        observations so far `[R, max_steps]`.
        """
        begins = last_actions < 0
        time = torch.where(begins, 0, cache.time + 1)
        cache.time.copy_(time)
        # The new tokens of a row are a_{t-1} and o_t. Where an episode begins there is no a_{t-1}: it goes to slot 0.
        done, seen = self.action_embedding(last_actions.clamp(min=0)), self.image_embedding(observations)
        before, now = self.positional_encoding((time - 1).clamp(min=0)), self.positional_encoding(time)
        done, seen = done + before.to(done.dtype), seen + now.to(seen.dtype)
        tokens = self.embedding_LN(torch.stack([done, seen], 1))  # [R, 2, D]
        slots = torch.stack([TOKENS_PER_STEP * time, TOKENS_PER_STEP * time + 1], 1)  # [R, 2]
        total = cache.keys[0].shape[2]
        # A host that computes by itself saves the slots nobody has reached; a GPU keeps one shape and never waits.
        end = min(total, TOKENS_PER_STEP * (int(time.max()) + 1)) if time.device.type == "cpu" else total
        key_slot = torch.arange(end, device=time.device)
        visible = (key_slot <= slots[..., None]) & ((key_slot > 0) | (slots[..., None] == 0))  # [R, 2, end]
        weights = {}
        for number, layer in enumerate(self.transformer_layers):
            assert isinstance(layer, TransformerLayer)
            keys, values = cache.keys[number], cache.values[number]
            attended, query = layer.self_attention.step(tokens, keys, values, slots, visible[:, None])
            tokens = layer.finish(tokens, attended)
            for head in (head for head in watch if head.layer == number):
                scores = torch.einsum("rd,rkd->rk", query[:, head.head, 1].float(), keys[:, head.head, :end].float())
                scores = scores * query.shape[-1] ** -0.5
                full = torch.zeros(len(time), total, device=time.device)
                full[:, :end] = scores.masked_fill(~visible[:, 1], -torch.inf).softmax(-1)
                weights[head] = full[:, 1::TOKENS_PER_STEP]
        return self.output(tokens[:, 1]), weights
