"""Frames found by their look: a network says which earlier frame to look at, and what that tells of the action.

The likelihood of an action is a mixture over all earlier frames j of step i, and over none:
p(a | past) = Σ_j w_ij · p(a | o_i, o_j). Where to look (w) and what it tells are learned together. And every frame by
itself is to say what can be said from it: else one that shows nothing would stand for "it was not the other".
Legend as in `questions`; J pairs of a step in question and a frame before it, end to end.
"""

import math
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attentiontuner.core.progress import Bar
from attentiontuner.insight.memoryless import WIDTH, observation_encoder
from attentiontuner.insight.questions import NO_FRAME, Questions
from attentiontuner.insight.steps import Integers, embedded, seeded
from attentiontuner.spaces import ActionSpec, ObservationSpec

KEY, AGES = 32, 32
"""Width of keys, and ages told apart."""

PASSES, LEAST, PATIENCE, RATE, DECAY, UPDATES = 150, 40, 20, 3e-3, 1e-2, 8
"""Most and fewest passes over the steps, passes without gain before it stops, learning rate, weight decay, updates a
pass. Where to look is found late: for a while there is no gain at all."""

EACH = 3.0
"""How much it counts that every frame by itself says what can be said from it."""

LEARNED, JUDGED = 1500, 750
"""Questions that are learned from, and stopped by, at most."""

PAIRS = 8000
"""Pairs of a batch, about."""

FRAMES = 192
"""Earlier frames of a step that are learned from at once; of more, so many at random."""

NOTHING = -1e4
"""The log of nothing, but finite."""


class Pairs(NamedTuple):
    """Earlier frames of some questions, with the distinct observations they are of."""

    observations: Tensor  # [u, bytes]
    present: Tensor  # [Q] which of them each question sees
    past: Tensor  # [J]
    row: Tensor  # [J] whose
    time: Tensor  # [J] number in the episode


def pairs_of(asked: Questions, rng: np.random.Generator | None = None) -> Pairs:
    """All earlier frames of the questions; with a generator at most `FRAMES` of each."""
    chosen = [
        np.sort(rng.choice(time, FRAMES, replace=False)) if rng is not None and time > FRAMES else np.arange(time)
        for time in asked.time
    ]
    row, time = np.repeat(np.arange(len(asked)), [len(each) for each in chosen]), np.concatenate(chosen)
    data = asked.data
    seen = data.packed.frame_index
    frames = np.concatenate([seen[asked.step], seen[data.packed.starts[asked.episode][row] + time]])
    distinct, place = np.unique(frames, return_inverse=True)
    present, past, owner, at = (
        torch.from_numpy(each).to(data.device) for each in (place[: len(asked)], place[len(asked) :], row, time)
    )
    return Pairs(data.frames[torch.from_numpy(distinct).to(data.device)], present, past, owner, at)


