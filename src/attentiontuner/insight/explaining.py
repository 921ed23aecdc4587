"""Which earlier frames tell the actions that the present does not, each episode judged by what was learned of others.

A frame is found by its place or by its look, whichever tells more of episodes held back. Then, knowing it, another one
may be found that tells what is still missing, and so on: as many things are recalled as tell something beyond chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.progress import Bar, progress
from attentiontuner.insight import looks
from attentiontuner.insight.looks import Looker
from attentiontuner.insight.need import FOLDS
from attentiontuner.insight.places import Fitted, Place, Views, choose_place, gain_by
from attentiontuner.insight.questions import Questions
from attentiontuner.insight.steps import Integers
from attentiontuner.spaces import ActionSpec, ObservationSpec

MOST_THINGS = 3
"""Frames that one step is taken to recall, at most."""

HELD = 4
"""One of so many episodes is held back, to stop by and to choose by."""

BEYOND_CHANCE = 3.0
"""Standard errors from which on a gain is no accident."""

TOLD, ALL = 0.85, 0.9
"""The share of the surprise from which on a place tells enough, and no look is learned; and from which on nothing is
left to tell, and no other thing is looked for."""

WORTH, LEAST = 0.05, 0.02
"""The share of the surprise that a gain must be, and the nats an episode it must be at least: with enough episodes next
to nothing is beyond chance too."""


@dataclass(frozen=True)
class Thing:
    """One frame that steps in question recall.

    Attributes:
        time: `[Q]` its step; -1 where there is none.
        share: `[Q]` how much of all that may be recalled it is, from 0 to 1.
        gain: `[Q]` nats by which the expert's action is likelier than without it.
        answer: `[Q, P]` the distribution of the action with it in view.
        known: `[Q, P]` that without knowing the action.
        found_by: how it is found, of each fold; None: by its look.
    """

    time: Integers
    share: NDArray[np.float32]
    gain: NDArray[np.float32]
    answer: NDArray[np.float32]
    known: NDArray[np.float32]
    found_by: tuple[Place | None, ...]


def explain(
    asked: Questions, fold: Integers, observation: ObservationSpec, actions: ActionSpec, *, seed: int, label: str
) -> list[Thing]:
    """What the questions recall, the most telling frame first; none that tells nothing. `fold` `[N]` is that of the
    policy without a memory: what an episode is asked was answered by one that did not see it."""
    views = Views(asked.data, observation, seed)
    things: list[Thing] = []
    episodes = len(fold)
    with progress(label, MOST_THINGS * FOLDS * looks.PASSES) as bar:
        while len(things) < MOST_THINGS:
            thing = _one_thing(asked, fold, views, observation, actions, seed + 10 * len(things), bar)
            before = asked.to_gain()
            if not beyond_chance(by_episode(thing.gain, asked.episode, episodes), before / episodes):
                break
            things.append(thing)
            asked = asked.knowing(torch.from_numpy(thing.known).to(asked.base.device))
            if asked.to_gain() < (1 - ALL) * before:
                break
        bar.advance(bar.total - bar.done)
    return things


def _one_thing(
    asked: Questions,
    fold: Integers,
    views: Views,
    observation: ObservationSpec,
    actions: ActionSpec,
    seed: int,
    bar: Bar,
) -> Thing:
    found: list[tuple[Integers, Sequence[Tensor | Integers]]] = []
    ways: list[Place | None] = []
    rng = np.random.default_rng([seed, 7])
    for own in range(FOLDS):
        others, mine = (np.flatnonzero((fold[asked.episode] == own) == same) for same in (False, True))
        learned, judged = asked.some(others), asked.some(mine)
        if not len(mine):
            continue
        held = (rng.permutation(len(fold)) % HELD == 0)[learned.episode]
        if not held.any() or held.all():
            held = np.arange(len(held)) % HELD == 0
        place = choose_place(views, learned, rng)
        if place is not None and place[1] >= TOLD * -float(learned.log_likelihood(learned.base).mean()):
            gain = 0.0
            bar.advance(looks.PASSES)
        else:
            looker = Looker(learned, observation, actions, seed + own)
            gain = looker.learn(learned.some(np.flatnonzero(~held)), learned.some(np.flatnonzero(held)), bar)
        if place is not None and place[1] >= gain:
            ways.append(place[0].place)
            found.append((mine, _by_place(place[0], views, judged)))
        else:
            ways.append(None)
            found.append((mine, _by_look(looker, judged, gain > 0)))
    rows = np.concatenate([mine for mine, _ in found])
    columns = [
        np.concatenate([each.cpu().numpy() if isinstance(each, Tensor) else each for each in column])[np.argsort(rows)]
        for column in zip(*(parts for _, parts in found), strict=True)
    ]
    time, share, gain_of, answer, known = columns
    return Thing(time, share, gain_of, answer, known, tuple(ways))


def _by_look(looker: Looker, judged: Questions, found: bool) -> tuple[Integers, Tensor, Tensor, Tensor, Tensor]:
    """Time, share, gain, answer and what is known of these questions, by a look; no time unless it has `found` some."""
    seen, base = looker.judge(judged), judged.log_likelihood(judged.base)
    without = seen.without if seen.without.mean() > base.mean() else base
    time = np.where(found, seen.time.cpu().numpy(), -1)
    return time, seen.share, seen.log_likelihood - without, seen.answer, seen.known


def _by_place(fitted: Fitted, views: Views, judged: Questions) -> tuple[Integers, Tensor, Tensor, Tensor, Tensor]:
    """Time, share, gain, answer and what is known of these questions, by a place."""
    moved, time = fitted.moves(views, judged)
    answer = judged.base + moved
    gain = gain_by(judged, moved)
    there = torch.from_numpy(time >= 0).to(gain.device)
    return time, there.float(), gain, answer, answer


def by_episode(values: NDArray[np.float32], episode: Integers, episodes: int) -> NDArray[np.float64]:
    """The sum of each episode's, `[N]`."""
    return np.bincount(episode, values.astype(np.float64), minlength=episodes).astype(np.float64)


def standard_errors(gains: NDArray[np.float64]) -> float:
    """How many standard errors the mean gain of episodes `[N]` lies above nothing."""
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return float(gains.mean()) / max(error, 1e-9)


def beyond_chance(gains: NDArray[np.float64], surprise: float) -> bool:
    """Whether episodes gain `[N]`, in nats, beyond chance, and more than next to nothing of their mean `surprise`."""
    return standard_errors(gains) >= BEYOND_CHANCE and float(gains.mean()) >= max(WORTH * surprise, LEAST)
