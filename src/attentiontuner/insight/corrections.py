"""Where actions are numbers: what the past tells of them beyond the present, by regression in closed form.

A correction is an estimate of the action, by kernel regression, that the answer of the policy without a memory is
multiplied with: where that policy is sure it stays, where it is not the estimate says which of its modes, and where.
One correction sees the present and the action before, another one also sums of numbers seen in the past, which hold
what was shown once, and counts. They differ in nothing else, so that the second gains by the past alone; and nothing
hangs on luck in training, as with small networks that learn numbers from a hundred demonstrations.

Legend: S steps of all episodes end to end, Q of them in question, F numbers of an observation, N numbers of an action,
P numbers that describe the distribution of an action.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.progress import Bar, progress
from attentiontuner.insight.explaining import Thing, beyond_chance, by_episode
from attentiontuner.insight.places import raw_numbers
from attentiontuner.insight.questions import NO_FRAME, Questions
from attentiontuner.insight.steps import Integers
from attentiontuner.models.actions import MixtureHead
from attentiontuner.spaces import ObservationSpec

FOLDS = 4
"""Of the episodes; each is judged by what was learned of the others. Those are more than with two, and colours that are
remembered are told from three quarters of a hundred demonstrations, not from half of them."""

LEARNED = 700
"""Questions that a correction learns from, at most."""

MOST_NUMBERS, TRIED = 3, 3
"""Numbers whose sums are looked at together, at most, and how many are fitted before one of them is taken."""

ALONE = 0.5
"""A frame is looked for by the numbers whose sum alone tells this share of what the best one alone does."""

BANDS, NOISES, TRUST = (1.0, 4.0), tuple(10.0**power for power in range(-4, 1)), (0.5, 1.0, 2.0, 4.0, 16.0)
"""What is tried: widths of the kernel, noise of the actions beside it, and how many times its error an estimate may be
off."""

CONSTANT = 1e-5
"""Numbers that differ by less tell nothing."""


@dataclass(frozen=True)
class Known:
    """What is known at the questions, as numbers on one scale.

    Attributes:
        present: `[Q, F + N]` what is seen, and the action before.
        sums: `[Q, F + 1]` of what was seen before, and how many steps there were.
        seen: `[S, F]` what is seen at every step.
    """

    present: Tensor
    sums: Tensor
    seen: Tensor

    @classmethod
    def at(cls, asked: Questions, observation: ObservationSpec) -> "Known":
        data = asked.data
        raw = raw_numbers(data.frames, observation).double()
        seen = raw[torch.from_numpy(data.packed.frame_index).to(raw.device)]
        seen = _scaled(seen[:, _spread(seen) > CONSTANT])
        before = asked.head.show(data.before, torch.float64) * ~data.begins[:, None]
        step, start = (
            torch.from_numpy(each).to(raw.device) for each in (asked.step, data.packed.starts[asked.episode])
        )
        until = torch.nn.functional.pad(seen.cumsum(0), (0, 0, 1, 0))  # [S + 1, F]
        sums = torch.cat([until[step] - until[start], (step - start).double()[:, None]], 1)
        return cls(torch.cat([seen[step], before[step]], 1), _scaled(sums), seen)


def _spread(numbers: Tensor) -> Tensor:
    """Their standard deviation, of which there is one of one question, too: `[n, F]` → `[F]`."""
    return ((numbers - numbers.mean(0)) ** 2).mean(0).sqrt()


def _scaled(numbers: Tensor) -> Tensor:
    return (numbers - numbers.mean(0)) / _spread(numbers).clamp(min=CONSTANT)


def _distance(ours: Tensor, others: Tensor) -> Tensor:
    """Mean square distance of numbers `[a, F]` and `[b, F]`: `[a, b]`."""
    return torch.cdist(ours, others) ** 2 / ours.shape[1]


class Correction:
    """The likeliest one, of what is known of some questions. It trusts its estimate less where it saw nothing alike.

    Args:
        asked: the questions.
        groups: what is known of them, `[Q, …]` each; all groups count alike.

    Attributes:
        likelihood: the mean log of it of their actions, each told by what was learned of all other episodes.
        left: `[Q, N]` how far off each action was then, in the head's units.
    """

    def __init__(self, asked: Questions, groups: Sequence[Tensor]) -> None:
        self.groups = groups
        actions = asked.head.show(asked.actions, torch.float64)
        self.mean = actions.mean(0)
        distance = sum(_distance(group, group) for group in groups)
        assert isinstance(distance, Tensor)
        ends = np.flatnonzero(np.diff(asked.episode, append=-1)) + 1
        blocks = [slice(*each) for each in zip([0, *ends[:-1]], ends, strict=True)]
        self.likelihood = -math.inf
        for band in BANDS:
            values, vectors = torch.linalg.eigh((-distance / (2 * band)).exp())
            turned = vectors.T @ (actions - self.mean)
            for noise in NOISES:
                scale = 1 / (values.clamp(min=0) + noise)
                weights = vectors @ (scale[:, None] * turned)
                # What is left of an episode's actions where only the others are learned, and its covariance.
                alone = [torch.linalg.inv((vectors[own] * scale) @ vectors[own].T) for own in blocks]
                left = torch.cat([each @ weights[own] for own, each in zip(blocks, alone, strict=True)])
                unsure = torch.cat([each.diagonal() for each in alone])[:, None]
                typical = (left**2 / unsure).mean(0).sqrt()
                for trust in TRUST:
                    deviation = trust * typical * unsure.sqrt()
                    likelihood = float(_told(asked, _answer(asked, actions - left, deviation)).mean())
                    if likelihood > self.likelihood:
                        self.likelihood, self.left = likelihood, left
                        self._band, self._noise, self._weights, self._deviation = band, noise, weights, trust * typical
                        self._half = vectors * scale.sqrt()

    def answer(self, asked: Questions, groups: Sequence[Tensor]) -> Tensor:
        """The distributions `[Q, P]` of other questions."""
        distance = sum(_distance(group, own) for group, own in zip(groups, self.groups, strict=True))
        assert isinstance(distance, Tensor)
        near = (-distance / (2 * self._band)).exp()
        unsure = 1 + self._noise - ((near @ self._half) ** 2).sum(1, keepdim=True)
        return _answer(asked, self.mean + near @ self._weights, self._deviation * unsure.clamp(min=0).sqrt())


def _answer(asked: Questions, estimate: Tensor, deviation: Tensor) -> Tensor:
    assert isinstance(asked.head, MixtureHead)
    return asked.head.corrected(asked.base, estimate.float(), deviation.float())


def _told(asked: Questions, answer: Tensor) -> Tensor:
    """Log-likelihood `[Q]` of the actions; there is always a chance that a correction tells nothing."""
    with_it, without = asked.log_likelihood(answer), asked.log_likelihood(asked.base)
    return torch.logaddexp(with_it + math.log(1 - NO_FRAME), without + math.log(NO_FRAME))


def _goes_along(asked: Questions, left: Tensor, near: Tensor) -> float:
    """By how many deviations the rest `[Q, N]` of the actions is alike where questions of other episodes are `near`
    `[Q, Q]`."""
    episode = torch.from_numpy(asked.episode).to(left.device)
    alike = ((left @ left.T) * near * (episode[:, None] != episode)).sum(1)
    by_episode = torch.zeros(int(episode.max()) + 1, dtype=alike.dtype, device=alike.device)
    by_episode = by_episode.index_add(0, episode, alike)
    return float(by_episode.sum() / (by_episode**2).sum().sqrt().clamp(min=1e-9))


@dataclass(frozen=True)
class Past:
    """What the past tells.

    Attributes:
        gain: `[Q]` nats by which actions are likelier than without it.
        without: `[Q]` their log-likelihood without it: by the policy, or by a correction that sees the present.
        tells: `[FOLDS, F]` bool: numbers that tell something by themselves, as found for each fold.
    """

    gain: NDArray[np.float32]
    without: NDArray[np.float32]
    tells: NDArray[np.bool_]


def _folds(asked: Questions, seed: int) -> Iterator[tuple[int, Integers, Integers]]:
    """Of each fold its number, the questions learned from, at random of other episodes, and those judged. The policy
    that answered the first may have seen the second: no more than how far an estimate is trusted hangs on it."""
    rng = np.random.default_rng([seed, 10])
    fold = (rng.permutation(int(asked.episode.max(initial=0)) + 1) % FOLDS)[asked.episode]
    for own in range(FOLDS):
        others, judged = np.flatnonzero(fold != own), np.flatnonzero(fold == own)
        learned = np.sort(rng.permutation(others)[:LEARNED])
        if len(learned) and len(judged):
            yield own, learned, judged


def by_sums(asked: Questions, known: Known, *, seed: int, label: str) -> Past:
    """What sums of a few numbers seen in the past tell. Which numbers, and how, is learned of episodes of other folds;
    without the past counts what is better of the policy and of the correction by the present."""
    gain, without = (np.zeros(len(asked), np.float32) for _ in range(2))
    tells = np.zeros((FOLDS, known.seen.shape[1]), np.bool_)
    with progress(label, FOLDS * (MOST_NUMBERS + 1)) as bar:
        for own, others, mine in _folds(asked, seed):
            learned, judged = asked.some(others), asked.some(mine)
            now, then = known.present[others], known.sums[others]
            alone = Correction(learned, [now])
            bar.advance()
            best, numbers = _best_numbers(learned, now, then, alone, tells[own], bar)
            policy = judged.log_likelihood(judged.base)
            present = _told(judged, alone.answer(judged, [known.present[mine]]))
            base = policy if policy.mean() > present.mean() else present
            without[mine] = base.cpu().numpy()
            if numbers:
                answer = best.answer(judged, [known.present[mine], known.sums[mine][:, numbers]])
                gain[mine] = (_told(judged, answer) - base).cpu().numpy()
        bar.advance(bar.total - bar.done)
    return Past(gain, without, tells)


def _best_numbers(
    learned: Questions, now: Tensor, then: Tensor, alone: Correction, tells: NDArray[np.bool_], bar: Bar
) -> tuple[Correction, list[int]]:
    """The likeliest correction by sums `[Q, F + 1]` of up to `MOST_NUMBERS` numbers, taken one after the other, and
    these numbers; none where the present alone is as good. `tells` `[F]` is set where one alone tells something."""
    best, last, numbers = (alone, list[int]()), alone, list[int]()
    here = _distance(now, now)
    for _ in range(min(MOST_NUMBERS, then.shape[1])):
        left = last.left / _spread(last.left).clamp(min=CONSTANT)
        others = [each for each in range(then.shape[1]) if each not in numbers]
        scores = []
        for each in others:
            sums = then[:, [*numbers, each]]
            scores.append(_goes_along(learned, left, (-(here + _distance(sums, sums)) / 2).exp()))
        chosen = [others[place] for place in np.argsort(-np.array(scores), kind="stable")[:TRIED]]
        fitted = [Correction(learned, [now, then[:, [*numbers, each]]]) for each in chosen]
        likelihood = np.array([each.likelihood for each in fitted])
        if not numbers:
            worth = alone.likelihood + ALONE * max(likelihood.max() - alone.likelihood, 0)
            tells[[each for each in np.array(chosen)[likelihood > worth] if each < len(tells)]] = True
        last = fitted[int(likelihood.argmax())]
        numbers = [*numbers, chosen[int(likelihood.argmax())]]
        if last.likelihood > best[0].likelihood:
            best = last, numbers
        bar.advance()
    tells[[each for each in best[1] if each < len(tells)]] = True
    return best


def by_frames(asked: Questions, known: Known, past: Past, *, seed: int) -> list[Thing]:
    """One earlier frame that tells what sums do: the one that stands out most, by the numbers that tell something. None
    where it alone tells nothing, as of counts."""
    time, share = np.full(len(asked), -1), np.zeros(len(asked), np.float32)
    gain = np.zeros(len(asked), np.float32)
    answer = asked.base.clone()
    for own, others, mine in _folds(asked, seed):
        if not past.tells[own].any():
            continue
        seen = known.seen[:, torch.from_numpy(np.flatnonzero(past.tells[own]))]
        learned, judged = asked.some(others), asked.some(mine)
        looked = [_standing_out(each, seen) for each in (learned, judged)]
        shown = [_shown(each, seen, at) for each, (at, _) in zip((learned, judged), looked, strict=True)]
        correction = Correction(learned, [known.present[others], shown[0]])
        found = correction.answer(judged, [known.present[mine], shown[1]])
        gain[mine] = _told(judged, found).cpu().numpy() - past.without[mine]
        time[mine], share[mine] = looked[1]
        answer[torch.from_numpy(mine).to(answer.device)] = found
    episodes = len(asked.data.packed.lengths)
    told = beyond_chance(by_episode(gain, asked.episode, episodes), asked.to_gain() / episodes)
    answers = answer.cpu().numpy()
    return [Thing(time, share, gain, answers, answers, (None,))] if told else []


def _standing_out(asked: Questions, seen: Tensor) -> tuple[Integers, NDArray[np.float32]]:
    """The step `[Q]` before each question whose numbers `seen` `[S, f]` are farthest from what is usual, the first of
    those that are equal, and their share of all such distance; -1 and 0 where none is."""
    numbers = seen.cpu().numpy()
    distance = np.abs(numbers - np.median(numbers, axis=0)).sum(1)
    time, share = np.full(len(asked), -1), np.zeros(len(asked), np.float32)
    starts = asked.data.packed.starts[asked.episode]
    for row, (start, step) in enumerate(zip(starts, asked.step, strict=True)):
        before = distance[start:step]
        if before.max(initial=0) > CONSTANT:
            first = int(before.argmax())
            same = (numbers[start:step] == numbers[start + first]).all(1)
            time[row], share[row] = first, before[same].sum() / before.sum()
    return time, share


def _shown(asked: Questions, seen: Tensor, time: Integers) -> Tensor:
    """The numbers `[Q, f]` of the frames of these times; 0, which is their mean, where there is none."""
    at = torch.from_numpy(asked.data.packed.starts[asked.episode] + np.maximum(time, 0)).to(seen.device)
    return seen[at] * torch.from_numpy(time >= 0).to(seen.device)[:, None]
