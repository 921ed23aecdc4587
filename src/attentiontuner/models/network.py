"""What a network must offer.

Legend: B episodes, S steps packed end to end (`data.batch`), T steps of the longest, P numbers that describe an action
distribution (`models.actions`), R rows of a streaming cache.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.data.batch import Batch
from attentiontuner.models.actions import ActionHead
from attentiontuner.models.bound import Bound
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import NetworkConfig

Observed = Iterable[tuple[NDArray[np.uint8], NDArray[np.int64]]]
"""Blocks of distinct observations `[u, bytes]` with how many steps of the training set saw each `[u]`."""


def reached(time: Tensor, room: int) -> int:
    """How many steps of a cache a step looks at: those that some row has reached, `time` `[R]` being the present ones.

    A host that computes by itself saves the others; a GPU, and a step that is exported, keep one shape and never wait.
    """
    if time.device.type != "cpu" or torch.compiler.is_compiling():
        return room
    return min(room, int(time.max()) + 1)


class Output(NamedTuple):
    """What a forward pass gives.

    Attributes:
        head: which knows what the distribution's numbers mean.
        distribution: `[S, P]`, the action distribution at each step.
        watched: what the heads asked for did, in a form that the network and its method share.
        keep: `[S]`, the logit that each step will be recalled from beyond its window; None: the network does not tell.
    """

    head: ActionHead
    distribution: Tensor
    watched: dict[Head, Any]
    keep: Tensor | None = None


class Network(nn.Module, ABC):
    """A policy: actions from all observations and actions so far.

    Attributes:
        config: its sizes.
        action_head: how actions are read from it and shown to it.
        fits: whether it looks at the training observations before the first step (`fit`).
        haste: how much faster its single numbers learn than all other weights.
        tested_at_once: episodes that are tested together on a GPU, where there is room; 0: no more than are trained.
    """

    config: NetworkConfig
    action_head: ActionHead
    fits: bool = False
    haste: float = 1.0
    tested_at_once: ClassVar[int] = 256

    @property
    @abstractmethod
    def watchable(self) -> tuple[Head, ...]:
        """The heads that can be watched."""

    @abstractmethod
    def forward(self, batch: Batch, watch: Sequence[Head] = ()) -> Output:
        """The action distribution of every step of a packed batch, and the heads asked for."""

    @abstractmethod
    def attention(self, batch: Batch) -> Tensor:
        """What every head looks at, for pictures: weights from 0 to 1, `[layers, heads, B, n, n]`."""

    @abstractmethod
    def start(self, rows: int, max_steps: int) -> Any:
        """An empty cache for `rows` episodes of at most `max_steps` steps, on the network's device: a NamedTuple of
        tensors `[R, …]` and lists of them, with `time` `[R]`, the present step of each row, -1 before the first."""

    @abstractmethod
    def step(
        self, cache: Any, observations: Tensor, last_actions: Tensor, begins: Tensor, watch: Sequence[Head] = ()
    ) -> tuple[Tensor, dict[Head, Tensor]]:
        """One step of R episodes at once, each row remembering its own.

        `observations` `[R, bytes]` are the present ones, `last_actions` `[R, …]` the actions before them, which mean
        nothing in rows that begin a new episode (`begins` `[R]` bool). Returns the action distribution `[R, P]` and,
        for each watched head, its weights on the observations so far `[R, max_steps]`.
        """

    def bounded(self, bound: Bound) -> "Network":
        """This network, playing with a bounded memory."""
        memory = f"a memory of {counted(bound.places, 'step', form=',')}"
        raise UserError(f"{memory}: a {self.config.architecture} network cannot choose what to keep")

    def fit(self, observed: Observed, frames: int) -> None:
        """Look at the training set: blocks of distinct observations with how many steps saw each, about `frames` of
        them in all."""

    def clear_unused(self) -> None:
        """Set to zero what the weights hold for things the training set never had: no decision reads it."""
