"""What these tests need to know of the inside of the package, all of it. Where modules move, only this file follows."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import attentiontuner as at
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.annotations import Annotation, read_annotation, write_annotation


def forward_logits(policy: Any, data: Path) -> NDArray[np.float32]:
    """`[T, actions]`: the network's logits on the first demonstration, all steps in one forward pass."""
    batch = DemoData(at.DemoStore.open(data).read_packed([0])).batch([0])
    with torch.inference_mode():
        return policy.model(batch).distribution.numpy()


def streamed_logits(policy: Any, demonstration: at.Demonstration) -> NDArray[np.float32]:
    """`[T, actions]`: the same step by step, with the demonstration's actions."""
    policy.reset(1)
    found = []
    for observation, action in zip(demonstration.observations, demonstration.actions, strict=True):
        found.append(policy.distribution(observation[None])[0].numpy().copy())
        policy._last[...] = action
    return np.stack(found)


def remarks(data: Path, annotator: str, episode: int) -> dict[str, Any]:
    """What an annotator said about an episode beside the pairs."""
    found = read_annotation(data, annotator, episode)
    assert found is not None
    origins = {name: sorted(map(list, pairs)) for name, pairs in found.origins.items()}
    said = {name: getattr(found, name) for name in ("note", "flagged", "seconds", "revision")}
    return {"origins": origins, **said}


def annotate(data: Path, annotator: str, episode: int, pairs: list[tuple[int, ...]], **said: Any) -> None:
    """Write an annotation as the studio does."""
    write_annotation(data, annotator, episode, Annotation(pairs, **said))  # type: ignore[arg-type]
