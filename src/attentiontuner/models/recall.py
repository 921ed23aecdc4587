"""Recall heads: attention that learns where to look and how much. The whole network, top to bottom.

The paper's head spreads one unit of attention over the past, so it can say which steps matter but not how many things
are there. Here one head of one layer recalls (`models.recall_head`): exp of its scores is the *number* of things at
each earlier step that matter now, and what it finds there is told to the step in several ways. The other heads are
those of any Transformer, but that tokens do not know their time, so that nothing is learned by heart from it: queries
and keys are turned by it and so know how long ago a step was. Images that are recalled are laid over the one in view,
vectors beside it.

Legend: B episodes, S steps packed end to end, T steps of the longest, Q steps that ask, P past steps, U distinct
observations, D = d_model, H heads of size h = D / H, M numbers an observation leaves in memory, K cells of an
observation that have a kind, k numbers a step will say when it is recalled, R rows of a streaming cache. A token is an
observation, where actions are choices together with the action before it.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.data.blocks import Block, Entries, joined
from attentiontuner.models.actions import action_head
from attentiontuner.models.attention import causal_attention
from attentiontuner.models.bound import Bound
from attentiontuner.models.embedders import PositionalEmbedding
from attentiontuner.models.heads import Head
from attentiontuner.models.memory import MemoryOptions, observation_memory
from attentiontuner.models.network import Network, Observed, Output, reached
from attentiontuner.models.recall_head import Past, Recall, Recalled, Settled, settle
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig

LONGEST_PERIOD = 1000.0
"""Steps, over 2π, of the slowest turn of queries and keys."""

HELD = {"cpu": 2**24, "cuda": 2**30}
"""Numbers of a step on a past step that the recall head holds for a whole batch; where there are more it goes through
the batch in blocks, and computes these anew for the gradient."""

IN_A_BLOCK = {"cpu": 2**20, "cuda": 2**26}
"""The same of one block: so many stay in the processor's cache, or keep the GPU busy."""

OF_AN_ENTRY = 3
"""Numbers of a step on a past step beside those of its cells."""


class RecallLayer(nn.Module):
    """Attention and a feed-forward network, each normalising its input (pre-LN). In one layer, head 0 recalls."""

    def __init__(self, config: RecallConfig, recall: Recall | None) -> None:
        super().__init__()
        self.heads, self.turns = config.heads, config.turns
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
        """Tokens `[S, D]` normalised, and their queries, keys and values `[S, 3, H, h]`."""
        normal = self.norm1(tokens)
        projected: Tensor = self.in_proj(normal).view(len(tokens), 3, self.heads, -1)
        return normal, projected

    def turn(self, projected: Tensor, time: Tensor) -> Tensor:
        """Queries, keys and values `[S, 3, H, h]`, those that attend turned by their time `[S]`."""
        if not self.turns:
            return projected
        asked, value = projected.split([2, 1], 1)
        return torch.cat([self.turn_asked(asked, time), value], 1)

    def turn_asked(self, asked: Tensor, time: Tensor) -> Tensor:
        """Queries or keys `[S, …, H, h]`, all but those that recall turned by their time `[S]`."""
        recalls = 0 if self.recall is None else 1
        return torch.cat([asked[:, :, :recalls], turned(asked[:, :, recalls:], time)], 2) if self.turns else asked

    def finish(self, tokens: Tensor, attended: Tensor) -> Tensor:
        """The layer after its attention."""
        tokens = tokens + attended
        finished: Tensor = tokens + self.feedforward(self.norm2(tokens))
        return finished


