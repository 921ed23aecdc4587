"""Action heads: how an action is shown to a network, and how one is read from it.

Legend: S steps, P numbers that describe the distribution of one action, F features of an action, D = d_model.
"""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.spaces import ActionSpec

DRAWN = 16
"""Actions that an entropy without a closed form is estimated from."""


class ActionHead(nn.Module, ABC):
    """What a network needs to know of its actions; those of `spec`.

    Attributes:
        width: P; the network's last layer gives so many numbers.
        features: F; the network's embedding of an action has a row for each.
    """

    width: int
    features: int

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        self.spec = spec

    @abstractmethod
    def show(self, actions: Tensor, dtype: torch.dtype) -> Tensor:
        """Actions `[S, …]` as features `[S, F]`."""

    @abstractmethod
    def embed(self, actions: Tensor, begins: Tensor, table: Tensor) -> Tensor:
        """Features times the rows of a table `[F + 1, D]`, by look-up where that is enough: `[S, D]`. Where an episode
        `begins` `[S]` there is no action yet: the table's last row."""

    @abstractmethod
    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """Of the actions `[S, …]` under the distributions `[S, P]`: `[S]`, float32."""

    @abstractmethod
    def choose(
        self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """The likeliest actions `[S, …]`; with a temperature above 0, drawn ones."""

    def entropy(self, distribution: Tensor) -> Tensor:
        """Of the distributions `[S, P]`, in nats: `[S]`, float32. Where it has no closed form, the mean negative
        log-likelihood of a few actions that are drawn, the same ones for the same distributions."""
        generator = torch.Generator(distribution.device).manual_seed(0)
        drawn = [self.choose(distribution, 1.0, generator) for _ in range(DRAWN)]
        return torch.stack([self.negative_log_likelihood(distribution, actions) for actions in drawn]).mean(0)

    @abstractmethod
    def agreement(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """`[S]` from 0 to 1: whether (or for which share of its numbers) the likeliest action is the given one."""


class DiscreteHead(ActionHead):
    """One of several actions, or several such choices at once: logits for each choice, side by side."""

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__(spec)
        self.width = self.features = sum(spec.choices)
        self.sizes = list(spec.choices)
        self.first_of_choice: Tensor  # on the device beforehand: a recorded step cannot fetch it there
        firsts = torch.tensor([sum(self.sizes[:place]) for place in range(len(self.sizes))])
        self.register_buffer("first_of_choice", firsts, persistent=False)

    def _numbers(self, actions: Tensor) -> Tensor:
        """Choices `[S, …]` counted through all of them: `[S, choices]`."""
        return actions.view(len(actions), len(self.sizes)) + self.first_of_choice

    def show(self, actions: Tensor, dtype: torch.dtype) -> Tensor:
        if len(self.sizes) == 1:
            return F.one_hot(actions, self.features).to(dtype)
        return F.one_hot(self._numbers(actions), self.features).sum(1).to(dtype)

    def embed(self, actions: Tensor, begins: Tensor, table: Tensor) -> Tensor:
        if len(self.sizes) == 1:
            return F.embedding(torch.where(begins, self.features, actions), table)
        return torch.where(begins[:, None], table[-1], F.embedding(self._numbers(actions), table).sum(1))

    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        logits, chosen = distribution.float(), actions.view(len(actions), len(self.sizes))
        parts = [
            F.cross_entropy(part, chosen[:, place], reduction="none")
            for place, part in enumerate(logits.split(self.sizes, -1))
        ]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    def choose(
        self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:
        parts = distribution.float().split(self.sizes, -1)
        if temperature > 0:
            # Near a temperature of 0 quotients are too large for float32; with the largest at 0 all is well.
            scaled = [(part - part.amax(-1, keepdim=True)).double() / temperature for part in parts]
            drawn = [torch.multinomial(part.softmax(-1), 1, generator=generator)[:, 0] for part in scaled]
        else:
            drawn = [part.argmax(-1) for part in parts]
        return torch.stack(drawn, -1).view(len(distribution), *self.spec.shape)

    def entropy(self, distribution: Tensor) -> Tensor:
        logs = [part.log_softmax(-1) for part in distribution.float().split(self.sizes, -1)]
        return -torch.stack([(part.exp() * part).sum(-1) for part in logs]).sum(0)

    def agreement(self, distribution: Tensor, actions: Tensor) -> Tensor:
        same = (self.choose(distribution) == actions).view(len(actions), -1)
        return same[:, 0] if len(self.sizes) == 1 else same.all(-1)


HEADS: dict[str, type[ActionHead]] = {"discrete": DiscreteHead, "multi-discrete": DiscreteHead}
"""kind of action → its head."""


def action_head(spec: ActionSpec) -> ActionHead:
    """The head for these actions."""
    if spec.kind not in HEADS:
        raise UserError(
            f"no network here learns actions of kind {spec.kind}: discrete and multi-discrete ones can be learned"
        )
    return HEADS[spec.kind](spec)
