"""Single steps of demonstrations, in batches that embed each observation once.

Legend: S steps, U distinct observations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attentiontuner.data.source import frame_bytes, in_blocks
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.demos.store.reader import DemoStore

Integers = NDArray[np.int64]

MOST_STEPS, MOST_FRAMES, MOST_BYTES = 200_000, {"image": 20_000}, 2**30
"""Steps, distinct observations of a kind, and bytes of them that are learned from; more teach little."""

EMBEDDED_BYTES, BLOCK_BYTES = 2**27, 2**24
"""Observations of no more bytes are embedded as a whole, more of them in blocks of so many: while it is embedded one
takes 13 times its bytes, and 25 times until there is a gradient."""

JUDGED_BYTES = 2**28
"""About so many bytes of observations are judged at once."""

BATCH, FEWEST_FRAMES = 256, 16
"""Steps of a batch, and how many distinct observations it has at least."""


@dataclass(frozen=True)
class Steps:
    """Some steps, on a device.

    Attributes:
        observations: `[U, bytes]`, the distinct observations.
        frame: `[S]` which of them each step saw.
        actions: `[S, …]` the expert's.
        before: `[S, …]` the action before; where an episode begins, one that means nothing.
        begins: `[S]` bool: where an episode begins.
    """

    observations: Tensor
    frame: Tensor
    actions: Tensor
    before: Tensor
    begins: Tensor


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """What PyTorch draws in this block is told by the seed; its generators are then as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class StepData:
    """The steps of packed demonstrations on a device."""

    def __init__(self, packed: PackedDemos, device: torch.device) -> None:
        self.packed, self.device = packed, device
        self.frames = torch.from_numpy(np.ascontiguousarray(packed.frames)).to(device)
        self.actions = torch.from_numpy(np.array(packed.actions)).to(device)
        begins = np.zeros(len(packed.frame_index), np.bool_)
        begins[packed.starts] = True
        self.begins = torch.from_numpy(begins).to(device)
        self.before = self.actions.roll(1, 0)

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.actions)

    def observed(self) -> list[tuple[NDArray[np.uint8], Integers]]:
        """Its distinct observations, with how many steps saw each; of many and large ones in blocks."""
        if self.packed.frames.nbytes > EMBEDDED_BYTES:
            return list(in_blocks(torch.from_numpy(self.packed.frames), self.packed.frame_index))
        return [(self.packed.frames, np.bincount(self.packed.frame_index, minlength=len(self.packed.frames)))]

    def steps(self, rows: Integers) -> Steps:
        """The steps of these numbers."""
        distinct, frame = np.unique(self.packed.frame_index[rows], return_inverse=True)
        chosen = torch.from_numpy(rows).to(self.device)
        return Steps(
            self.frames[torch.from_numpy(distinct).to(self.device)],
            torch.from_numpy(frame).to(self.device),
            self.actions[chosen],
            self.before[chosen],
            self.begins[chosen],
        )

    def batches(self, rows: Integers, rng: np.random.Generator) -> list[Integers]:
        """These steps in batches of about `BATCH`, shuffled. Those that saw the same stand together: observations
        that come again and again are embedded once in a pass, however many steps saw them."""
        distinct, frame = np.unique(self.packed.frame_index[rows], return_inverse=True)
        size = max(FEWEST_FRAMES, round(BATCH * len(distinct) / len(rows)))
        count = -(-len(distinct) // size)
        batch = (rng.permutation(len(distinct)) % count)[frame]
        return np.split(rows[np.argsort(batch, kind="stable")], np.cumsum(np.bincount(batch, minlength=count))[:-1])


def embedded(encoder: nn.Module, observations: Tensor) -> tuple[Tensor, ...]:
    """What an encoder makes of observations `[U, bytes]`: several things, each `[U, …]`. Of blocks nothing is kept for
    the gradient: they are embedded again."""
    if observations.nbytes <= EMBEDDED_BYTES:
        return tuple(encoder(observations))
    size = max(1, BLOCK_BYTES // observations.shape[1])
    blocks = [checkpoint(encoder, block, use_reentrant=False) for block in observations.split(size)]
    return tuple(torch.cat(column) for column in zip(*blocks, strict=True))


def embedded_at_once(most: int, nbytes: int) -> int:
    """How many observations of `nbytes`, at most `most`, are embedded as a whole."""
    return max(1, min(most, EMBEDDED_BYTES // nbytes))


def learned_from(store: DemoStore, episodes: Integers, rng: np.random.Generator) -> Integers:
    """Places in `episodes` of those that are learned from, in order: all, or as many at random as the limits allow."""
    size = frame_bytes(store, episodes)
    distinct = max(1, size // store.observation.nbytes)
    limits = [MOST_FRAMES[kind] / distinct for kind in store.observation.kinds & MOST_FRAMES.keys()]
    share = min(1.0, MOST_STEPS / store.lengths[episodes].sum(), MOST_BYTES / max(size, 1), *limits)
    count = max(min(len(episodes), 2), int(share * len(episodes)))
    return np.sort(rng.choice(len(episodes), count, replace=False))


def blocks(store: DemoStore, episodes: Integers) -> Iterator[Integers]:
    """Places in `episodes`, in the order of the shards, in blocks of about `JUDGED_BYTES` of observations."""
    order = np.argsort(episodes, kind="stable")
    each = frame_bytes(store, episodes) / max(1, store.lengths[episodes].sum())
    before = np.cumsum(store.lengths[episodes[order]]) * each
    for block in np.unique(before // JUDGED_BYTES):
        yield order[before // JUDGED_BYTES == block]
