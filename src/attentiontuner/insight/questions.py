"""Steps whose action the present does not tell, and what was seen before them.

Legend: S steps of all episodes end to end, Q of them in question, P numbers that describe the distribution of an
action, U distinct observations.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.insight.need import above_usual
from attentiontuner.insight.steps import Integers, StepData
from attentiontuner.models.actions import ActionHead

COVERED = 0.97
"""The share of all need that the steps in question have."""

LITTLE, LITTLE_NUMBERS = 0.1, 0.05
"""But none whose need is less than this share of that of the neediest, who have half of it all; the second where
actions are numbers: there the first step of a movement needs far more than those after it, whose action before tells
most."""

MOST = 6000
"""Steps in question, at most."""

FEWEST = 40
"""Steps in question, at least: the neediest, however little they need."""

NO_FRAME = 0.05
"""The chance that no frame tells anything, at least: a frame that misleads then does little harm."""


@dataclass(frozen=True)
class Questions:
    """Steps in question.

    Attributes:
        data: all steps.
        head: which knows what a distribution's numbers mean.
        step: `[Q]` their numbers among all steps, in order.
        base: `[Q, P]` what is known of their actions so far: at first, what a policy without a memory answers.
        episode, time: `[Q]` the place of their episode, and their number in it.
        usual: nats of surprise that a step has which needs no memory.
    """

    data: StepData
    head: ActionHead
    step: Integers
    base: Tensor
    episode: Integers
    time: Integers
    usual: float

    @classmethod
    def of(
        cls, data: StepData, head: ActionHead, step: Integers, base: NDArray[np.float32], usual: float
    ) -> "Questions":
        """The steps of these numbers, with the distributions `[Q, P]` of their actions."""
        episode = np.searchsorted(data.packed.starts, step, side="right") - 1
        answers = torch.from_numpy(base).to(data.device)
        return cls(data, head, step, answers, episode, step - data.packed.starts[episode], usual)

    def __len__(self) -> int:
        return len(self.step)

    def some(self, rows: Integers) -> "Questions":
        """Some of them."""
        at = torch.from_numpy(rows).to(self.data.device)
        return replace(
            self,
            step=self.step[rows],
            base=self.base[at],
            episode=self.episode[rows],
            time=self.time[rows],
        )

    def knowing(self, base: Tensor) -> "Questions":
        """The same where more is known."""
        return replace(self, base=base)

    @property
    def numbers(self) -> bool:
        """Whether actions are numbers. Two policies then say the same in different ways (which mode of a mixture is
        which), and what moves the answers of one does not move those of another: see `corrections`."""
        return self.head.spec.kind == "box"

    @property
    def actions(self) -> Tensor:
        """`[Q, …]` the expert's."""
        return self.data.actions[torch.from_numpy(self.step).to(self.data.device)]

    @property
    def frame(self) -> Tensor:
        """`[Q]` which distinct observation each saw."""
        return torch.from_numpy(self.data.packed.frame_index[self.step]).to(self.data.device)

    def log_likelihood(self, distribution: Tensor) -> Tensor:
        """Of the expert's actions, `[Q]`."""
        return -self.head.negative_log_likelihood(distribution, self.actions)

    def to_gain(self) -> float:
        """Nats of their surprise above what is usual, of all together."""
        return float((-self.log_likelihood(self.base) - self.usual).clamp(min=0).sum())

    def frames_at(self, time: Integers) -> Tensor:
        """Which distinct observation was seen at these times `[Q]` of their episodes; any where there is none, -1."""
        at = self.data.packed.starts[self.episode] + np.maximum(time, 0)
        return torch.from_numpy(self.data.packed.frame_index[at]).to(self.data.device)


def in_question(entropy: NDArray[np.float32], time: Integers, numbers: bool) -> Integers:
    """The steps with most of the need, in order: those of which the policy without a memory is unsure. The first step
    of an episode is none: before it nothing was seen. `numbers`: actions are numbers within bounds."""
    need = np.where(time > 0, above_usual(entropy, numbers), 0)
    order = np.argsort(-need, kind="stable")
    share = np.cumsum(need[order]) / max(need.sum(), 1e-9)
    neediest = need[order[: int(np.searchsorted(share, 0.5)) + 1]].mean()
    worth = int((need >= (LITTLE_NUMBERS if numbers else LITTLE) * neediest).sum())
    count = min(max(FEWEST, min(int(np.searchsorted(share, COVERED)) + 1, worth)), MOST, int((time > 0).sum()))
    return np.sort(order[:count])
