"""Numbers along an episode as small curves: actions that are numbers, and vectors that were seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.spaces import ActionSpec, Arrays, ObservationSpec

MOST_LINES = 16
"""Of more numbers than this only the first are drawn."""

LINE_COLOURS = ("#4c78a8", "#d9730d", "#1b8a4b", "#9c36b5", "#0c8599", "#c2255c", "#8a6100", "#5c5f66")


@dataclass(frozen=True)
class Curves:
    """Some numbers along an episode of T steps.

    Attributes:
        name: what they are.
        values: `[T, n]`, as they are.
        heights: `[T, n]`, each from 0 to 1 within its own bounds, where it has any, or between its least and its most.
    """

    name: str
    values: NDArray[np.float64]
    heights: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, values: NDArray[Any], low: Any = -np.inf, high: Any = np.inf) -> "Curves":
        """Values `[T, n]`, and their bounds `[n]`."""
        numbers = np.asarray(values, np.float64)[:, :MOST_LINES]
        low, high = (np.broadcast_to(bound, values.shape[1:])[:MOST_LINES] for bound in (low, high))
        bounded = np.isfinite(low) & np.isfinite(high)
        least, most = np.where(bounded, low, numbers.min(0)), np.where(bounded, high, numbers.max(0))
        span = np.where(most > least, most - least, 1)
        heights = np.where(most > least, (numbers - least) / span, 0.5)
        return cls(name, numbers, heights.clip(0, 1))


def curves_of(observation: ObservationSpec, actions: ActionSpec, seen: Arrays, done: NDArray[Any]) -> list[Curves]:
    """The curves of an episode: of its actions `[T, …]`, where they are numbers, and of every vector among its
    observations `[T, …]` that is not made of choices."""
    curves = []
    if actions.kind == "box":
        low, high = np.array(actions.low), np.array(actions.high)
        curves.append(Curves.of("actions", done.reshape(len(done), -1), low, high))
    for name, part in observation.parts:
        if part.kind == "vector" and not part.choices:
            values = seen[name] if isinstance(seen, Mapping) else seen
            curves.append(Curves.of(name or "observations", values.reshape(len(done), -1)))
    return curves
