"""A recall network that plays with a bounded memory: steps that are not worth their place are taken out.

What is left stands in the order of time, without gaps, and a step's place is all that the network knows of when it was:
so it has learned from windows (`data.windows`), and so episodes may be of any length.

Legend: R rows of a streaming cache, C places of the memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attentiontuner.data.batch import Batch
from attentiontuner.models.actions import ActionHead
from attentiontuner.models.bound import Bound
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Network, Output
from attentiontuner.models.recall import RecallCache, RecallTransformer
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig


class BoundedCache(NamedTuple):
    """What R episodes hold of their past, in the first places of C, the oldest first."""

    entries: RecallCache
    worth: Tensor  # [R, C] the less, the sooner a step has to go
    steps: Tensor  # [R, C] which step of its episode stands there, -1: none
    time: Tensor  # [R] the present step of each row


class BoundedRecall(Network):
    """A recall network as a policy whose steps cost the same however long the episode is."""

    def __init__(self, network: RecallTransformer, bound: Bound) -> None:
        super().__init__()
        self.network, self.bound = network, bound
        self.config: RecallConfig = network.config
        self.action_head: ActionHead = network.action_head

    @property
    def watchable(self) -> tuple[Head, ...]:
        return self.network.watchable

    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The network over whole episodes, which forgets nothing."""
        output: Output = self.network(batch, watch)
        return output

    def attention(self, batch: Batch) -> Tensor:
        return self.network.attention(batch)

    def start(self, rows: int, max_steps: int) -> BoundedCache:
        """An empty memory for `rows` episodes of any length."""
        entries = self.network.start(rows, self.bound.places)
        worth = torch.zeros(rows, self.bound.places, device=entries.time.device)
        return BoundedCache(entries, worth, torch.zeros_like(worth, dtype=torch.int64), entries.time.clone())

    def step(
        self,
        cache: BoundedCache,
        observations: Tensor,
        last_actions: Tensor,
        begins: Tensor,
        watch: Sequence[Head] = (),
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step; see `Network.step`. A head's weights are those on the places of the memory, `[R, C]`."""
        entries, worth, steps, time = cache
        time.copy_(torch.where(begins, 0, time + 1))
        steps.masked_fill_(begins[:, None], -1)
        full = (entries.time + 1 == self.bound.places) & ~begins
        if time.device.type != "cpu" or torch.compiler.is_compiling() or bool(full.any()):
            self._make_room(cache, full)
        by_attention = self.bound.by == "attention"
        watched = (*watch, RECALL_HEAD) if by_attention else watch
        distribution, weights = self.network.step(entries, observations, last_actions, begins, watched, moving=True)
        row, place = torch.arange(len(time), device=time.device), entries.time
        steps[row, place] = time
        if by_attention:
            worth[row, place] = 0.0
            worth += weights[RECALL_HEAD]
        elif self.bound.by == "score":
            worth[row, place] = entries.keep[row, place]
        return distribution, {head: weights[head] for head in watch}

    def _make_room(self, cache: BoundedCache, full: Tensor) -> None:
        """In the rows that are `full` `[R]` the one that is worth least goes, of those that are no longer recent; those
        after it move up."""
        places = self.bound.places
        least = cache.worth[:, : self.bound.keep + 1].argmin(1)
        out = torch.where(full, least, places)
        place = torch.arange(places - 1, device=out.device)
        source = place + (place >= out[:, None])  # [R, C - 1]
        for tensor, axis in _with_places(cache):
            owners = tensor.shape[1] if axis == 2 else 1
            first = torch.arange(len(source) * owners, device=out.device).view(-1, owners, 1) * places
            moved = tensor.flatten(0, axis).index_select(0, (first + source[:, None]).flatten())
            stays = tensor.narrow(axis, 0, places - 1)
            stays.copy_(moved.view(stays.shape))
        cache.entries.time.sub_(full.long())


def _with_places(cache: BoundedCache) -> list[tuple[Tensor, int]]:
    """The tensors of a memory, and which of their dimensions are places."""
    entries = cache.entries
    by_head = [(tensor, 2) for tensor in (*entries.keys, *entries.values)]
    by_step = [(tensor, 1) for tensor in (entries.memory, entries.offers, entries.says, entries.keep)]
    return [*by_head, *by_step, (cache.worth, 1), (cache.steps, 1)]
