"""Frames found by their place: a step of so many after the start, so many before the present one, or the first or last
that looked like this.

Which place tells something of the actions is tested for all places at once, without fitting anything: at the answers
of the policy without a memory, does the gradient of the likelihood go along with something in view (a score test, whose
noise is that between episodes)? A few places are then fitted, and the one that tells most of other episodes is chosen.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.insight.memoryless import observation_encoder
from attentiontuner.insight.questions import NO_FRAME, Questions
from attentiontuner.insight.steps import Integers, StepData, embedded_at_once, seeded
from attentiontuner.models.parts import decode, split_parts
from attentiontuner.spaces import ObservationSpec, Part

Kind = Literal["at", "ago", "first", "last"]

FARTHEST, LOOKS, NUMBERS, SIDE = 64, 12, 8, 12
"""Steps from the start, or back, that are places of their own; looks told apart; numbers that say what is in view;
pixels a side that images are made smaller to."""

CANDIDATES, FEATURES, EPISODES = 20, 16, 6
"""Places that are fitted, and things in view that each is fitted with, at most; and episodes that have such a place, at
least."""

SIGNIFICANT = 3.5
"""Deviations from nothing from which on a thing in view takes part."""

SLIGHT = 0.05
"""What differs by less between steps, beyond what the present tells of it, is as good as constant."""

SHRINK = 0.5
"""Precision of the normal prior of a weight, where things in view have a deviation of 1."""


class Place(NamedTuple):
    """Where a frame is: `at` step n, n steps `ago`, the `first` or the `last` of look n."""

    kind: Kind
    number: int


class Views:
    """What is in view, as a few numbers, and which cells of one observation another has too.

    Args:
        data: the steps.
        observation: what is seen.
        seed: of the looks.
    """

    def __init__(self, data: StepData, observation: ObservationSpec, seed: int) -> None:
        self.data = data
        rng = np.random.default_rng([seed, 5])
        with seeded(seed, data.device), torch.no_grad():
            encoder = observation_encoder(observation)
            encoder.fit(data.observed(), len(data.frames))
            self.cells, self.kinds = _cells(encoder.to(data.device).eval(), data.frames)
        seen = torch.from_numpy(np.bincount(data.packed.frame_index, minlength=len(data.frames))).to(data.device)
        with seeded(seed, data.device):
            self.numbers = _principal(raw_numbers(data.frames, observation), seen / seen.sum())
        self.look = _alike(self.numbers.cpu().numpy(), rng)[data.packed.frame_index]  # [S]

    def compare(self, present: Tensor, past: Tensor) -> Tensor:
        """Frames `[n]` and `[n]` → what the past one shows, how it goes with the present, and which cells of the
        present it has too: `[n, F]`."""
        now, then = self.numbers[present], self.numbers[past]
        together = (now[:, :, None] * then[:, None, :]).flatten(1)
        views = [then, together, (now - then).abs()]
        if self.kinds.shape[1]:
            views.append((self.cells[past].gather(1, self.kinds[present]) > 0).float())
        return torch.cat(views, 1)

    def present(self, asked: Questions) -> Tensor:
        """What the questions see, and a one: `[Q, numbers + 1]`."""
        return F.pad(self.numbers[asked.frame], (0, 1), value=1.0)

    def find(self, place: Place, asked: Questions) -> Integers:
        """The time of that place in each question's episode, `[Q]`; -1 where it is not before the step."""
        kind, number = place
        if kind in ("at", "ago"):
            time = np.full(len(asked), number) if kind == "at" else asked.time - number
            return np.where((time >= 0) & (time < asked.time), time, -1)
        starts, steps = self.data.packed.starts, len(self.look)
        there = self.look == number
        if kind == "last":
            latest = np.maximum.accumulate(np.where(there, np.arange(steps), -1))
            step = latest[asked.step - 1]
        else:
            owner = np.repeat(np.arange(len(starts)), self.data.packed.lengths)
            first = np.full(len(starts), steps)
            np.minimum.at(first, owner[there], np.flatnonzero(there))
            step = first[asked.episode]
        start = starts[asked.episode]
        return np.where((step >= start) & (step < asked.step), step - start, -1)

    def places(self, asked: Questions) -> list[Place]:
        """All places that any of these may recall."""
        far = range(min(FARTHEST, int(asked.time.max(initial=1))))
        looks = range(int(self.look.max(initial=0)) + 1)
        return [
            *(Place("at", number) for number in far),
            *(Place("ago", number + 1) for number in far),
            *(Place(kind, look) for look in looks for kind in ("first", "last")),  # type: ignore[arg-type]
        ]