def turned(vectors: Tensor, time: Tensor) -> Tensor:
    """Vectors `[S, 2, H, h]` turned by angles that grow with their time `[S]`: a product of two of them knows how far
    apart they are, and nothing else of when they were."""
    half = vectors.shape[-1] // 2
    rates = torch.exp(torch.arange(half, device=vectors.device) * (-math.log(LONGEST_PERIOD) / half))
    angles = time[:, None, None, None] * rates
    cos, sin = angles.cos(), angles.sin()
    first, second = vectors.split(half, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Keep(nn.Module):
    """Whether a step will be recalled from far away: a logit `[S]` from what the network makes of it, `[S, D]`. The
    network does not learn from it: what it makes of a step stays what its decisions need."""

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        width = config.d_model
        self.hidden = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.hidden(tokens.detach())[..., 0]
        return logits


class RecallCache(NamedTuple):
    """The past of R episodes; step t stands in place t."""

    keys: list[Tensor]  # per layer [R, H, max_steps, h]
    values: list[Tensor]
    memory: Tensor  # [R, max_steps, M]
    offers: Tensor  # [R, max_steps, 1]
    says: Tensor  # [R, max_steps, k]
    keep: Tensor  # [R, max_steps] the logit that the step will be recalled from far away; 0 where nobody asks
    time: Tensor  # [R] the present step of each row


class RecallTransformer(Network):
    """The policy: actions from all observations and actions so far."""

    config: RecallConfig
    fits = True
    tested_at_once = 64  # every query meets every cell of the past, which takes room

    def __init__(self, config: RecallConfig) -> None:
        super().__init__()
        self.config, self.haste = config, config.haste
        self.action_head = action_head(config.actions, config.action_head, config.chunk)
        options = MemoryOptions(
            d_model=config.d_model,
            head=config.d_model // config.heads,
            bounded=config.bounded,
            alike=config.alike,
            points=config.points,
            looks=config.looks,
            dropped_cells=config.dropped_cells,
            images=config.images,
            beside=config.beside,
            products=config.products,
        )
        self.observation_embedding = observation_memory(config.observation, options, config.own_encoders)
        # The last row: no action yet.
        actions = self.action_head.features + 1
        self.action_embedding = nn.Embedding(actions, config.d_model) if config.last_action else None
        if self.action_embedding is not None:
            nn.init.normal_(self.action_embedding.weight, std=0.3)
        self.positional_encoding = PositionalEmbedding(config.d_model)
        self.embedding_norm = nn.LayerNorm(config.d_model)
        recall = Recall(config, self.observation_embedding.kinds_in_view)
        self.layers = nn.ModuleList(
            RecallLayer(config, recall if number == config.recall_layer else None)
            for number in range(1, config.layers + 1)
        )
        self.output_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, self.action_head.width)
        # The last to draw its weights, so that the others are those of a network without it.
        self.keep = Keep(config) if config.keeps else None

    @property
    def watchable(self) -> tuple[Head, ...]:
        return (RECALL_HEAD,)

    def fit(self, observed: Observed, frames: int) -> None:
        """Standardise the input with the training set: blocks of its distinct observations `[u, nbytes]` with how many
        steps saw each `[u]`, about `frames` observations in all."""
        self.observation_embedding.fit(observed, frames)

    def clear_unused(self) -> None:
        for part in self.observation_embedding.each_part():
            part.clear_unused()

    def tokens(self, seen: Tensor, last: Tensor, begins: Tensor, time: Tensor) -> Tensor:
        """Vectors of observations, the action before each `[S, …]` (none where an episode begins) and its time `[S]` →
        `[S, D]`."""
        tokens = seen
        if self.action_embedding is not None:
            tokens = tokens + self.action_head.embed(last, begins, self.action_embedding.weight)
        if self.config.adds:
            tokens = tokens + self.positional_encoding(time)
        normal: Tensor = self.embedding_norm(tokens)
        return normal

    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The action distribution of every step, and a `Recalled` for the recall head if it is asked for."""
        vectors, memory, kinds = self.observation_embedding(batch.observations)
        tokens = self.tokens(batch.per_step(vectors), batch.last_actions, batch.begins, batch.time)
        layout, recalled = Layout.of(batch, per_step=1), None
        seeing, led = self._schooling(batch) if self.training and watch else (float(self.config.past), None)
        pairs = batch.entries() if watch else None
        for layer in self.layers:
            assert isinstance(layer, RecallLayer)
            normal, projected = layer.project(tokens)
            projected = layer.turn(projected, batch.time)
            attending = projected[:, :, 0 if layer.recall is None else 1 :]
            mixed = causal_attention(attending, layout).flatten(1) * seeing if attending.shape[2] else tokens[:, :0]
            told: Tensor | float = 0.0
            if layer.recall is not None:
                own, heard, recalled = self._recall(layer.recall, normal, projected, memory, kinds, batch, pairs, led)
                told, mixed = layout.pack(heard), torch.cat([layout.pack(own), mixed], -1)
            tokens = layer.finish(tokens, layer.out_proj(mixed) + told)
        watched = {head: recalled for head in watch if head == RECALL_HEAD}
        kept = None if self.keep is None else self.keep(tokens)
        return Output(self.action_head, self.output(self.output_norm(tokens)), watched, kept)

    def _schooling(self, batch: Batch) -> tuple[Tensor | float, Tensor | None]:
        """What is different in training: 0 at the steps whose other heads see nothing, else 1, `[S, 1]`; and the
        episodes that read what is to be recalled, `[B]`. Which they are is drawn anew every time."""
        alone, taught = (
            batch.annotated & (torch.rand(batch.rows, device=batch.annotated.device) < share) if share else None
            for share in (self.config.alone, self.config.teacher)
        )
        return 1.0 if alone is None else (~alone)[batch.row, None].float(), taught

    def _recall(
        self,
        recall: Recall,
        normal: Tensor,
        projected: Tensor,
        memory: Tensor,
        kinds: Tensor,
        batch: Batch,
        pairs: Entries | None,
        led: Tensor | None,
    ) -> tuple[Tensor, Tensor, Recalled]:
        """The recall head over whole episodes: its output `[B, T, h]`, what else it tells the step `[B, T, D]`, and
        what it recalled. From packed tokens `[S, D]` and their projections `[S, 3, H, h]`, memories and kinds of the
        distinct observations, what is to be recalled, and which episodes read that instead `[B]`."""
        pad = Layout.of(batch, per_step=1).pad
        said = (recall.offers(normal), recall.say(normal), batch.per_step(memory), batch.per_step(kinds))
        past = Past(*map(pad, (normal, projected[:, 0, 0], projected[:, 2, 0], *said)))
        every = Block(0, batch.rows, 0, batch.longest)
        numbers, kind = self.observation_embedding.cells + OF_AN_ENTRY, normal.device.type
        positions = self.positional_encoding(torch.arange(batch.longest, device=normal.device))
        scores = partial(self._scores, recall, past, positions)
        one = partial(self._recall_block, recall, past, scores, pairs, led)
        if batch.rows * batch.longest**2 * numbers <= HELD[kind]:
            settled = scores(every)
            own, heard, told = one(every, settled)
            return own, heard, Recalled(settled.mass, settled.cut, told, settled.of, every)
        blocks = batch.blocks(max(1, IN_A_BLOCK[kind] // numbers))
        # From the last on, whose past is the longest: what it leaves of the memory has room for the others.
        parts = [checkpoint(one, block, use_reentrant=False, preserve_rng_state=False) for block in blocks[::-1]][::-1]
        own, heard, told, mass, cut = (joined(blocks, own, batch.longest) for own in zip(*parts, strict=True))
        return own, heard, Recalled(mass, cut, told, scores, every)

    def _scores(self, recall: Recall, past: Past, positions: Tensor, block: Block) -> Settled:
        """What the steps of a block recall; `positions` `[T, D]` are those of all steps."""
        asking, seen = past.of(block)
        cells = self.observation_embedding.match(asking.query, seen.memory, asking.memory, recall.bias)
        now, then = positions[block.asks], positions[block.past]
        scores = recall.scores(asking.normal, cells, seen.offers, now, then)
        step = torch.arange(block.end, device=scores.device)
        return settle(scores, (step < step[block.asks, None]) & self.config.past)

    def _recall_block(
        self,
        recall: Recall,
        past: Past,
        scores: Callable[[Block], Settled],
        pairs: Entries | None,
        led: Tensor | None,
        block: Block,
        settled: Settled | None = None,
    ) -> tuple[Tensor, ...]:
        """The recall head at the steps of a block: its output `[E, Q, h]`, what else it tells them `[E, Q, D]`, Σ_p m ·
        s, and the mass and cut where they are not given, `[E, Q]` each."""
        asking, seen = past.of(block)
        own = read = settled or scores(block)
        told = own.mass.new_zeros(own.mass.shape)
        if pairs is not None:
            wanted = pairs.matrix(block)
            told = (wanted * own.scores).sum(-1)
            if led is not None:
                amounts = torch.where(led[block.rows, None, None], wanted, own.amounts)
                read = own._replace(amounts=amounts, mass=amounts.sum(-1))
        heard = self._heard(recall, read, seen.says, seen.memory, asking.memory, asking.kinds)
        out = (read.share() @ seen.value, torch.zeros_like(asking.normal) + heard, told)
        return out if settled is not None else (*out, own.mass, own.cut)

    def _heard(
        self, recall: Recall, read: Settled, says: Tensor, memory: Tensor, own: Tensor, kinds: Tensor
    ) -> Tensor | float:
        """What steps are told of all they recall, beside the head's output, `[…, Q, D]`: from what is read, what the
        past says and its memory, and the memory and the kinds of what is in view."""
        heard = recall.read(read.amounts, read.mass)
        heard = heard + recall.hear(read.amounts, read.mass, says, memory, kinds)
        return heard + self.observation_embedding.lay(read.amounts, read.mass, memory, own)

    def attention(self, batch: Batch) -> Tensor:
        """How many things each step recalls from each other one, exp(s) up to 1: `[1, 1, B, T, T]`."""
        recalled: Recalled = self(batch, (RECALL_HEAD,)).watched[RECALL_HEAD]
        return recalled.whole.amounts.clamp(max=1)[None, None]

    def bounded(self, bound: Bound) -> Network:
        from attentiontuner.models.bounded import BoundedRecall

        return BoundedRecall(self, bound)

    # --- one step at a time ------------------------------------------------------------------------------------------

    def start(self, rows: int, max_steps: int) -> RecallCache:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the model's device."""
        config, weight, seen = self.config, self.output.weight, self.observation_embedding
        shape = (rows, config.heads, max_steps, config.d_model // config.heads)
        keys, values = ([weight.new_zeros(shape) for _ in range(config.layers)] for _ in range(2))
        says = (config.marks if seen.kinds_in_view else 0) + config.sums
        memory, offers, said = (weight.new_zeros(rows, max_steps, size) for size in (seen.memory, 1, says))
        keep, time = weight.new_zeros(rows, max_steps), torch.full((rows,), -1, device=weight.device)
        return RecallCache(keys, values, memory, offers, said, keep, time)

    def step(
        self,
        cache: RecallCache,
        observations: Tensor,
        last_actions: Tensor,
        begins: Tensor,
        watch: Sequence[Head] = (),
        moving: bool = False,
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes at once; see `Network.step`. The recall head's weights are exp(s): how many things
        were recalled from each step. They sum to the mass, not to 1.

        `moving`: what is in the cache may move to other places between the steps, so that keys are turned by the places
        they stand in, at every step."""
        row = torch.arange(len(cache.time), device=cache.time.device)
        time = torch.where(begins, 0, cache.time + 1)
        cache.time.copy_(time)
        vectors, memory, kinds = self.observation_embedding(observations)
        cache.memory[row, time] = memory
        tokens = self.tokens(vectors, last_actions, begins, time)  # [R, D]
        total = cache.memory.shape[1]
        end = reached(time, total)
        step = torch.arange(end, device=time.device)
        past, visible = (step < time[:, None]) & self.config.past, step <= time[:, None]  # [R, end]
        weights: dict[Head, Tensor] = {}
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, RecallLayer)
            normal, projected = layer.project(tokens)
            query, key, value = layer.turn(projected, time).unbind(1)  # [R, H, h] each
            keys, values = cache.keys[number], cache.values[number]
            keys[row, :, time], values[row, :, time] = projected[:, 1] if moving else key, value
            keys, values = keys[:, :, :end], values[:, :, :end]
            if moving:
                keys = layer.turn_asked(keys.permute(2, 0, 1, 3), step).permute(1, 2, 0, 3)
            mixed = F.scaled_dot_product_attention(query[:, :, None], keys, values, visible[:, None, None]).flatten(1)
            mixed = mixed * self.config.past
            told: Tensor | float = 0.0
            if (recall := layer.recall) is not None:
                cache.offers[row, time], cache.says[row, time] = recall.offers(normal), recall.say(normal)
                memories, offers, says = cache.memory[:, :end], cache.offers[:, :end], cache.says[:, :end]
                cells = self.observation_embedding.match(query[:, :1], memories, memory[:, None], recall.bias)
                now, positions = self.positional_encoding(time)[:, None], self.positional_encoding(step)
                scores = recall.scores(normal[:, None], cells, offers, now, positions)
                found = settle(scores, past[:, None])  # [R, 1, end]
                heard = self._heard(recall, found, says, memories, memory[:, None], kinds[:, None])
                told = (torch.zeros_like(normal)[:, None] + heard)[:, 0]
                attended = (found.share() @ values[:, 0])[:, 0]  # [R, h]
                mixed = torch.cat([attended, mixed[:, attended.shape[-1] :]], -1)
                if RECALL_HEAD in watch:
                    weights[RECALL_HEAD] = F.pad(found.amounts[:, 0], (0, total - end))
            tokens = layer.finish(tokens, layer.out_proj(mixed) + told)
        if self.keep is not None:
            cache.keep[row, time] = self.keep(tokens)
        return self.output(self.output_norm(tokens)), weights
