"""Networks whose memory is as large at the last step as at the first. The whole network, top to bottom.

A token is an observation, where actions are choices together with the action before it. In every layer the memory comes
first, then a feed-forward network, each normalising its input. Memories are GRUs (`gru`), gated linear recurrences
(`lru`), or a GRU below slots (`slots`). What a state knows of the past is asked with a probe: a query from the last
layer meets a key of every earlier observation of the episode. Slots need none: what is read of them tells.

Legend: B episodes, S steps packed end to end, T steps of the longest, E episodes and Q steps of a block, P past steps,
D = d_model, R rows of a streaming cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.data.blocks import Block
from attentiontuner.models.actions import action_head
from attentiontuner.models.embedders import fit_vectors, observation_embedding
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Network, Observed, Output, reached
from attentiontuner.models.recurrence import GatedUnits, Gates, LinearRecurrence
from attentiontuner.models.sizes import RECALL_HEAD, LruConfig, RecurrentConfig, SlotsConfig
from attentiontuner.models.slots import NEVER, Read, Slots

SHARPEST = 10.0
"""The largest score of a probe."""


class Probed(NamedTuple):
    """What the probe asks and what it asks for, `[B, T, D]` each, and the gates of the memory, where it has some."""

    query: Tensor
    key: Tensor
    gates: Gates | None

    def of(self, block: Block) -> Tensor:
        """The scores of a block of steps on the past: `[E, Q, P]`, `NEVER` of the present and the future."""
        step = torch.arange(block.end, device=self.query.device)
        scores = torch.bmm(self.query[block.rows, block.asks], self.key[block.rows, block.past].mT)
        return scores.masked_fill(step >= step[block.asks, None], NEVER)


def memories(config: RecurrentConfig) -> list[nn.Module]:
    """The memory of every layer."""
    if isinstance(config, LruConfig):
        kept = [0] * (config.layers - 1) + [config.kept]
        return [LinearRecurrence(config.d_model, config.span, lanes) for lanes in kept]
    below: list[nn.Module] = [GatedUnits(config.d_model, config.span) for _ in range(config.layers)]
    return [*below[:-1], Slots(config.d_model, config.slots)] if isinstance(config, SlotsConfig) else below


class RecurrentLayer(nn.Module):
    """A memory and a feed-forward network, each added to what comes in."""

    def __init__(self, config: RecurrentConfig, memory: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.memory = memory
        self.feedforward = nn.Sequential(
            nn.Linear(config.d_model, config.feedforward),
            nn.ReLU(),
            nn.Linear(config.feedforward, config.d_model),
            nn.Dropout(config.dropout),
        )

    def finish(self, tokens: Tensor, remembered: Tensor) -> Tensor:
        """The layer after its memory."""
        tokens = tokens + remembered
        finished: Tensor = tokens + self.feedforward(self.norm2(tokens))
        return finished


class RecurrentCache(NamedTuple):
    """What R episodes have left behind. The keys of the past `[R, max_steps, D]` are kept where somebody watches; until
    then they have no width."""

    states: list[list[Tensor]]  # by layer
    keys: list[Tensor]
    time: Tensor  # [R] the present step of each row


class RecurrentNetwork(Network):
    """The policy: actions from all observations and actions so far."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.fits = "vector" in config.observation.kinds
        self.action_head = action_head(config.actions, config.action_head, config.chunk)
        self.observation_embedding = observation_embedding(
            config.observation,
            config.d_model,
            config.embedder,
            config.images,
            encoders=config.own_encoders,
            standard=self.fits,
        )
        actions = self.action_head.features + 1  # the last row: no action yet
        self.action_embedding = nn.Embedding(actions, config.d_model) if config.last_action else None
        if self.action_embedding is not None:
            nn.init.normal_(self.action_embedding.weight, std=0.3)
        self.embedding_norm = nn.LayerNorm(config.d_model)
        self.layers = nn.ModuleList(RecurrentLayer(config, memory) for memory in memories(config))
        self.output_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, self.action_head.width)
        self.probes = not isinstance(config, SlotsConfig)
        if self.probes:
            self.asks = nn.Linear(config.d_model, config.d_model)
            self.known_by = nn.Linear(config.d_model, config.d_model)

    @property
    def watchable(self) -> tuple[Head, ...]:
        return (RECALL_HEAD,)

    def fit(self, observed: Observed, frames: int) -> None:
        fit_vectors(self.observation_embedding, self.config.observation, observed, frames)

    def tokens(self, seen: Tensor, last: Tensor, begins: Tensor) -> Tensor:
        """Vectors of observations and the action before each `[S, …]` (none where an episode begins) → `[S, D]`."""
        if self.action_embedding is not None:
            seen = seen + self.action_head.embed(last, begins, self.action_embedding.weight)
        normal: Tensor = self.embedding_norm(seen)
        return normal

    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The action distribution of every step, and if it is asked for a `Probed`, or of slots a `Read`."""
        seen = batch.per_step(self.observation_embedding(batch.observations))
        tokens, layout = self.tokens(seen, batch.last_actions, batch.begins), Layout.of(batch, per_step=1)
        told: Gates | Read | Probed | None = None
        for layer in self.layers:
            assert isinstance(layer, RecurrentLayer)
            remembered, told = layer.memory(layout.pad(layer.norm1(tokens)))
            tokens = layer.finish(tokens, layout.pack(remembered))
        normal = self.output_norm(tokens)
        if watch and self.probes:
            gates = told if isinstance(told, Gates) else None
            told = Probed(layout.pad(self._asks(normal)), layout.pad(self._known_by(seen)), gates)
        return Output(self.action_head, self.output(normal), dict.fromkeys(watch, told))

    def _asks(self, normal: Tensor) -> Tensor:
        """What a step asks the past for: `[…, D]` of length `SHARPEST`."""
        return SHARPEST * F.normalize(self.asks(normal), dim=-1)

    def _known_by(self, seen: Tensor) -> Tensor:
        """What an observation is found by: `[…, D]` of length 1."""
        return F.normalize(self.known_by(seen), dim=-1)

    def attention(self, batch: Batch) -> Tensor:
        """What the probe finds of the past, or how much is read of it, of all 1: `[1, 1, B, T, T]`."""
        told = self(batch, (RECALL_HEAD,)).watched[RECALL_HEAD]
        scores = told.of(Block(0, batch.rows, 0, batch.longest))
        return shares(scores, self.probes)[None, None]

    # --- one step at a time ------------------------------------------------------------------------------------------

    def start(self, rows: int, max_steps: int) -> RecurrentCache:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the model's device."""
        weight = self.output.weight
        states = [layer.memory.start(rows) for layer in self.layers]  # type: ignore[operator, union-attr]
        return RecurrentCache(
            states, [weight.new_zeros(rows, max_steps, 0)], torch.full((rows,), -1, device=weight.device)
        )

    def step(
        self,
        cache: RecurrentCache,
        observations: Tensor,
        last_actions: Tensor,
        begins: Tensor,
        watch: Sequence[Head] = (),
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes at once; see `Network.step`. It costs as much at every step, unless the probe is
        watched, which looks at the whole past."""
        time = torch.where(begins, 0, cache.time + 1)
        cache.time.copy_(time)
        seen = self.observation_embedding(observations)
        tokens, room = self.tokens(seen, last_actions, begins), cache.keys[0].shape[1]
        found: Tensor | None = None
        for layer, state in zip(self.layers, cache.states, strict=True):
            assert isinstance(layer, RecurrentLayer)
            for own in state:
                own.masked_fill_(begins.view(-1, *[1] * (own.dim() - 1)), 0)
            remembered, found = layer.memory.step(layer.norm1(tokens), state, time, room)  # type: ignore[operator, union-attr]
            tokens = layer.finish(tokens, remembered)
        normal = self.output_norm(tokens)
        if watch and self.probes:
            found = self._probe(cache, normal, seen)
        return self.output(normal), {} if found is None else dict.fromkeys(watch, found)

    def _probe(self, cache: RecurrentCache, normal: Tensor, seen: Tensor) -> Tensor:
        """What the probe finds at the present step, `[R, max_steps]`."""
        room = cache.keys[0].shape[1]
        if cache.keys[0].shape[2] == 0:
            cache.keys[0] = normal.new_zeros(len(normal), room, normal.shape[1])
        keys, time = cache.keys[0], cache.time
        keys[torch.arange(len(time), device=time.device), time] = self._known_by(seen)
        end = reached(time, room)
        scores = (keys[:, :end] @ self._asks(normal)[..., None])[..., 0]
        scores = scores.masked_fill(torch.arange(end, device=time.device) >= time[:, None], NEVER)
        return F.pad(shares(scores, True), (0, room - end))


def shares(scores: Tensor, divided: bool) -> Tensor:
    """Scores `[…, P]` as shares of 1, which are `divided` between the steps or are given as logs; 0 where a step is not
    in question."""
    return (scores.softmax(-1) if divided else scores.exp()).masked_fill(scores <= NEVER, 0)
