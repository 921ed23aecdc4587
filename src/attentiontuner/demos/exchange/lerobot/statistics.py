"""The statistics that LeRobot keeps of every feature, of each episode and of all: its policies normalise with them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
Statistics = dict[str, NDArray[np.float64]]


def of_numbers(values: NDArray[np.generic]) -> Statistics:
    """Of `[T, …]`, over the steps; one number a step is `[1]`."""
    whole = values.reshape(len(values), -1).astype(np.float64) if values.ndim == 1 else values.astype(np.float64)
    quantiles = np.quantile(whole, list(QUANTILES.values()), axis=0)
    return {
        "min": whole.min(0),
        "max": whole.max(0),
        "mean": whole.mean(0),
        "std": whole.std(0),
        "count": np.array([len(whole)]),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def of_images(images: NDArray[np.uint8]) -> Statistics:
    """Of `[T, H, W, C]`, over all pixels: `[C, 1, 1]` from 0 to 1. `count` is that of the images."""
    channels = [np.bincount(images[..., channel].ravel(), minlength=256) for channel in range(images.shape[3])]
    counts, levels = np.array(channels, np.float64), np.arange(256) / 255
    total = counts.sum(1)
    mean = counts @ levels / total
    reached = counts.cumsum(1) / total[:, None]
    found = {
        "min": levels[(counts > 0).argmax(1)],
        "max": levels[255 - (counts[:, ::-1] > 0).argmax(1)],
        "mean": mean,
        "std": np.sqrt(np.maximum(0, counts @ levels**2 / total - mean**2)),
        **{name: levels[(reached >= share).argmax(1)] for name, share in QUANTILES.items()},
    }
    return {**{name: value[:, None, None] for name, value in found.items()}, "count": np.array([len(images)])}


def together(before: Statistics | None, more: Statistics) -> Statistics:
    """Of two sets of steps as one. Quantiles cannot be put together: the outer ones stay, as LeRobot has it."""
    if before is None:
        return more
    first, second = before["count"], more["count"]
    count = first + second
    mean = (before["mean"] * first + more["mean"] * second) / count
    spread = [(part["std"] ** 2 + (part["mean"] - mean) ** 2) * part["count"] for part in (before, more)]
    outer = {
        name: (np.minimum if share <= 0.5 else np.maximum)(before[name], more[name])
        for name, share in QUANTILES.items()
    }
    return {
        "min": np.minimum(before["min"], more["min"]),
        "max": np.maximum(before["max"], more["max"]),
        "mean": mean,
        "std": np.sqrt(sum(spread) / count),
        "count": count,
        **outer,
    }


def as_json(statistics: Mapping[str, Statistics]) -> dict[str, dict[str, object]]:
    """feature → name → nested lists, as `stats.json` has them."""
    return {feature: {name: value.tolist() for name, value in of.items()} for feature, of in sorted(statistics.items())}