@dataclass(frozen=True)
class Fitted:
    """What one place tells: the numbers of an action's distribution move by features times weights.

    Attributes:
        features: which of the numbers of `Views.compare`, `[f]`.
        told, scale: what the present tells of them already, `[numbers + 1, f]`, and what puts the rest on one scale.
        weights: `[f + 1, P]`, the last of a frame that shows none of it.
    """

    place: Place
    features: Tensor
    told: Tensor
    scale: Tensor
    weights: Tensor

    def moves(self, views: Views, asked: Questions) -> tuple[Tensor, Integers]:
        """By how much the distributions move `[Q, P]`, and the time of the frame `[Q]`, -1 where there is none."""
        time = views.find(self.place, asked)
        return self.inputs(views, asked, time) @ self.weights, time

    def inputs(self, views: Views, asked: Questions, time: Integers) -> Tensor:
        """What weights are multiplied by, `[Q, f + 1]`; all 0 where there is no such frame."""
        seen = views.compare(asked.frame, asked.frames_at(time))[:, self.features]
        there = torch.from_numpy(time >= 0).to(seen.device)
        return F.pad((seen - views.present(asked) @ self.told) * self.scale, (0, 1), value=1.0) * there[:, None]


def choose_place(views: Views, asked: Questions, rng: np.random.Generator) -> tuple[Fitted, float] | None:
    """The place that tells most of the actions of episodes it was not fitted to, fitted to all; and the mean gain of a
    step there, in nats. None where no place tells anything."""
    tested = [(score_test(views, place, asked), place) for place in views.places(asked)]
    # Places with the same scores are the same frames: the first of them stands for all.
    distinct = {scores.tobytes(): (float(scores.max(initial=0)), place) for scores, place in reversed(tested)}
    found = sorted(each for each in distinct.values() if each[0] >= SIGNIFICANT)
    half = rng.permutation(int(asked.episode.max()) + 1) % 2
    parts = [np.flatnonzero(half[asked.episode] == own) for own in range(2)]
    best: tuple[float, Place] | None = None
    for _, place in found[-CANDIDATES:]:
        gain = 0.0
        for own, other in (parts, parts[::-1]):
            fitted = fit(views, place, asked.some(own))
            gain += (
                float(gain_by(asked.some(other), fitted.moves(views, asked.some(other))[0]).sum()) if fitted else 0.0
            )
        if gain > (best[0] if best else 0.0):
            best = gain, place
    fitted = fit(views, best[1], asked) if best else None
    return (fitted, best[0] / len(asked)) if best and fitted else None


def gain_by(asked: Questions, moved: Tensor) -> Tensor:
    """Nats by which the actions of questions are likelier with distributions that have moved, `[Q]`; there is always a
    chance that the frame tells nothing."""
    without, with_frame = asked.log_likelihood(asked.base), asked.log_likelihood(asked.base + moved)
    return torch.logaddexp(with_frame + math.log(1 - NO_FRAME), without + math.log(NO_FRAME)) - without


def score_test(views: Views, place: Place, asked: Questions) -> NDArray[np.float32]:
    """Of each number of `Views.compare` by how many deviations the gradient of the likelihood goes along with it, at
    the number of the distribution where it does most: `[F]`. Steps of one episode count as one observation."""
    time = views.find(place, asked)
    there = np.flatnonzero(time >= 0)
    if len(np.unique(asked.episode[there])) < EPISODES:
        return np.zeros(0, np.float32)
    asked, time = asked.some(there), time[there]
    seen = views.compare(asked.frame, asked.frames_at(time))
    base = asked.base.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(asked.log_likelihood(base).sum(), base)
    owner, count = np.unique(asked.episode, return_inverse=True)[1], len(np.unique(asked.episode))
    at = torch.from_numpy(owner).to(seen.device)
    seen = seen - views.present(asked) @ _told(views.present(asked), seen)
    largest = torch.zeros(seen.shape[1], device=seen.device)
    for each in gradient.T:
        by_episode = torch.zeros(count, seen.shape[1], device=seen.device).index_add(0, at, seen * each[:, None])
        # A few large terms look certain: one more of typical size is taken for noise.
        noise = (by_episode**2).sum(0) + (by_episode**2).amax(0) + 1e-6
        largest = torch.maximum(largest, by_episode.sum(0).abs() / noise.sqrt())
    return (largest * (seen.std(0) >= SLIGHT)).cpu().numpy()


