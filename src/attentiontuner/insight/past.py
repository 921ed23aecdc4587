"""A policy with the whole past: a recurrent network that moves the answers of the one without a memory.

What no single frame tells, such as how many there were of something, it may know. Legend: B episodes, T steps of the
longest, S steps of all of them, P numbers that describe the distribution of an action.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.core.progress import Bar, progress
from attentiontuner.demos.pairs import spans
from attentiontuner.insight.memoryless import WIDTH, observation_encoder
from attentiontuner.insight.need import FOLDS
from attentiontuner.insight.steps import Integers, StepData, embedded, seeded
from attentiontuner.models.actions import ActionHead
from attentiontuner.spaces import ObservationSpec

PASSES, LEAST, PATIENCE, RATE, UPDATES, STEPS = 60, 15, 5, 3e-3, 12, 1500
"""Most and fewest passes over the episodes, passes without gain before it stops, learning rate, updates a pass at
least, steps of a batch, about."""

HELD = 4
"""One of so many episodes is held back, to stop by."""

GAIN = 1e-4


class WholePast(nn.Module):
    """All that was seen and done so far → by how much the distribution moves."""

    def __init__(self, observation: ObservationSpec, head: ActionHead) -> None:
        super().__init__()
        self.encoder = observation_encoder(observation)
        self.before = nn.Parameter(torch.randn(head.features + 1, WIDTH))
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.moves = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, head.width))
        for parameter in self.moves[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, data: StepData, head: ActionHead, rows: Integers) -> tuple[Tensor, Tensor, Tensor]:
        """The moves of all steps of the episodes `rows`, end to end `[S, P]`, those with the past hidden, and the
        numbers of these steps `[S]`."""
        packed = data.packed
        numbers = spans(packed.starts[rows], packed.lengths[rows])
        steps = data.steps(numbers)
        seen = embedded(self.encoder, steps.observations)[0].index_select(0, steps.frame)
        inputs = seen + head.embed(steps.before, steps.begins, self.before)
        sequences = list(inputs.split(packed.lengths[rows].tolist()))
        sequence = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
        states, lengths = nn.utils.rnn.pad_packed_sequence(self.memory(sequence)[0], batch_first=True)
        known = torch.cat([state[:length] for state, length in zip(states, lengths.tolist(), strict=True)])
        moves, alone = (self.moves(torch.cat([state, inputs], 1)) for state in (known, torch.zeros_like(known)))
        return moves, alone, torch.from_numpy(numbers).to(data.device)


def with_whole_past(
    data: StepData,
    head: ActionHead,
    observation: ObservationSpec,
    base: NDArray[np.float32],
    fold: Integers,
    *,
    seed: int,
    label: str,
) -> NDArray[np.float32]:
    """What every step gains by the past, `[S]` in nats, each episode judged by a network that learned from those of the
    other folds. `base` `[S, P]` are the answers without a memory; what the same network gains with the past hidden is
    no gain."""
    answers = torch.from_numpy(base).to(data.device)
    gains = np.zeros(len(data), np.float32)
    with progress(label, FOLDS * PASSES) as bar:
        for own in range(FOLDS):
            judged = np.flatnonzero(fold == own)
            others = np.flatnonzero(fold != own)
            if not len(judged):
                continue
            learner = _Learner(data, head, observation, answers, seed + own)
            learner.learn(others if len(others) else judged, bar)
            numbers, *found = learner.judge(judged)
            gains[numbers] = _gain(found)
    return gains


def _gain(surprises: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Of the surprise with the past, with the past hidden, and of the policy without a memory: `[n]` each."""
    past, alone, base = surprises
    without = alone if alone.mean() < base.mean() else base
    return np.asarray(without - past)


class _Learner:
    def __init__(
        self, data: StepData, head: ActionHead, observation: ObservationSpec, answers: Tensor, seed: int
    ) -> None:
        self.data, self.head, self.answers = data, head, answers
        self.rng = np.random.default_rng([seed, 8])
        with seeded(seed, data.device):
            self.network = WholePast(observation, head)
        self.network.encoder.fit(data.observed(), len(data.frames))
        self.network.to(data.device)

    def learn(self, episodes: Integers, bar: Bar) -> None:
        """Learn from these, as long as those held back gain."""
        order = self.rng.permutation(episodes)
        count = max(1, len(order) // HELD)
        held, learned = order[:count], order[count:] if len(order) > 1 else order
        optimiser = torch.optim.AdamW(self.network.parameters(), RATE)
        best, kept = 0.0, deepcopy(self.network.state_dict())
        stale = done = 0
        while done < PASSES and (stale < PATIENCE or done < LEAST):
            updates = 0
            while updates < UPDATES:
                self.network.train()
                batches = self._batches(self.rng.permutation(learned))
                for rows in batches:
                    _, past, hidden, _ = self._surprise(rows)
                    loss = past.mean() + hidden.mean()
                    optimiser.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
                    optimiser.step()
                updates += len(batches)
            gain = float(_gain(self.judge(held)[1:]).mean())
            done, stale = done + 1, 0 if gain > best + GAIN else stale + 1
            if gain > best:
                best, kept = gain, deepcopy(self.network.state_dict())
            bar.advance(note=f"gain {best:.3f}")
        bar.advance(PASSES - done)
        self.network.load_state_dict(kept)

    def _surprise(self, rows: Integers) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Numbers of the steps, and the surprise with the past, with the past hidden, and without a memory."""
        moves, alone, numbers = self.network(self.data, self.head, rows)
        base, actions = self.answers[numbers], self.data.actions[numbers]
        past, hidden, before = (
            self.head.negative_log_likelihood(answer, actions) for answer in (base + moves, base + alone, base)
        )
        return numbers, past, hidden, before

    @torch.no_grad()
    def judge(self, episodes: Integers) -> list[NDArray[Any]]:
        """The same of all steps of these episodes."""
        self.network.eval()
        found = [self._surprise(rows) for rows in self._batches(episodes)]
        return [torch.cat(column).cpu().numpy() for column in zip(*found, strict=True)]

    def _batches(self, episodes: Integers) -> list[Integers]:
        ends = np.cumsum(self.data.packed.lengths[episodes])
        cuts = np.flatnonzero(np.diff((ends - 1) // STEPS)) + 1
        return np.split(episodes, cuts)
