"""What networks keep of the training set's numbers, to see all of them on one scale."""

from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentiontuner.spaces.observation import Part

FITTED = 20_000
"""The most images or vectors a mean is taken over, spread over the training set."""


class Exact(nn.Module):
    """A module whose numbers stay as exact as they are where its network is copied in fewer bits: what the training set
    was like is the same for every copy."""

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def exactly(tensor: Tensor) -> Tensor:
            changed = change(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        super()._apply(exactly, recurse)  # type: ignore[no-untyped-call]
        return self


class Moments:
    """Sums of every input and of its square, over about `FITTED` of `frames` observations; colours are in [0, 1]."""

    def __init__(self, part: Part, frames: int) -> None:
        self.part, self.every, self.first, self.steps = part, -(-frames // FITTED), 0, 0
        self.total, self.squares = np.zeros(part.shape), np.zeros(part.shape)

    def add(self, values: Tensor, seen: NDArray[np.int64]) -> None:
        """Values `[u, …]`, with how many steps saw each `[u]`."""
        some, weight = values[self.first :: self.every].numpy(), seen[self.first :: self.every]
        numbers = some.astype(np.float64) / (255 if self.part.kind == "image" else 1)
        self.total += np.tensordot(weight, numbers, 1)
        self.squares += np.tensordot(weight, numbers**2, 1)
        self.steps += int(weight.sum())
        self.first = (self.first - len(values)) % self.every

    def mean(self) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = self.total / self.steps
        return mean

    def variance(self) -> NDArray[np.float64]:
        variance: NDArray[np.float64] = (self.squares / self.steps - self.mean() ** 2).clip(0)
        return variance


def scale_of(variance: NDArray[np.float64]) -> Tensor:
    """What numbers of that variance are multiplied by; what never changes is 0."""
    deviation = np.sqrt(variance)
    return torch.from_numpy(np.where(deviation > 1e-6, 1 / deviation.clip(1e-3), 0))


class Standard(Exact):
    """A vector less its mean in the training set, each number over its deviation there: `[U, n]` → `[U, n]`."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, moments: Moments) -> None:
        self.mean.copy_(torch.from_numpy(moments.mean()))
        self.scale.copy_(scale_of(moments.variance()))

    def forward(self, values: Tensor) -> Tensor:
        return (values - self.mean) * self.scale
