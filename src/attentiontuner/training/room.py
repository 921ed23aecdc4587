"""Whether a batch fits into memory, and into how many parts it is cut where it does not.

What a network keeps of a step until its gradient is there is measured on a few steps of one demonstration. It is as
much for every other step, since nothing of all steps times all steps is kept.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.models.network import Network
from attentiontuner.runs.config import TrainConfig

TRIED = 256
"""Steps of the demonstration that is tried."""

BESIDE = 1.4
"""How much larger the whole is than what is kept: gradients on their way back."""

WORKSPACE = 300 * 2**20
"""Bytes of the blocks that memory losses and recall heads go through."""

PROCESS, GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")

EMBEDDING = 9
"""How many times its bytes an observation takes while it is embedded: itself, and twice as float32."""

USED = 0.9
"""The share of the free memory that is used."""


def parts_for(
    config: TrainConfig, model: Network, one: PackedDemos, lengths: NDArray[np.int64], frames: int = 0
) -> int:
    """Into how many parts a batch is cut, on a CPU, so that it fits.

    Args:
        config: the run.
        model: its network, on the CPU; it is left as it was.
        one: a training demonstration.
        lengths: the steps of all of them.
        frames: bytes that demonstrations take beside the batch, which are not read yet.
    """
    free = free_bytes()
    if free is None:
        return 1
    free -= frames
    weights = sum(parameter.nbytes for parameter in model.parameters())
    room = USED * free - 3 * weights - WORKSPACE  # gradients, and Adam's two means
    each = BESIDE * kept_bytes(config, model, one) + EMBEDDING * one.observation.nbytes
    longest = np.sort(lengths)[::-1][: config.batch_size]
    for parts in range(1, len(longest) + 1):
        if each * longest[: -(-len(longest) // parts)].sum() <= room:
            return parts
    need, gigabytes, beside = (
        (each * longest[0] + 3 * weights + WORKSPACE) / 2**30,
        max(free, 0) / 2**30,
        frames / 2**30,
    )
    windows = "train on windows of it (--window), " if config.way.windows and config.window is None else ""
    raise UserError(
        f"an episode of {counted(int(longest[0]), 'step', form=',')} needs about {need:.1f} GB to train on, "
        f"{gigabytes:.1f} GB are free beside {beside:.1f} GB of frames: {windows}hold fewer (--memory-limit), make the "
        "network smaller (--d-model, --layers), or set --parts"
    )


def kept_bytes(config: TrainConfig, model: Network, one: PackedDemos) -> float:
    """Bytes for each step that the network and its loss keep until there is a gradient."""
    steps = min(TRIED, int(one.lengths[0]))
    pairs = PairTable(np.array([steps]), np.array([True]), *np.empty((3, 0), np.int32))
    short = replace(one, lengths=one.lengths[:1].clip(max=steps), starts=one.starts[:1], pairs=pairs)
    batch = DemoData(short).batch(np.zeros(1, np.int64))
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # itself it would keep the operation that made it, which keeps it: for ever

    training = model.training
    with torch.random.fork_rng([]), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = config.way.loss(model.train()(batch, config.supervised()), batch, config)
    del loss
    model.train(training)
    return sum(kept.values()) / steps


def free_bytes() -> int | None:
    """Memory that this process may still have; None where the system does not say."""
    found = [_number(Path("/proc/meminfo"), r"MemAvailable:\s+(\d+) kB", 1024)]
    for folder, limit, used, files in _groups():
        most, taken = _number(folder / limit, r"(\d+)"), _number(folder / used, r"(\d+)")
        if most is not None and taken is not None:
            kept = _number(folder / "memory.stat", rf"(?m)^{files} (\d+)") or 0  # of files, forgotten when needed
            found.append(max(0, most - taken + kept))
    known = [number for number in found if number is not None]
    return min(known) if known else None


def _groups() -> Iterator[tuple[Path, str, str, str]]:
    """Where Linux bounds the memory of this process: a folder, and what its files are called."""
    try:
        lines = (PROCESS / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers in ("", "memory"):
            root = GROUPS / controllers
            folder = root / place.lstrip("/")
            second = "memory.max", "memory.current", "inactive_file"
            first = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            yield folder if folder.is_dir() else root, *(first if controllers else second)


def _number(path: Path, pattern: str, times: int = 1) -> int | None:
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8"))
    except OSError:
        return None
    return times * int(match[1]) if match else None