def fit(views: Views, place: Place, asked: Questions) -> Fitted | None:
    """The likeliest weights of what goes along with the actions; None where nothing does."""
    scores = score_test(views, place, asked)
    chosen = np.argsort(-scores, kind="stable")[:FEATURES]
    chosen = chosen[scores[chosen] >= SIGNIFICANT] if len(scores) else chosen
    if not len(chosen):
        return None
    features = torch.from_numpy(chosen).to(asked.base.device)
    time = views.find(place, asked)
    seen = views.compare(asked.frame, asked.frames_at(time))[:, features]
    there = torch.from_numpy(time >= 0).to(seen.device)
    present = views.present(asked)[there]
    told = _told(present, seen[there])
    deviation = (seen[there] - present @ told).std(0)
    scale = 1 / deviation.clamp(min=SLIGHT)
    weights = torch.zeros(len(chosen) + 1, asked.base.shape[1], device=seen.device, requires_grad=True)
    fitted = Fitted(place, features, told, scale, weights)
    inputs = fitted.inputs(views, asked, time)
    optimiser = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = SHRINK / 2 * (weights**2).sum() - asked.log_likelihood(asked.base + inputs @ weights).sum()
        value.backward()
        return value

    optimiser.step(loss)
    return replace(fitted, weights=weights.detach())


def _told(present: Tensor, seen: Tensor) -> Tensor:
    """What the present `[n, numbers + 1]` tells of things seen `[n, F]`, by least squares: `[numbers + 1, F]`. A policy
    without a memory that could be better must not be taken for one that lacks a frame."""
    square = present.T @ present + 1e-3 * len(present) * torch.eye(present.shape[1], device=present.device)
    told: Tensor = torch.linalg.solve(square, present.T @ seen)
    return told


# --- what is in view -------------------------------------------------------------------------------------------------

BLOCK = 2048
"""Observations that are looked at together."""


def _cells(encoder: torch.nn.Module, frames: Tensor) -> tuple[Tensor, Tensor]:
    """What each observation leaves in memory `[U, M]`, and the kinds of its cells `[U, K]`; of none, where cells have
    no kinds."""
    if not encoder.kinds_in_view:
        return frames[:, :0], torch.zeros(len(frames), 0, dtype=torch.long, device=frames.device)
    parts = [encoder(block)[1:] for block in frames.split(embedded_at_once(BLOCK, frames.shape[1]))]
    cells, kinds = (torch.cat(column) for column in zip(*parts, strict=True))
    return cells, kinds


def raw_numbers(frames: Tensor, observation: ObservationSpec) -> Tensor:
    """Observations `[U, nbytes]` as numbers `[U, n]`: cells by their symbols, small images, vectors."""
    blocks = []
    for block in frames.split(embedded_at_once(BLOCK, observation.nbytes)):
        parts = zip(observation.parts, split_parts(block, observation), strict=True)
        blocks.append(torch.cat([_raw_part(part, decode(own, part)) for (_, part), own in parts], 1))
    return torch.cat(blocks)


def _raw_part(part: Part, values: Tensor) -> Tensor:
    if part.kind == "grid":
        one_hot = [
            F.one_hot(values[..., channel].long(), symbols).amax((1, 2)) for channel, symbols in enumerate(part.symbols)
        ]
        return torch.cat(one_hot, 1).float()
    if part.kind == "image":
        image = values.permute(0, 3, 1, 2).float() / 255
        return F.adaptive_avg_pool2d(image, min(SIDE, *part.shape[:2])).flatten(1)
    return values.float()


def _principal(raw: Tensor, share: Tensor) -> Tensor:
    """The first few principal components of numbers `[U, n]`, each of which a `share` `[U]` of the steps saw; each
    number, and each component, on one scale."""
    share = share.float()[:, None]
    raw = raw - (share * raw).sum(0)
    deviation = (share * raw**2).sum(0).sqrt()
    raw = raw * torch.where(deviation > 1e-5, 1 / deviation.clamp(min=1e-5), 0)
    count = min(NUMBERS, *raw.shape)
    _, _, axes = torch.pca_lowrank(raw * share.sqrt(), q=count, center=False)
    found = raw @ axes
    spread = (share * found**2).sum(0).sqrt()
    return (found * torch.where(spread > 1e-5, 1 / spread.clamp(min=1e-5), 0)).clamp(-4, 4)


def _alike(numbers: NDArray[np.float32], rng: np.random.Generator) -> Integers:
    """Observations `[U, n]` in a few groups that look alike: `[U]`."""
    distinct = np.unique(numbers.round(3), axis=0)
    centres = distinct[rng.choice(len(distinct), min(LOOKS, len(distinct)), replace=False)]
    group = np.zeros(len(numbers), np.int64)
    for _ in range(10):
        group = ((numbers[:, None] - centres) ** 2).sum(-1).argmin(1)
        centres = np.stack(
            [numbers[group == own].mean(0) if (group == own).any() else centre for own, centre in enumerate(centres)]
        )
    return group
