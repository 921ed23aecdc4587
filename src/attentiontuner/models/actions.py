"""Action heads: how an action is shown to a network, and how one is read from it.

Legend: S steps, P numbers that describe the distribution of one action, F features of an action, D = d_model, k actions
of a chunk (the present one and those that come), N numbers of an action that is a box, M modes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch
from attentiontuner.models.sizes import heads_for
from attentiontuner.models.standard import Exact
from attentiontuner.spaces import ActionSpec

DRAWN = 16
"""Actions that an entropy without a closed form is estimated from."""

MODES = 5
"""Modes of a mixture."""

NARROWEST = 0.1
"""The least deviation of a mode, where most actions lie from -1 to 1. Without it the likelihood of a few demonstrations
has no end, and its gradient neither."""

QUANTILES = (0.01, 0.99)
"""Between these of the training set an action's number is from -1 to 1."""

FARTHEST = 4.0
"""How many times as wide as between the quantiles all of them may lie: what happens seldom is no outlier."""


class ActionHead(nn.Module, ABC):
    """What a network needs to know of its actions; those of `spec`.

    Attributes:
        width: P; the network's last layer gives so many numbers.
        features: F; the network's embedding of an action has a row for each.
        chunk: k; how many actions are read at a step, the first the present one.
        measures: what is measured at each step beside the loss, by name.
        fits: whether it looks at the training set's actions before the first step (`fit`).
    """

    width: int
    features: int
    chunk: int = 1
    measures: ClassVar[tuple[str, ...]]
    fits: ClassVar[bool] = False

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        self.spec = spec

    def fit(self, actions: Iterable[NDArray[Any]]) -> None:
        """Look at the training set's actions, blocks `[n, …]`."""

    @abstractmethod
    def show(self, actions: Tensor, dtype: torch.dtype) -> Tensor:
        """Actions `[S, …]` as features `[S, F]`."""

    @abstractmethod
    def embed(self, actions: Tensor, begins: Tensor, table: Tensor) -> Tensor:
        """Features times the rows of a table `[F + 1, D]`, by look-up where that is enough: `[S, D]`. Where an episode
        `begins` `[S]` there is no action yet: the table's last row."""

    @abstractmethod
    def loss(self, distribution: Tensor, batch: Batch) -> Tensor:
        """What is minimised at each step of the batch, from its distributions `[S, P]`: `[S]`, float32."""

    @abstractmethod
    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """Of the present actions `[S, …]` under the distributions `[S, P]`: `[S]`, float32; of boxes in their units."""

    @abstractmethod
    def plan(self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """The likeliest actions of the chunk `[S, k, …]`; with a temperature above 0, drawn ones. They are drawn on the
        CPU, where the generator stands, so that they are the same on every device."""

    def choose(
        self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """The likeliest present actions `[S, …]`; with a temperature above 0, drawn ones."""
        return self.plan(distribution, temperature, generator)[:, 0]

    def plain(self, distribution: Tensor) -> Tensor:
        """What a program without this package can use: logits, which the distribution is where actions are choices."""
        return distribution

    def entropy(self, distribution: Tensor) -> Tensor:
        """Of the distributions `[S, P]`, in nats: `[S]`, float32. Where it has no closed form, the mean negative
        log-likelihood of a few actions that are drawn, the same ones for the same distributions."""
        generator = torch.Generator(distribution.device).manual_seed(0)
        drawn = [self.choose(distribution, 1.0, generator) for _ in range(DRAWN)]
        return torch.stack([self.negative_log_likelihood(distribution, actions) for actions in drawn]).mean(0)

    @abstractmethod
    def error(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """How far the best action is from the present one `[S, …]`: of choices 1 where it is another one, of numbers
        their mean distance, in their units. `[S]`, float32."""

    @abstractmethod
    def measure(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """The `measures` of the present actions `[S, …]`: `[S, measures]`."""


class DiscreteHead(ActionHead):
    """One of several actions, or several such choices at once: logits for each choice, side by side."""

    measures = ("accuracy",)

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

    def loss(self, distribution: Tensor, batch: Batch) -> Tensor:
        return self.negative_log_likelihood(distribution, batch.actions)

    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        logits, chosen = distribution.float(), actions.view(len(actions), len(self.sizes))
        parts = [
            F.cross_entropy(part, chosen[:, place], reduction="none")
            for place, part in enumerate(logits.split(self.sizes, -1))
        ]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    def plan(self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        parts = distribution.float().split(self.sizes, -1)
        drawn = [_draw(part, temperature, generator) if temperature > 0 else part.argmax(-1) for part in parts]
        return torch.stack(drawn, -1).view(len(distribution), 1, *self.spec.shape)

    def entropy(self, distribution: Tensor) -> Tensor:
        logs = [part.log_softmax(-1) for part in distribution.float().split(self.sizes, -1)]
        return -torch.stack([(part.exp() * part).sum(-1) for part in logs]).sum(0)

    def error(self, distribution: Tensor, actions: Tensor) -> Tensor:
        return 1 - self.measure(distribution, actions)[:, 0].float()

    def measure(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """Whether the likeliest action is the given one, with all its choices."""
        same = (self.choose(distribution) == actions).view(len(actions), -1)
        return same.all(-1, keepdim=True)


def _draw(logits: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """Logits `[S, n]` → numbers in `range(n)`, `[S]`."""
    # Near a temperature of 0 quotients are too large for float32; with the largest at 0 all is well.
    scaled = (logits - logits.amax(-1, keepdim=True)).double().cpu() / temperature
    return torch.multinomial(scaled.softmax(-1), 1, generator=generator)[:, 0].to(logits.device)


# --- numbers within bounds -------------------------------------------------------------------------------------------


class BoxHead(ActionHead, Exact):
    """Numbers within bounds. The network sees and gives them from about -1 to 1: between two quantiles of the training
    set's, which are kept with its weights. What it plays is cut off at the bounds."""

    fits = True

    def __init__(self, spec: ActionSpec, chunk: int) -> None:
        super().__init__(spec)
        self.features, self.chunk = spec.count, chunk
        self.centre: Tensor
        self.spread: Tensor
        self.low: Tensor
        self.high: Tensor
        self.register_buffer("centre", torch.zeros(spec.count))
        self.register_buffer("spread", torch.ones(spec.count))  # half of what lies between the quantiles
        self.register_buffer("low", torch.tensor(spec.low), persistent=False)
        self.register_buffer("high", torch.tensor(spec.high), persistent=False)

    def fit(self, actions: Iterable[NDArray[Any]]) -> None:
        numbers = np.concatenate([block.reshape(len(block), -1) for block in actions]).astype(np.float64)
        low, high = np.quantile(numbers, QUANTILES, axis=0)
        span = np.maximum(high - low, np.ptp(numbers, axis=0) / FARTHEST)
        self.centre.copy_(torch.from_numpy((low + high) / 2))
        self.spread.copy_(torch.from_numpy(np.where(span > 0, span / 2, 1)))

    def _standard(self, actions: Tensor) -> Tensor:
        """Actions `[…, *shape]` as the network has them, `[…, N]`."""
        lead = actions.shape[: actions.dim() - len(self.spec.shape)]
        return (actions.reshape(*lead, -1).float() - self.centre) / self.spread

    def _actions(self, standard: Tensor) -> Tensor:
        """`[…, N]` as actions `[…, *shape]`, within the bounds."""
        numbers = (standard * self.spread + self.centre).clamp(self.low, self.high)
        return numbers.view(*standard.shape[:-1], *self.spec.shape)

    def show(self, actions: Tensor, dtype: torch.dtype) -> Tensor:
        return self._standard(actions).to(dtype)

    def embed(self, actions: Tensor, begins: Tensor, table: Tensor) -> Tensor:
        return torch.where(begins[:, None], table[-1], self.show(actions, table.dtype) @ table[:-1])

    def plain(self, distribution: Tensor) -> Tensor:
        """The likeliest actions of the chunk, `[S, k, …]`."""
        return self.plan(distribution)

    def _coming(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The chunk of each step as the network has it `[S, k, N]`, and which of its numbers there are `[S, k, 1]`."""
        actions, there = batch.coming(self.chunk)
        return self._standard(actions), there[..., None]

    def error(self, distribution: Tensor, actions: Tensor) -> Tensor:
        return (self.choose(distribution) - actions).abs().flatten(1).mean(1)


class MixtureHead(BoxHead):
    """A mixture of Gaussians over the whole chunk, each mode with a mean and a deviation for every number of it. What
    comes after the end of an episode is no part of the likelihood. The best action is the mean of the heaviest mode."""

    measures = ("log_likelihood", "error")

    def __init__(self, spec: ActionSpec, chunk: int) -> None:
        super().__init__(spec, chunk)
        self.width = MODES * (1 + 2 * chunk * spec.count)

    def _modes(self, distribution: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights `[S, M]`, means and deviations `[S, M, k, N]`."""
        numbers = MODES * self.chunk * self.spec.count
        weights, means, widths = distribution.float().split([MODES, numbers, numbers], -1)
        shape = (len(distribution), MODES, self.chunk, self.spec.count)
        return weights.log_softmax(-1), means.view(shape), F.softplus(widths).view(shape) + NARROWEST

    def _log_density(self, distribution: Tensor, standard: Tensor, there: Tensor) -> Tensor:
        """Of those numbers of the first actions of a chunk `[S, j, N]` that are `there` `[S, j, 1]`: `[S]`."""
        weights, means, widths = self._modes(distribution)
        means, widths = means[:, :, : standard.shape[1]], widths[:, :, : standard.shape[1]]
        distance = (standard[:, None] - means) / widths
        log_density = -(distance**2) / 2 - widths.log() - math.log(2 * math.pi) / 2
        return (weights + (log_density * there[:, None]).sum((2, 3))).logsumexp(1)

    def corrected(self, distribution: Tensor, numbers: Tensor, deviation: Tensor) -> Tensor:
        """These distributions `[S, P]` times one Gaussian each, in the network's units: the numbers `[S, N]` of the
        present action, give or take `deviation` `[S, N]`. Where they know more than a mode they move it, and modes
        that they speak against lose their weight; one that is sure already stays as it is. The chunk has one action."""
        weights, means, widths = self._modes(distribution)
        means, variance, noise = means[:, :, 0], widths[:, :, 0] ** 2, deviation[:, None] ** 2
        both = variance + noise
        weights = weights - ((numbers[:, None] - means) ** 2 / both + both.log()).sum(2) / 2
        means = (means * noise + numbers[:, None] * variance) / both
        widths = (variance * noise / both).sqrt() - NARROWEST
        inverse = widths.clamp(min=1e-3).expm1().log()  # of the softplus
        return torch.cat([weights, means.flatten(1), inverse.flatten(1)], 1)

    def loss(self, distribution: Tensor, batch: Batch) -> Tensor:
        """Negative log-likelihood of the chunk, a number of it."""
        standard, there = self._coming(batch)
        return -self._log_density(distribution, standard, there) / (there.sum((1, 2)) * self.spec.count).clamp(min=1)

    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        standard = self._standard(actions)[:, None]
        density = self._log_density(distribution, standard, torch.ones_like(standard[..., :1]))
        return self.spread.log().sum() - density

    def entropy(self, distribution: Tensor) -> Tensor:
        """Of the present action, in its units. All but how far the modes lie apart has a closed form: only what an
        action leaves open about its mode is the mean of a few that are drawn. Without that the mean of their
        likelihoods is off by 0.3 nats where three numbers are drawn, more than most steps differ by."""
        weights, means, widths = self._modes(distribution)
        means, widths = means[:, :, 0], widths[:, :, 0]
        within = self.spread.log().sum() + (widths.log() + math.log(2 * math.pi * math.e) / 2).sum(2)
        generator = torch.Generator().manual_seed(0)  # on the CPU, as where actions are drawn
        open_ = torch.zeros_like(weights[:, 0])
        for _ in range(DRAWN):
            mode = _draw(weights, 1.0, generator)[:, None, None].expand(-1, 1, means.shape[2])
            noise = torch.randn((len(means), 1, means.shape[2]), generator=generator).to(means.device)
            drawn = means.gather(1, mode) + noise * widths.gather(1, mode)
            log_density = weights - (((drawn - means) / widths) ** 2 / 2 + widths.log()).sum(2)
            posterior = log_density.log_softmax(1)
            open_ = open_ - (posterior.exp() * posterior).sum(1) / DRAWN
        return (weights.exp() * (within - weights)).sum(1) - open_

    def plan(self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        weights, means, widths = self._modes(distribution)
        mode = _draw(weights, temperature, generator) if temperature > 0 else weights.argmax(-1)
        place = mode[:, None, None, None].expand(-1, 1, *means.shape[2:])
        chosen = means.gather(1, place)[:, 0]
        if temperature > 0:
            noise = torch.randn(chosen.shape, generator=generator).to(chosen.device)
            chosen = chosen + math.sqrt(temperature) * noise * widths.gather(1, place)[:, 0]
        return self._actions(chosen)

    def measure(self, distribution: Tensor, actions: Tensor) -> Tensor:
        """The log-likelihood a number, in the numbers' units, and how far they are from those of the best action."""
        likelihood = -self.negative_log_likelihood(distribution, actions) / self.spec.count
        return torch.stack([likelihood, self.error(distribution, actions)], 1)


class DistanceHead(BoxHead):
    """One chunk of actions, as near to the expert's as can be: the mean absolute distance is minimised. It knows no
    likelihood, and what the expert does now one way and now another becomes something between them."""

    measures = ("error",)

    def __init__(self, spec: ActionSpec, chunk: int) -> None:
        super().__init__(spec, chunk)
        self.width = chunk * spec.count

    def _means(self, distribution: Tensor) -> Tensor:
        """`[S, k, N]`"""
        return distribution.float().view(len(distribution), self.chunk, self.spec.count)

    def loss(self, distribution: Tensor, batch: Batch) -> Tensor:
        standard, there = self._coming(batch)
        distance = (self._means(distribution) - standard).abs() * there
        return distance.sum((1, 2)) / (there.sum((1, 2)) * self.spec.count).clamp(min=1)

    def negative_log_likelihood(self, distribution: Tensor, actions: Tensor) -> Tensor:
        raise UserError("an action head l1 knows no likelihood: train with action_head=gmm")

    def plan(self, distribution: Tensor, temperature: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        if temperature > 0:
            raise UserError("an action head l1 has nothing to draw from: train with action_head=gmm, or do not sample")
        return self._actions(self._means(distribution))

    def measure(self, distribution: Tensor, actions: Tensor) -> Tensor:
        return self.error(distribution, actions)[:, None]


BOX_HEADS: dict[str, type[BoxHead]] = {"gmm": MixtureHead, "l1": DistanceHead}
"""name → head of actions that are boxes; the first where nothing is said."""


def action_head(spec: ActionSpec, name: str | None = None, chunk: int = 1) -> ActionHead:
    """The head of that name (None: the usual one) for these actions, which reads `chunk` of them at a step."""
    there = heads_for(spec)
    if (name or there[0]) not in there:
        raise UserError(f"action_head {name!r}: actions that are {spec} have {' or '.join(there)}")
    if spec.kind == "box":
        return BOX_HEADS[name or there[0]](spec, chunk)
    if chunk != 1:
        raise UserError(f"chunk {chunk}: only actions that are numbers within bounds are read in chunks, not {spec}")
    return DiscreteHead(spec)
