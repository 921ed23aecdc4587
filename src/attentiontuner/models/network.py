"""What a network must offer, and what its configuration is.

Legend: B episodes, S steps packed end to end (`data.batch`), T steps of the longest, P numbers that describe an action
distribution (`models.actions`), R rows of a streaming cache.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch
from attentiontuner.models.actions import ActionHead, heads_for
from attentiontuner.models.heads import Head
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.spaces.encoders import parse_encoders

Observed = Iterable[tuple[NDArray[np.uint8], NDArray[np.int64]]]
"""Blocks of distinct observations `[u, bytes]` with how many steps of the training set saw each `[u]`."""

SPACES = ("observation", "actions")
"""Fields of a network's configuration that the task says."""


@dataclass(frozen=True)
class NetworkConfig(ABC):
    """Sizes of a network. A subclass adds its own fields, names its `architecture`, and builds it.

    Attributes:
        observation: what it sees.
        actions: what it does; may be given as the number of discrete actions.
        action_head: how actions are read from it, see `models.actions`: of numbers within bounds gmm, a mixture, or l1;
            None: the usual one.
        chunk: how many coming actions are read at a step, where they are numbers within bounds.
        encoders: those of one's own as part=name,… (`spaces.encoders`).
    """

    architecture: ClassVar[str]

    observation: ObservationSpec
    actions: ActionSpec
    action_head: str = field(default=None, kw_only=True)  # type: ignore[assignment]  # never None once it is made
    chunk: int = field(default=1, kw_only=True)
    encoders: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", ActionSpec.of(self.actions).unnamed())
        heads = heads_for(self.actions)
        if self.action_head is None:
            object.__setattr__(self, "action_head", heads[0])
        self.check_range("action_head", self.action_head in heads, f"{' or '.join(heads)}, which {self.actions} have")
        single = self.actions.kind != "box"
        self.check_range("chunk", 1 <= self.chunk <= (1 if single else math.inf), "1" if single else "1 or more")
        parse_encoders(self.encoders, self.observation)

    @property
    def own_encoders(self) -> Mapping[str, str]:
        """Encoders of one's own by part."""
        return parse_encoders(self.encoders, self.observation)

    @abstractmethod
    def build(self) -> "Network":
        """The network, with fresh weights from PyTorch's generator."""

    def check_range(self, name: str, good: bool, wanted: str) -> None:
        """Refuse a field's value unless it is `good`."""
        if not good:
            raise UserError(f"model {name}: {getattr(self, name)!r} is not {wanted}")

    def chosen(self) -> dict[str, Any]:
        """Its fields by name, without what the task says."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in SPACES}

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value = {item.name: getattr(self, item.name) for item in fields(self)}
        spaces = {"observation": self.observation.to_json(), "actions": self.actions.to_json()}
        return {"architecture": self.architecture, **value, **spaces}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        given = dict(value)
        if given.pop("architecture", None) != cls.architecture:
            raise UserError(f"model architecture {value.get('architecture')!r} is not {cls.architecture!r}")
        try:
            observation = ObservationSpec.from_json(given.pop("observation"))
            return cls(observation, ActionSpec.from_json(given.pop("actions")), **given)
        except (KeyError, TypeError) as error:
            raise UserError(f"model configuration: {error}") from error


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
    """

    head: ActionHead
    distribution: Tensor
    watched: dict[Head, Any]


class Network(nn.Module, ABC):
    """A policy: actions from all observations and actions so far.

    Attributes:
        config: its sizes.
        action_head: how actions are read from it and shown to it.
        fits: whether it looks at the training observations before the first step (`fit`).
        tested_at_once: episodes that are tested together on a GPU, where there is room; 0: no more than are trained.
    """

    config: NetworkConfig
    action_head: ActionHead
    fits: bool = False
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

    def fit(self, observed: Observed, frames: int) -> None:
        """Look at the training set: blocks of distinct observations with how many steps saw each, about `frames` of
        them in all."""
