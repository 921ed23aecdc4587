"""Where a run computes: device, precision, and the processes that share it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import shortened
from attentiontuner.core.wording import counted
from attentiontuner.models.sizes import NetworkConfig
from attentiontuner.runs.config import Precision

CPU_MEMORY_LIMIT = 4 * 2**30
"""Bytes of frames a run on a CPU holds before it streams them; the whole run then stays below 8 GB."""

GPU_MEMORY_SHARE = 0.4
"""The share of a GPU's memory that frames may fill."""

NARROW = 128
"""Products of networks no wider are too small to be shared: one thread is nearly as fast as two, and nobody waits."""


def choose_device(name: torch.device | str | None = None) -> torch.device:
    """The device called `name`; `cuda` is this process's GPU. By default that, or the CPU where there is none."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if str(name) == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: there is no such device; use cpu, cuda or cuda:0") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: networks run on cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: this machine has {counted(torch.cuda.device_count(), 'CUDA device')}")
    return device


def choose_precision(precision: Precision, device: torch.device) -> Literal["float32", "bfloat16"]:
    """bfloat16 on a GPU, float32 on a CPU, unless told; bfloat16 on a CPU is refused."""
    if precision == "auto":
        return "bfloat16" if device.type == "cuda" else "float32"
    if precision == "bfloat16" and device.type == "cpu":
        raise UserError("--precision bfloat16 is for GPUs: on a CPU it is slow or ends the process; use float32")
    return precision


def frame_limit(device: torch.device) -> int:
    """How many bytes of frames are held on `device` where nothing is said."""
    if device.type == "cpu":
        return CPU_MEMORY_LIMIT
    return int(GPU_MEMORY_SHARE * torch.cuda.get_device_properties(device).total_memory)


@contextmanager
def threads_for(network: NetworkConfig, device: torch.device) -> Iterator[None]:
    """One CPU thread for a narrow network of symbols and vectors, as many as there are for others."""
    threads = torch.get_num_threads()
    narrow = "image" not in network.observation.kinds and getattr(network, "d_model", NARROW + 1) <= NARROW
    if device.type == "cpu" and narrow:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as `torchrun` starts them; one where it did not."""

    rank: int
    world: int
    control: "dist.ProcessGroup | None" = None  # host-side, so that agreeing never waits for a GPU

    @property
    def first(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def agree(self, request: int) -> int:
        """The largest request of all processes, so that all do the same thing after the same batch."""
        if self.world == 1:
            return request
        largest = torch.tensor(request)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.control)
        return int(largest)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Every process's tensor (on the host, the same shape in all)."""
        if self.world == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(gathered, tensor, group=self.control)
        return gathered

    def wait(self) -> None:
        """Until every process is here."""
        if self.world > 1:
            dist.barrier(group=self.control)


@contextmanager
def processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that `torchrun` started, for as long as the body runs."""
    said = os.environ.get("WORLD_SIZE", "1")
    if not said.isdecimal() or not 0 < len(said) < 10 or int(said) < 1:
        raise UserError(f"WORLD_SIZE={said[:20]}: torchrun says with it how many processes there are; unset it")
    world = int(said)
    if world == 1:
        yield Processes(0, 1)
        return
    already = dist.is_initialized()
    if not already:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
        except (ValueError, RuntimeError) as error:
            raise UserError(
                f"WORLD_SIZE={world}, but the processes do not find each other: {shortened(str(error))}; start them "
                "with torchrun, or unset WORLD_SIZE"
            ) from error
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo"))
    finally:
        if not already:
            dist.destroy_process_group()
