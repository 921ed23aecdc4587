"""How much each step needs a memory: how unsure a policy is that has none, judged on episodes it was not trained on.

A policy is unsure where the present does not say what to do: there something is recalled. Entropy is expected need,
surprise what came of it: most steps that compare with a memory find nothing and go on as usual, at little surprise.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import WRONG_CONTENT, write_bytes
from attentiontuner.core.progress import Bar, progress
from attentiontuner.core.seals import check_tensors, read_tensors, seal_tensors
from attentiontuner.core.wording import counted
from attentiontuner.demos.pairs import spans
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight.memoryless import Memoryless
from attentiontuner.insight.steps import Integers, StepData, blocks, embedded_at_once, learned_from, seeded

FOLDS, PASSES, PATIENCE, RATE = 2, 24, 3, 1e-3
"""Folds of the episodes, most passes over the steps, passes without gain before it stops, learning rate."""

GAIN = 5e-4
"""What counts as a gain: nats of mean surprise."""

UPDATES = 30
"""Batches between two looks at how good it is, at least. Where observations come again a pass is short."""

JUDGED = 4096
"""Steps that are judged at once; fewer where they see large images."""

USUAL = 0.5
"""Where actions are numbers, the quantile of the steps that is usual."""


@dataclass(frozen=True)
class Need:
    """The need of every step of some episodes, packed in their order; of an episode that nobody else could judge
    (there is only one), by a policy that knows it.

    Attributes:
        entropy: float32 `[ΣT]` in nats, of the action under the policy without a memory, `above_usual`: 0 or more.
        surprise: float32 `[ΣT]` in nats, the negative log-likelihood of the expert's action under it.
        lengths: `[N]` steps of each episode.
    """

    entropy: NDArray[np.float32]
    surprise: NDArray[np.float32]
    lengths: Integers

    def __post_init__(self) -> None:
        if not len(self.entropy) == len(self.surprise) == self.lengths.sum():
            sizes = f"{len(self.entropy)} and {len(self.surprise)}"
            raise UserError(f"lists of {sizes} numbers are not the need of {counted(self.lengths.sum(), 'step')}")
        for array in (self.entropy, self.surprise, self.lengths):
            array.flags.writeable = False

    def save(self, path: Path) -> None:
        """Write it as a safetensors file, atomically."""
        arrays: dict[str, NDArray[Any]] = {"entropy": self.entropy, "surprise": self.surprise, "lengths": self.lengths}
        write_bytes(path, seal_tensors(save(arrays)))

    @classmethod
    def load(cls, path: Path) -> "Need":
        """What `save` wrote; a missing or damaged file is a `UserError`."""
        try:
            content = read_tensors(path)
            check_tensors(content, path)
            arrays = load(content)
            return cls(*(arrays[name].copy() for name in ("entropy", "surprise", "lengths")))
        except (SafetensorError, *WRONG_CONTENT) as error:
            problem = error if isinstance(error, UserError) else repr(error)
            raise UserError(f"{path} holds no need of steps: {problem}") from error


def usual(nats: NDArray[np.float32], numbers: bool) -> float:
    """What steps of this entropy or surprise `[S]` have that need no memory: nothing where actions are choices. Of
    numbers these are of a density: their 0 says nothing, it moves with the units, and nobody repeats a number exactly.
    There it is what half of the steps do not reach."""
    return float(np.quantile(nats, USUAL)) if numbers else 0.0


def above_usual(nats: NDArray[np.float32], numbers: bool) -> NDArray[np.float32]:
    """By how much each step's entropy or surprise `[S]` is more than is usual; 0 where it is less."""
    return np.asarray(np.maximum(nats - np.float32(usual(nats, numbers)), np.float32(0)))


def find_need(
    store: DemoStore, episodes: Integers | None = None, *, seed: int = 0, device: torch.device | str = "cpu"
) -> Need:
    """The need of every step of these episodes (None: all), in the order given.

    Every episode is judged by a policy that was trained on others (two folds), stopped where it was best on those it
    judges: one that has seen a step knows its action by heart. Of large data sets some episodes are trained on, and
    all are judged, block by block.
    """
    episodes = np.arange(len(store)) if episodes is None else np.asarray(episodes, np.int64)
    judges = Judges.trained(store, episodes, seed=seed, device=device)
    lengths = store.lengths[episodes]
    starts = np.cumsum(lengths) - lengths
    found = np.zeros((2, int(lengths.sum())), np.float32)
    for places in blocks(store, episodes):
        data = StepData(store.annotated_by(None).read_packed(episodes[places]), torch.device(device))
        found[:, spans(starts[places], lengths[places])] = judges.judge(data, places)
    return Need(above_usual(found[0], store.actions.kind == "box"), found[1], lengths)


