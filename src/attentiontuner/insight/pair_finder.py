"""A head that learns from labels which steps recall which, and by how much: a recall network of one layer and one head.

Labels are readings (`insight.readings`). Each is dealt out to the places (i, j) near it, row i, column j, with the odds
P(q̃ | i) · P(p̃ | j) · rate_i · softmax_j(s_ij): how likely the reading is there, how much the step recalls by its need,
and where the head looks. The head learns from what was dealt; what the labels of many episodes have in common remains,
and their noise does not. First the odds are taken as they are, then to a power that rises: the head settles.

A plain head asks for the same kinds of cell at every step, and for those in view; only gates say at which steps, and of
which. It cannot learn a few episodes by heart. Legend: B episodes, T steps of the longest, K labels, W steps of a
window.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attentiontuner.core.progress import Bar
from attentiontuner.data.batch import Batch
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable, spans
from attentiontuner.insight.readings import EXACT, FARTHEST, LEAST, SPREADS, Floats, Integers, Readings, log_reading
from attentiontuner.insight.steps import seeded
from attentiontuner.losses import counting_loss
from attentiontuner.models.network import Network
from attentiontuner.models.optimiser import make_optimiser, set_learning_rate
from attentiontuner.models.recall_head import Recalled
from attentiontuner.models.sizes import RECALL_HEAD, RecallConfig
from attentiontuner.spaces import ActionSpec, ObservationSpec

WIDTH, BATCH, STEPS, DECAY, WARM, CLIP = 32, 16, 600, 0.1, 50, 1.0
"""Of the head: width, episodes in a step, steps, weight decay, steps until the learning rate is reached, and the
largest gradient. With half as many steps labels settle where most of them lie before it is clear why they lie there."""


class Sort(NamedTuple):
    """A sort of head.

    Attributes:
        asks: what it looks for depends on the step that asks; if not, it is plain.
        dropped: share of a symbol grid's cells that gates do not see while it learns.
        rate: learning rate.
        haste: how much faster single numbers learn, such as where all scores start: they have far to go.
    """

    asks: bool
    dropped: float
    rate: float
    haste: float


PLAIN, ASKING = Sort(False, 0.6, 4e-3, 50.0), Sort(True, 0.1, 2e-3, 10.0)
"""With ten annotated episodes of Counting an asking head finds a third of what is recalled, a plain one nearly all."""

SETTLED, SETTLING = 3.0, (0.35, 0.9)
"""The last power of the odds, and between which shares of the training it rises from 1."""

MATCHINGS = 4
"""Rounds in which places that took more than one label give back."""

NEAR = 3
"""Steps around a label within which another place would be as good."""

FIRST_SPREAD = 3.0
"""How far off recalled steps are taken to be at first, in steps."""

NOWHERE = -1e4
"""The log of nothing, but finite."""

LEVELS = 2
"""Levels of need that are told apart, in each step of e in how much is recalled."""

LITTLE = 1e-9
"""An amount that is as good as nothing."""

LOOK = 25
"""Steps between two looks at how far off the recalled steps are."""


def sorts_for(observation: ObservationSpec) -> tuple[Sort, ...]:
    """The sorts of head there are, the simpler one first. Only cells of symbol grids have kinds: what is found in
    images and vectors has to be asked for."""
    return (PLAIN, ASKING) if observation.kinds == {"grid"} else (ASKING,)


def finder(observation: ObservationSpec, actions: ActionSpec, sort: Sort) -> Network:
    """The network, with fresh weights; of its action distribution nothing is asked."""
    nothing_read = {"periods": (), "marks": 0, "means": False, "sums": 0, "teacher": 0.0, "alone": 0.0}
    sizes = {"d_model": WIDTH, "layers": 1, "heads": 1, "feedforward": 2 * WIDTH}
    sizes |= {"dropped_cells": sort.dropped, "haste": sort.haste}  # type: ignore[dict-item]
    network = RecallConfig(observation, actions, **sizes, **nothing_read).build()  # type: ignore[arg-type]
    if not sort.asks:  # queries are the bias alone
        weight = network.get_parameter("layers.0.in_proj.weight")
        torch.nn.init.zeros_(weight.requires_grad_(False))
    return network


class Window:
    """The places near the labels `[K]` of one annotator in a batch of B episodes, on its device.

    Args:
        batch: the episodes.
        labels: their labels, in the same order.
        spread_p, spread_q: how far off these are, in steps.
    """

    def __init__(self, batch: Batch, labels: PairTable, spread_p: float, spread_q: float) -> None:
        columns = (labels.episode, labels.p, labels.p_last, labels.q, labels.q_last)
        device = batch.lengths.device
        self.row, self.p, self.p_last, self.q, self.q_last = (
            torch.from_numpy(column.astype(np.int64)).to(device) for column in columns
        )
        self.times = torch.from_numpy(np.array(labels.multiplicity, np.float32)).to(device)
        self.end = batch.lengths[self.row] - 1
        self.i = _around(self.q, self.q_last, spread_q)  # [K, W]
        self.j = _around(self.p, self.p_last, spread_p)
        i, j, longest = self.i[:, :, None], self.j[:, None, :], batch.longest
        self.possible = (i >= 1) & (i <= self.end[:, None, None]) & (j >= 0) & (j < i)
        self.nowhere = batch.rows * longest**2
        place = (self.row[:, None, None] * longest + i) * longest + j
        self.place = torch.where(self.possible, place, self.nowhere)  # [K, W, W] in [B · T · T], one more for none

    def of_q(self, spread: float) -> Tensor:
        """Log-probabilities of the readings of q at the steps i, `[K, W]`."""
        return log_reading(self.q, self.q_last, torch.ones_like(self.q), self.end, self.i, spread)

    def of_p(self, spread: float) -> Tensor:
        """The same of p at the steps j."""
        return log_reading(self.p, self.p_last, torch.zeros_like(self.p), self.q_last - 1, self.j, spread)

    def expected(self, scores: Tensor, rate: Tensor) -> Tensor:
        """The log of how much is recalled at each place, `[K, W, W]`: as much as the step recalls by its need `[B, T]`,
        dealt out by where the head looks, scores `[B, T, T]`."""
        logs = scores.log_softmax(-1) + rate.log()[..., None]
        return F.pad(logs.flatten(), (0, 1))[self.place].masked_fill(~self.possible, NOWHERE)


def _around(first: Tensor, last: Tensor, spread: float) -> Tensor:
    """The steps near readings `[K]` that they may be of, `[K, W]`."""
    widest = int((last - first).max()) if len(first) else 0
    reach = min(FARTHEST, math.ceil(3 * spread) + (widest + 1) // 2)
    near: Tensor = ((first + last) // 2)[:, None] + torch.arange(-reach, reach + 1, device=first.device)
    return near


@torch.no_grad()
def deal(window: Window, scores: Tensor, rate: Tensor, spread_p: float, spread_q: float, power: float) -> Tensor:
    """What steps recall if the labels are readings: `[B, T, T]`, each label dealt out over the places near it."""
    odds = window.expected(scores, rate) + window.of_q(spread_q)[:, :, None] + window.of_p(spread_p)[:, None, :]
    share = (power * odds).flatten(1).softmax(-1) * window.possible.flatten(1)
    place = window.place.flatten()
    for _ in range(MATCHINGS):  # no two labels are of the same pair
        taken = torch.zeros(window.nowhere + 1, device=place.device).index_add(0, place, share.flatten())
        share = share / taken[place].view_as(share).clamp(min=1)
        share = share / share.sum(1, keepdim=True).clamp(min=1e-9)
    dealt = (share * window.times[:, None]).flatten()
    flat = torch.zeros(window.nowhere + 1, device=place.device).index_add(0, place, dealt)
    return flat[:-1].view_as(scores)


@torch.no_grad()
def likelihoods(window: Window, scores: Tensor, rate: Tensor, spread_q: float) -> Tensor:
    """How likely the labels are with each of `SPREADS` for their recalled steps: logs `[spreads]`, added up."""
    by_j = torch.einsum("kij,ki->kj", window.expected(scores, rate).exp(), window.of_q(spread_q).exp())
    logs = [(by_j * window.of_p(spread).exp()).sum(-1).clamp(min=1e-12).log().sum() for spread in SPREADS]
    return torch.stack(logs)


def average_loss(mass: Tensor, rate: Tensor) -> Tensor:
    """Of steps `[n]` that recall `mass` and by their need `rate`: the counting loss of the sums over steps of one level
    of need, added up. Such steps recall so much on average, each of them what there is for it."""
    level = (LEVELS * rate.log()).round().unique(return_inverse=True)[1]
    recalled, expected = (torch.zeros_like(rate).index_add(0, level, each) for each in (mass, rate))
    return (recalled - expected * recalled.clamp(min=LITTLE).log()).sum()


class PairFinder:
    """Which steps recall which, learned from labels.

    Args:
        data: episodes on a device.
        actions: of these.
        readings: of each annotator what is said of these episodes, in the same order.
        rate: `[S]` how many things each step recalls by its need.
        seed: fixes first weights and batches.
        exact: the labels are right.
        sort: of the head.

    Attributes:
        spreads_p: how far off each annotator's recalled steps are; measured on episodes that are not learned from.
    """

    def __init__(
        self,
        data: DemoData,
        actions: ActionSpec,
        readings: list[Readings],
        rate: Floats,
        seed: int,
        exact: bool,
        sort: Sort,
    ) -> None:
        self.data, self.seed, self.exact, self.sort = data, seed, exact, sort
        self.readings = [replace(each, spread=EXACT) for each in readings] if exact else readings
        self.rate = torch.from_numpy(rate.astype(np.float32)).to(data.device)
        self.annotated = np.any([each.labels.annotated for each in readings], axis=0)
        self.spreads_p = [EXACT if exact else max(FIRST_SPREAD, each.spread) for each in readings]
        self._likely = [torch.zeros(len(SPREADS), device=data.device) for _ in readings]
        with seeded(seed, data.device):
            self.model = finder(data.packed.observation, actions, sort)
        frames = data.frames.cpu().numpy()
        self.model.fit([(frames, np.bincount(data.packed.frame_index, minlength=len(frames)))], len(frames))
        self.model.to(data.device)

    def learn(self, rows: Integers, others: Integers, steps: int, bar: Bar | None = None) -> None:
        """Learn from the labels of the episodes `rows`; of those not annotated only that steps recall on average what
        their need says. How far off the recalled steps are is looked up in `others`, where there are any."""
        told, untold = rows[self.annotated[rows]], rows[~self.annotated[rows]]
        rng = np.random.default_rng([self.seed, 1])
        optimiser = make_optimiser(self.model, self.sort.rate, DECAY)
        with seeded(self.seed, self.data.device):
            self.model.train()
            for step in range(steps):
                set_learning_rate(optimiser, self.sort.rate * _part(step, steps))
                half = BATCH // 2 if len(untold) else BATCH
                chosen = [rng.choice(some, min(half, len(some)), replace=False) for some in (told, untold)]
                loss = self._loss(np.concatenate(chosen), _power(step / steps))
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                optimiser.step()
                if step % LOOK == LOOK - 1 and len(others) and not self.exact:
                    self._look(np.sort(rng.choice(others, min(BATCH, len(others)), replace=False)))
                if bar is not None:
                    bar.advance()
            self.model.eval()

    def _padded_rate(self, batch: Batch, rows: Integers) -> Tensor:
        """How many things each step recalls by its need, `[B, T]`."""
        steps = torch.from_numpy(spans(self.data.starts[rows], self.data.lengths[rows])).to(self.rate.device)
        size = batch.rows * batch.longest
        return (
            torch.full((size,), LEAST, device=steps.device)
            .index_copy(0, batch.slot, self.rate[steps])
            .view(batch.rows, batch.longest)
        )

    def _loss(self, rows: Integers, power: float) -> Tensor:
        """The counting loss of what the labels are dealt to, and of episodes without labels that of averages."""
        batch = self.data.batch(rows)
        recalled, rate = self._recalled(batch), self._padded_rate(batch, rows)
        scores = recalled.whole.scores
        wanted, voices = torch.zeros_like(scores), torch.zeros(len(rows), device=rate.device)
        for each, spread_p in zip(self.readings, self.spreads_p, strict=True):
            labels = each.labels.select(rows)
            voices += torch.from_numpy(labels.annotated.astype(np.float32)).to(rate.device)
            if len(labels):
                window = Window(batch, labels, spread_p, each.spread)
                wanted += deal(window, scores, rate, spread_p, each.spread, power)
        wanted = wanted / voices.clamp(min=1)[:, None, None]
        told = counting_loss(recalled.mass, (wanted * scores).sum(-1), recalled.cut)
        real = torch.arange(batch.longest, device=rate.device) < batch.lengths[:, None]
        unsaid = real & (voices[:, None] == 0)
        guessed = average_loss(recalled.mass[unsaid], rate[unsaid]) + recalled.cut[unsaid].sum()
        return ((told * (real & ~unsaid)).sum() + guessed) / rate.sum().clamp(min=1)

    def _recalled(self, batch: Batch) -> Recalled:
        found: Recalled = self.model(batch, (RECALL_HEAD,)).watched[RECALL_HEAD]
        return found

    @torch.no_grad()
    def _look(self, rows: Integers) -> None:
        """Measure how far off recalled steps are: the spread with which these labels, not learned from, are
        likeliest. It is no smaller than that of the deciding steps: a head that recalls all that was marked around one
        step explains labels without any."""
        self.model.eval()
        for number, found in enumerate(self._likelihoods(self.data.batch(rows), rows)):
            if found.any():
                self._likely[number] = 0.7 * self._likely[number] + found
                spread = SPREADS[int(self._likely[number].argmax())]
                self.spreads_p[number] = max(spread, self.readings[number].spread)
        self.model.train()

    @torch.no_grad()
    def likelihood(self, rows: Integers) -> float:
        """How likely the labels of these episodes are, with the likeliest spread of recalled steps: the sum of logs."""
        logs = [torch.zeros(len(SPREADS), device=self.data.device) for _ in self.readings]
        for start in range(0, len(rows), BATCH):
            batch = self.data.batch(rows[start : start + BATCH])
            for number, found in enumerate(self._likelihoods(batch, rows[start : start + BATCH])):
                logs[number] += found
        return sum(float(each[0] if self.exact else each.max()) for each in logs)

    def _likelihoods(self, batch: Batch, rows: Integers) -> list[Tensor]:
        """Of each annotator how likely these labels are with each of `SPREADS`: logs `[spreads]`."""
        scores, rate = self._recalled(batch).whole.scores, self._padded_rate(batch, rows)
        found = []
        for each in self.readings:
            labels = each.labels.select(rows)
            if not len(labels):
                found.append(torch.zeros(len(SPREADS), device=rate.device))
                continue
            window = Window(batch, labels, max(SPREADS), each.spread)
            found.append(likelihoods(window, scores, rate, each.spread))
        return found

    @torch.no_grad()
    def amounts(self, data: DemoData, rows: Integers) -> Tensor:
        """How many things each step of these episodes recalls from each earlier one, `[B, T, T]`."""
        return self._recalled(data.batch(rows)).whole.amounts

    @torch.no_grad()
    def consistency(self, rows: Integers) -> float:
        """The share of the labels of these episodes that lie where the head would recall more than at any place within
        `NEAR` steps that has no label: what labels of other episodes have in common is found in theirs."""
        right = total = 0
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            batch = self.data.batch(some)
            scores = self._recalled(batch).whole.scores
            for each in self.readings:
                labels = each.labels.select(some).settled()
                if len(labels):
                    window = Window(batch, labels, NEAR / 3, NEAR / 3)
                    places = window.place.flatten(1)
                    own = places[:, places.shape[1] // 2]
                    flat = F.pad(scores.flatten(), (0, 1), value=NOWHERE)
                    others = flat.index_fill(0, own, NOWHERE)[places]
                    right += int((flat[own] > others.amax(1)).sum())
                    total += len(labels)
        return right / max(total, 1)


def _part(step: int, steps: int) -> float:
    """The part of the learning rate that a step has: it rises, then falls to nothing as a cosine does."""
    return min(1, (step + 1) / WARM) * max(0.02, math.cos(math.pi / 2 * step / steps) ** 2)


def _power(done: float) -> float:
    first, last = SETTLING
    return 1 + (SETTLED - 1) * min(max((done - first) / (last - first), 0), 1)
