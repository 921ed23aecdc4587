"""One episode with everything a recall film shows: what was seen, done and attended to, and what the expert recalls."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision
from attentiontuner.spaces import Arrays
from attentiontuner.tasks.task import Task

if TYPE_CHECKING:  # pictures need no torch
    from attentiontuner.models.heads import Head

ATTENDED = 0.1
"""From this weight on a head counts as attending to a step, unless it has many to share its weight between."""


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode of T steps as a policy played it.

    Attributes:
        observations: `[T, …]`.
        actions: `[T]`.
        weights: by head `[T, T]`: row q holds the weights on the observations 0 … q at step q.
        expert: the expert's decision at each step of this very episode; None where there is none to ask, or where the
            policy has led it to a place it cannot handle.
        success: whether the policy solved it.
        episode, seed: which one it is.
    """

    task: Task
    observations: Arrays
    actions: NDArray[np.int64]
    weights: "dict[Head, NDArray[np.float32]]"
    expert: list[Decision | None]
    success: bool
    episode: int
    seed: int

    def __len__(self) -> int:
        return len(self.actions)

    def threshold(self, step: int) -> float:
        """The weight from which on a head counts as attending at `step`.

        Weights add up to 1: where the expert recalls k steps, a head that shares its weight between them and
        the present gives each 1 / (k + 1). Half of that is enough. (Of a recall head the weight is what it counts.)
        """
        return min(ATTENDED, 0.5 / (1 + len(self.expert_recalls(step))))

    def attended(self, head: "Head", step: int, most: int) -> list[tuple[int, float]]:
        """The earlier steps with the largest weights that count: (step, weight), largest first."""
        weights, enough = self.weights[head][step, :step], self.threshold(step)
        order = np.argsort(-weights, kind="stable")[:most]
        return [(int(p), float(weights[p])) for p in order if weights[p] >= enough]

    def met(self, step: int, past: int) -> bool:
        """Whether a watched head attends at `step` to the observation at `past`."""
        return self.strongest(step, past) >= self.threshold(step)

    def expert_recalls(self, step: int) -> list[int]:
        """The earlier steps the expert recalls at `step`, each once, latest last."""
        decision = self.expert[step]
        return [] if decision is None else sorted({int(p) for p in decision.recalled})

    def strongest(self, step: int, past: int) -> float:
        """The largest weight any watched head gives at `step` to the observation at `past`."""
        return max((float(weights[step, past]) for weights in self.weights.values()), default=0.0)