@dataclass(frozen=True)
class Judges:
    """Policies without a memory, each trained on the episodes of the other folds.

    Attributes:
        policies: one for each fold.
        fold: `[N]` which of them judges an episode.
    """

    policies: list[Memoryless]
    fold: Integers

    @classmethod
    def trained(cls, store: DemoStore, episodes: Integers, *, seed: int, device: torch.device | str) -> "Judges":
        """Those of some episodes, in the order given."""
        rng = np.random.default_rng([seed, 0])
        fold = rng.permutation(len(episodes)) % FOLDS
        chosen = learned_from(store, episodes, rng)
        fold[chosen] = rng.permutation(len(chosen)) % FOLDS  # both folds have as many to learn from
        data = StepData(store.annotated_by(None).read_packed(episodes[chosen]), torch.device(device))
        with progress(f"need of {store.task}", FOLDS * PASSES) as bar:
            policies = [_without_memory(data, store, fold[chosen] != own, seed + own, rng, bar) for own in range(FOLDS)]
        return cls(policies, fold)

    def judge(self, data: StepData, places: Integers) -> NDArray[np.float32]:
        """Entropy and surprise of all steps of the episodes at these places: `[2, S]`."""
        judged = np.empty((2, len(data)), np.float32)
        for policy, rows in self._shared(data, places):
            judged[:, rows] = _judge(policy, data, rows)
        return judged

    @torch.no_grad()
    def answers(self, data: StepData, places: Integers, steps: Integers) -> NDArray[np.float32]:
        """The distributions `[n, P]` of the actions of some steps, by the policy that judges them."""
        found = np.empty((len(data), self.policies[0].head.width), np.float32)
        for policy, rows in self._shared(data, places):
            own = np.intersect1d(rows, steps)
            at_once = embedded_at_once(JUDGED, data.packed.observation.nbytes)
            for start in range(0, len(own), at_once):
                some = own[start : start + at_once]
                found[some] = policy.eval().answer(data.steps(some)).cpu().numpy()
        return found[steps]

    def _shared(self, data: StepData, places: Integers) -> Iterator[tuple[Memoryless, Integers]]:
        """Each policy with the steps it judges."""
        of_step = np.repeat(self.fold[places], data.packed.lengths)
        return ((policy, np.flatnonzero(of_step == own)) for own, policy in enumerate(self.policies))


def _without_memory(
    data: StepData, store: DemoStore, learned: NDArray[np.bool_], seed: int, rng: np.random.Generator, bar: Bar
) -> Memoryless:
    """A policy trained on the episodes that are `learned` `[N]` of, at its best on the others."""
    of_step = np.repeat(learned, data.packed.lengths)
    others = np.flatnonzero(~of_step)
    rows = np.flatnonzero(of_step) if of_step.any() else others
    with seeded(seed, data.device):
        policy = Memoryless(store.observation, store.actions)
    policy.encoder.fit(data.observed(), len(data.frames))
    policy.head.fit([data.packed.actions])
    policy.to(data.device)
    optimiser = torch.optim.Adam(policy.parameters(), RATE)
    best, kept, stale, done = float("inf"), policy.state_dict(), 0, 0
    while done < PASSES and stale < PATIENCE:
        policy.train()
        updates = 0
        while updates < UPDATES:
            batches = data.batches(rows, rng)
            for batch in batches:
                loss = policy.loss(data.steps(batch)).sum() * len(batches) / len(rows)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            updates += len(batches)
        surprise = float(_judge(policy, data, others if len(others) else rows)[1].mean())
        done, stale = done + 1, 0 if surprise < best - GAIN else stale + 1
        if surprise < best:
            best, kept = surprise, deepcopy(policy.state_dict())
        bar.advance(note=f"surprise {best:.3f}")
    bar.advance(PASSES - done)
    policy.load_state_dict(kept)
    return policy


@torch.no_grad()
def _judge(policy: Memoryless, data: StepData, rows: Integers) -> NDArray[np.float32]:
    """Entropy and surprise of these steps: `[2, S]`."""
    policy.eval()
    by_frame = rows[np.argsort(data.packed.frame_index[rows], kind="stable")]  # what is seen often is embedded once
    found = np.empty((2, len(data)), np.float32)
    at_once = embedded_at_once(JUDGED, data.packed.observation.nbytes)
    for start in range(0, len(rows), at_once):
        some = by_frame[start : start + at_once]
        found[:, some] = torch.stack(policy.judge(data.steps(some))).cpu().numpy()
    return found[:, rows]