class Look(nn.Module):
    """Which earlier frame, and what it tells."""

    def __init__(self, observation: ObservationSpec, actions: ActionSpec, width: int) -> None:
        super().__init__()
        self.encoder = observation_encoder(observation)
        cells = self.encoder.kinds_in_view
        self.key, self.query, self.worth = nn.Linear(WIDTH, KEY), nn.Linear(WIDTH, KEY), nn.Linear(WIDTH, 1)
        self.since, self.ago = nn.Parameter(torch.zeros(AGES)), nn.Parameter(torch.zeros(AGES))
        self.nothing = nn.Parameter(torch.zeros(()))
        self.now, self.then, self.both = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.cells = nn.Linear(cells, WIDTH) if cells else None
        self.tells = nn.Sequential(nn.ReLU(), nn.Dropout(0.1), nn.Linear(WIDTH, width))
        self.same = nn.Linear(cells, width) if cells else None
        self.alone = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.1), nn.Linear(WIDTH, width))
        for layer in (self.key, self.query):
            nn.init.normal_(layer.weight, std=0.05)
        for zero in (self.worth, self.tells[-1], self.same, self.alone[-1]):
            if isinstance(zero, nn.Linear):
                nn.init.zeros_(zero.weight)
                nn.init.zeros_(zero.bias)

    def forward(self, pairs: Pairs, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How much each frame is worth a look, `[J]`, by how much it moves the distribution, `[J, P]`, and by how much
        the present does with all frames hidden, `[Q, P]`; `time` `[Q]` is that of the questions."""
        vectors, memory, kinds = embedded(self.encoder, pairs.observations)
        now, then = vectors[pairs.present], vectors[pairs.past]
        score = (self.query(now)[pairs.row] * self.key(then)).sum(-1) / math.sqrt(KEY) + self.worth(then)[:, 0]
        score = score + self.since[age(pairs.time)] + self.ago[age(time[pairs.row] - pairs.time)]
        alone = self.alone(now)
        hidden = self.now(now)[pairs.row] + self.then(then) + self.both(now[pairs.row] * then)
        if self.cells is None or self.same is None:
            return score, self.tells(hidden), alone
        alike = (memory[pairs.past].gather(1, kinds[pairs.present][pairs.row]) > 0).float()
        return score, self.tells(hidden + self.cells(alike)) + self.same(alike), alone


def age(steps: Tensor) -> Tensor:
    """Numbers of steps in `AGES` classes: each its own at first, then by their logarithm."""
    half = AGES // 2
    older = half + (4 * (steps.float().clamp(min=half) / half).log2()).long().clamp(max=half - 1)
    return torch.where(steps < half, steps, older)


class Seen(NamedTuple):
    """What a look tells of the questions `[Q]`: the log-likelihood of the action, and that without any frame; the time
    of the likeliest frame given the action, its share of all, the distribution with it in view `[Q, P]`, and that
    without knowing the action, the mean over all frames `[Q, P]`."""

    log_likelihood: Tensor
    without: Tensor
    time: Tensor
    share: Tensor
    answer: Tensor
    known: Tensor


class Looker:
    """A `Look` that learns."""

    def __init__(self, asked: Questions, observation: ObservationSpec, actions: ActionSpec, seed: int) -> None:
        self.rng, data = np.random.default_rng([seed, 6]), asked.data
        self.seed = seed
        with seeded(seed, data.device):
            self.look = Look(observation, actions, asked.head.width)
        self.look.encoder.fit(data.observed(), len(data.frames))
        self.look.to(data.device)

    def learn(self, asked: Questions, held: Questions, bar: Bar) -> float:
        """Learn from `asked`, as long as `held`, questions of other episodes, gain: their mean gain, in nats, beyond
        what the present tells."""
        asked, held = (each.some(_some(len(each), most, self.rng)) for each, most in ((asked, LEARNED), (held, JUDGED)))
        optimiser = torch.optim.AdamW(self.look.parameters(), RATE, weight_decay=DECAY)
        best, kept, stale, done = 0.0, deepcopy(self.look.state_dict()), 0, 0
        before = held.log_likelihood(held.base).mean()
        with seeded(self.seed, asked.data.device):
            while done < PASSES and (stale < PATIENCE or done < LEAST):
                self.look.train()
                for rows in _batches(asked, self.rng):
                    joint, weights, *_ = self._mixture(asked.some(rows), self.rng)
                    each = (joint - weights)[joint > NOTHING]  # every frame by itself, and none
                    loss = -joint.logsumexp(-1).mean() - EACH * each.mean() - (joint - weights)[:, -1].mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                seen = self.judge(held)
                gain = float(seen.log_likelihood.mean() - max(before, seen.without.mean()))
                done, stale = done + 1, 0 if gain > best + 1e-3 else stale + 1
                if gain > best:
                    best, kept = gain, deepcopy(self.look.state_dict())
                bar.advance(note=f"gain {max(best, 0):.3f}")
        bar.advance(PASSES - done)
        self.look.load_state_dict(kept)
        return best

    def _mixture(
        self, asked: Questions, rng: np.random.Generator | None = None
    ) -> tuple[Tensor, Tensor, Pairs, Tensor, Tensor]:
        """Logs of weight times likelihood of each frame, and of none in the last column, `[Q, T + 1]`; logs of the
        weights; the pairs, the distributions with them in view `[J, P]`, and how they move without any `[Q, P]`."""
        pairs = pairs_of(asked, rng)
        time = torch.from_numpy(asked.time).to(pairs.row.device)
        score, moved, alone = self.look(pairs, time)
        answers = asked.base[pairs.row] + moved
        likely = -asked.head.negative_log_likelihood(answers, asked.actions[pairs.row])
        width = int(asked.time.max()) + 1
        scores, logs = (score.new_full((len(asked), width), NOTHING) for _ in range(2))
        scores = scores.index_put((pairs.row, pairs.time), score)
        logs = logs.index_put((pairs.row, pairs.time), likely)
        last = torch.full_like(time, width - 1)
        rows = torch.arange(len(asked), device=time.device)
        scores = scores.index_put((rows, last), self.look.nothing.expand(len(asked)))
        logs = logs.index_put((rows, last), asked.log_likelihood(asked.base + alone))
        weights = scores.log_softmax(-1) + math.log(1 - NO_FRAME)
        none = torch.logaddexp(weights[:, -1:], weights.new_full((len(asked), 1), math.log(NO_FRAME)))
        weights = torch.cat([weights[:, :-1], none], 1)
        return weights + logs, weights, pairs, answers, alone

    @torch.no_grad()
    def judge(self, asked: Questions) -> Seen:
        """What the look tells of these questions."""
        self.look.eval()
        found = [self._judge(asked.some(rows)) for rows in _batches(asked)]
        return Seen(*(torch.cat(column) for column in zip(*found, strict=True)))

    def _judge(self, asked: Questions) -> Seen:
        joint, weights, pairs, answers, alone = self._mixture(asked)
        log_likelihood = joint.logsumexp(-1)
        share = (joint - log_likelihood[:, None])[:, :-1].exp()
        # Frames that look the same tell the same: their shares are one, and the first of them stands for all.
        flat = share[pairs.row, pairs.time]
        group = pairs.row * len(pairs.observations) + pairs.past
        _, own = group.unique(return_inverse=True)
        together = torch.zeros(int(own.max()) + 1, device=flat.device).index_add(0, own, flat)[own]
        shares = torch.zeros_like(share).index_put((pairs.row, pairs.time), together)
        best, time = shares.max(-1)  # the first of equal ones
        place = torch.full_like(share, 0, dtype=torch.long)
        place = place.index_put((pairs.row, pairs.time), torch.arange(len(pairs.row), device=place.device))
        chosen = place.gather(1, time[:, None])[:, 0]
        known = (asked.base + alone) * weights[:, -1:].exp()
        known = known.index_add(0, pairs.row, answers * weights.exp()[pairs.row, pairs.time][:, None])
        return Seen(log_likelihood, (joint - weights)[:, -1], time, best.clamp(max=1), answers[chosen], known)


def _some(count: int, most: int, rng: np.random.Generator) -> Integers:
    """At most so many of them, at random, in order."""
    return np.sort(rng.choice(count, min(count, most), replace=False))


def _batches(asked: Questions, rng: np.random.Generator | None = None) -> list[Integers]:
    """The questions in batches of whole episodes, about `PAIRS` pairs each; shuffled with a generator, in order
    without. Questions of one episode look at the same frames, which are embedded once."""
    episodes, owner = np.unique(asked.episode, return_inverse=True)
    order = np.arange(len(episodes)) if rng is None else rng.permutation(len(episodes))
    frames = asked.time if rng is None else np.minimum(asked.time, FRAMES)
    weight = np.bincount(owner, frames, minlength=len(episodes))
    size = PAIRS if rng is None else min(PAIRS, weight.sum() / UPDATES)
    batch = np.empty(len(episodes), np.int64)
    batch[order] = (np.cumsum(weight[order]) - weight[order]) // max(size, 1)
    of_question = np.unique(batch, return_inverse=True)[1][owner]
    count = int(of_question.max()) + 1
    by_batch = np.argsort(of_question, kind="stable")
    return np.split(by_batch, np.cumsum(np.bincount(of_question, minlength=count))[:-1])
