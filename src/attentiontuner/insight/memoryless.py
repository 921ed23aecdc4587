"""A policy without a memory: the action from the present observation, and from the action before it where that is told.

Legend: S steps, U distinct observations, D width, P numbers that describe the distribution of an action.
"""

import torch
from torch import Tensor, nn

from attentiontuner.insight.steps import Steps, embedded
from attentiontuner.models.actions import action_head
from attentiontuner.models.memory import MemoryOptions, ObservationMemory, observation_memory
from attentiontuner.models.sizes import images_for
from attentiontuner.spaces import ActionSpec, ObservationSpec

WIDTH = 64

DROPPED = 0.4
"""The share of a symbol grid's cells that are hidden while it learns. With few demonstrations it else knows places by
heart: of 200 of Hallway it told the deciding steps with an area under the curve of 0.96 without, 0.997 with this."""


def observation_encoder(observation: ObservationSpec) -> ObservationMemory:
    """Bytes `[U, nbytes]`, standardised with the training set, → vectors `[U, D]`, and a memory that nobody reads."""
    images = images_for(observation)
    options = MemoryOptions(
        WIDTH,
        head=1,
        points=0,
        looks=0,
        bounded=False,
        alike=False,
        dropped_cells=DROPPED,
        images=images,
        beside=False,
        products=False,
    )
    return observation_memory(observation, options)


class Memoryless(nn.Module):
    """Two answers from what is seen: π(a | o), and π(a | o, the action before)."""

    def __init__(self, observation: ObservationSpec, actions: ActionSpec) -> None:
        super().__init__()
        self.encoder, self.head = observation_encoder(observation), action_head(actions)
        self.before = nn.Parameter(torch.randn(self.head.features + 1, WIDTH))
        self.alone, self.after = (
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, width))
            for width in 2 * [self.head.width]
        )

    def forward(self, steps: Steps) -> tuple[Tensor, Tensor]:
        """Two distributions `[S, P]` of the action of each step: from the present alone, and after the one before."""
        vectors = embedded(self.encoder, steps.observations)[0]
        seen = vectors.index_select(0, steps.frame)
        return self.alone(seen), self.after(seen + self.head.embed(steps.before, steps.begins, self.before))

    def loss(self, steps: Steps) -> Tensor:
        """The negative log-likelihood of the expert's actions under both answers, `[S]`."""
        alone, after = (self.head.negative_log_likelihood(answer, steps.actions) for answer in self(steps))
        return alone + after

    def judge(self, steps: Steps) -> tuple[Tensor, Tensor]:
        """Entropy and negative log-likelihood `[S]` of its answer."""
        answer = self.answer(steps)
        return self.head.entropy(answer), self.head.negative_log_likelihood(answer, steps.actions)

    def answer(self, steps: Steps) -> Tensor:
        """The surer of its two answers, `[S, P]`. What the action before gives away needs no memory; where that action
        only misleads, the present speaks."""
        answers = torch.stack(self(steps))
        entropy = torch.stack([self.head.entropy(answer) for answer in answers])
        surer = entropy.argmin(0)[None, :, None].expand(1, -1, answers.shape[2])
        chosen: Tensor = answers.gather(0, surer)[0]
        return chosen
