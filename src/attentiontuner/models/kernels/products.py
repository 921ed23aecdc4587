"""Matrix products on a processor of which PyTorch's own use half.

PyTorch brings two libraries for them and asks MKL, which takes the widest vectors (AVX-512) on Intel's processors
alone; on others oneDNN is twice as fast. Equal but for rounding. Legend: S rows, K features in, C features out.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

WORTH = 2**28
"""Multiplications from which on a product is worth it: oneDNN prepares half a millisecond for every new shape, and
nearly every batch has its own."""


@cache
def half_used() -> bool:
    """Whether PyTorch's own products leave half of this processor unused."""
    both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return both and torch.backends.cpu.get_cpu_capability() == "AVX512" and "GenuineIntel" not in _processor()


def _processor() -> str:
    """What the system calls the processor, its maker included."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return platform.processor()


def pays(inputs: Tensor, weight: Tensor) -> bool:
    """Whether the product of these, `[…, K]` and `[C, K]`, is better left to oneDNN."""
    here = inputs.device.type == "cpu" and inputs.dtype == weight.dtype == torch.float32
    return here and inputs.numel() * len(weight) >= WORTH and half_used()


def host_linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """F.linear(inputs, weight, bias)"""
    if not pays(inputs, weight):
        return F.linear(inputs, weight, bias)
    out: Tensor = _Linear.apply(inputs.flatten(0, -2).contiguous(), weight, bias)  # type: ignore[no-untyped-call]
    return out.view(*inputs.shape[:-1], -1)


def product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right

    `[E, S, K]` and `[E, K, C]`: stretches of long episodes and what they look at, whose sizes recur where they are
    multiples of a power of two (`data.blocks`), so that they are worth preparing. `right` lies row by row or column by
    column."""
    sizes = (*left.shape[1:], right.shape[2])
    recurs = all(size % RECURS == 0 for size in sizes) and max(sizes) <= LARGEST
    if len(left) > 1 or not recurs or left.device.type != "cpu" or not half_used():
        return torch.bmm(left, right)
    return _product(left[0].contiguous(), right[0].mT)[None]


RECURS, LARGEST = 32, 2**13
"""The power of two, and the largest size: what is prepared for one takes half a megabyte, and of longer episodes there
would be hundreds."""


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return _product(inputs, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        up = upstream[0].contiguous()
        return _product(up, weight.T) if ctx.needs_input_grad[0] else None, _of_weight(up, inputs), up.sum(0)


def host_feed_forward(inputs: Tensor, widen: nn.Linear, narrow: nn.Linear) -> Tensor:
    """narrow(F.relu(widen(inputs)))"""
    if not pays(inputs, widen.weight):
        plain: Tensor = narrow(F.relu(widen(inputs)))
        return plain
    rows = inputs.flatten(0, -2).contiguous()
    out: Tensor = _FeedForward.apply(rows, widen.weight, widen.bias, narrow.weight, narrow.bias)  # type: ignore[no-untyped-call]
    return out.view(*inputs.shape[:-1], -1)


class _FeedForward(torch.autograd.Function):
    """The gradient of what the rectifier leaves is nobody else's, so it is cut off where it lies."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, widen: Tensor, first: Tensor, narrow: Tensor, second: Tensor) -> Tensor:
        hidden = _product(inputs, widen, first, "relu")
        ctx.save_for_backward(inputs, widen, narrow, hidden)
        return _product(hidden, narrow, second)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        inputs, widen, narrow, hidden = ctx.saved_tensors
        up = upstream[0].contiguous()
        down = _product(up, narrow.T)
        torch.ops.aten.threshold_backward.grad_input(down, hidden, 0, grad_input=down)
        return (
            _product(down, widen.T), _of_weight(down, inputs), down.sum(0), _of_weight(up, hidden), up.sum(0),
        )  # fmt: skip


def _of_weight(up: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of a weight: `[S, C]` and `[S, K]` → `[C, K]`."""
    return _product(up.T, inputs.T)


def _product(left: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """`[S, K]` and `[C, K]` → `[S, C]`. Where a weight lies neither row by row nor column by column, it is slow."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, weight, bias, then, [], "")
    return found
