"""The paper's causal Transformer over o_0, a_0, o_1, a_1, …: the whole model, top to bottom.

Legend: B episodes, S steps in all of them (packed end to end, see `data.batch`), T steps of the longest episode,
n = 2T tokens, D = d_model, H heads of size D / H, R rows of a streaming cache. Module and parameter names are those of
the network tree printed in the paper's appendix, so weights trained with the authors' code load as they are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.data.tokens import TOKENS_PER_STEP
from attentiontuner.models.actions import ActionHead, action_head
from attentiontuner.models.attention import Watched, causal_attention
from attentiontuner.models.embedders import PositionalEmbedding, fit_vectors, observation_embedding
from attentiontuner.models.heads import Head
from attentiontuner.models.kernels import embed_norm, feed_forward_add_norm, linear, linear_add_norm
from attentiontuner.models.network import Network, Observed, Output, reached
from attentiontuner.models.sizes import TransformerConfig


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
        return feed_forward_add_norm(tokens, widen, narrow, self.norm2, dropout.p if dropout.training else 0.0)

    def forward(self, tokens: Tensor, layout: Layout, wanted: slice) -> tuple[Tensor, Tensor]:
        """Packed tokens `[2S, D]` → the wanted ones after the layer, and what all were projected to."""
        projected = self.self_attention.project(tokens)  # [2S, 3, H, D / H]
        attended = causal_attention(projected, layout)[wanted].flatten(1)
        return self.finish(tokens[wanted], attended), projected


class TransformerCache(NamedTuple):
    """Keys and values of the past of R episodes. Token i stands in slot i + 1; slot 0 belongs to nobody."""

    keys: list[Tensor]  # per layer [R, H, 2·max_steps, D / H]
    values: list[Tensor]
    time: Tensor  # [R] the present step of each row


class ActionEmbedding(nn.Module):
    """An action to one vector: `[S, …]` → `[S, D]`."""

    def __init__(self, features: int, d_model: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(features, d_model), nn.Tanh())

    def forward(self, actions: Tensor, head: ActionHead) -> Tensor:
        weight = next(self.mlp.parameters())
        embedded: Tensor = self.mlp(head.show(actions, weight.dtype))
        return embedded


class Transformer(Network):
    """The policy: actions from all observations and actions so far."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.action_head = action_head(config.actions, config.action_head, config.chunk)
        self.image_embedding = observation_embedding(
            config.observation,
            config.d_model,
            config.embedder,
            config.images,
            encoders=config.own_encoders,
            standard=config.standard,
        )
        self.fits = config.standard
        self.action_embedding = ActionEmbedding(self.action_head.features, config.d_model)
        self.positional_encoding = PositionalEmbedding(config.d_model)
        self.embedding_LN = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer_layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.layers))
        self.output = nn.Linear(config.d_model, self.action_head.width)

    @property
    def watchable(self) -> tuple[Head, ...]:
        return tuple(Head(layer, head) for layer in range(self.config.layers) for head in range(self.config.heads))

    def fit(self, observed: Observed, frames: int) -> None:
        fit_vectors(self.image_embedding, self.config.observation, observed, frames)

    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The action distribution of every step, and for the heads asked for a `Watched` each."""
        seen = batch.per_step(self.image_embedding(batch.observations))  # [S, D]
        done = self.action_embedding(batch.actions, self.action_head)
        dropout = self.dropout.p if self.dropout.training else 0.0
        # [2S, D]: o, a, o, a, …
        tokens = embed_norm(seen, done, batch.time, self.embedding_LN, dropout)
        layout = Layout.of(batch, TOKENS_PER_STEP)
        watched = {}
        for number, layer in enumerate(self.transformer_layers):
            # Actions are read from the observation tokens: the last layer need not finish the others.
            last = number == self.config.layers - 1
            tokens, projected = layer(tokens, layout, slice(None, None, TOKENS_PER_STEP if last else 1))
            watched.update({head: Watched(projected, head.head, layout) for head in watch if head.layer == number})
        return Output(self.action_head, self.output(tokens), {head: watched[head] for head in watch})

    def attention(self, batch: Batch) -> Tensor:
        """Attention weights of every head over the tokens: `[layers, H, B, n, n]`."""
        watched = self(batch, self.watchable).watched
        weights = torch.stack([watched[head].log_attention().exp() for head in self.watchable])
        return weights.view(self.config.layers, self.config.heads, *weights.shape[1:])

    def start(self, rows: int, max_steps: int) -> TransformerCache:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the model's device."""
        config, weight = self.config, self.output.weight
        shape = (rows, config.heads, TOKENS_PER_STEP * max_steps, config.d_model // config.heads)
        empty = [[weight.new_zeros(shape) for _ in range(config.layers)] for _ in range(2)]
        return TransformerCache(empty[0], empty[1], torch.full((rows,), -1, device=weight.device))

    def step(
        self,
        cache: TransformerCache,
        observations: Tensor,
        last_actions: Tensor,
        begins: Tensor,
        watch: Sequence[Head] = (),
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes at once; see `Network.step`."""
        time = torch.where(begins, 0, cache.time + 1)
        cache.time.copy_(time)
        # The new tokens of a row are a_{t-1} and o_t. Where an episode begins there is no a_{t-1}: it goes to slot 0.
        done, seen = self.action_embedding(last_actions, self.action_head), self.image_embedding(observations)
        before, now = self.positional_encoding((time - 1).clamp(min=0)), self.positional_encoding(time)
        done, seen = done + before.to(done.dtype), seen + now.to(seen.dtype)
        tokens = self.embedding_LN(torch.stack([done, seen], 1))  # [R, 2, D]
        slots = torch.stack([TOKENS_PER_STEP * time, TOKENS_PER_STEP * time + 1], 1)  # [R, 2]
        total = cache.keys[0].shape[2]
        end = TOKENS_PER_STEP * reached(time, total // TOKENS_PER_STEP)
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
