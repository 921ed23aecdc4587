"""Parts of the network that a GPU computes, in bfloat16, in one pass over memory instead of one for each operation.

The docstring of a function is, where it can be, the line of PyTorch it stands for; that line is what a CPU, float32 and
a machine without Triton compute. What images need is in `images`, the kernels are in `programs`, and a CPU's
matrix products in `products`.

Legend: S rows, C columns; N packed tokens of B episodes, n of the longest, H heads of size h.
"""

import importlib.util
import math
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attentiontuner.models.kernels.products import host_feed_forward, host_linear

FUSED = ("cuda", torch.bfloat16)
"""The device and type of the values that kernels are for."""

LARGEST_ROW = 4096
"""Columns that one program holds at once."""

LARGEST_HEAD = 256
"""Features of a head that one program holds at once."""

FORWARD, BACKWARD = 2048, 4096
"""Values that a program of a norm takes together, so that they stay in registers."""

_PROGRAMS = 264
"""Programs that share the rows of a sum: two for each multiprocessor of a large GPU."""


def fuses(values: Tensor) -> bool:
    """Whether these values are of the kind that kernels are for."""
    return (values.device.type, values.dtype) == FUSED and not why_no_kernels()


@cache
def why_no_kernels() -> str:
    """Why this machine's GPU has to do without kernels; nothing where it has them."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        _totals(torch.ones(2, 1, device="cuda"), torch.float32)
    except Exception as error:  # without a C compiler, say; a compiler fails in many ways, and we can do without it
        return f"Triton cannot compile: {(str(error).splitlines() or [repr(error)])[0]}"
    return ""


@cache
def kernel_module() -> ModuleType:
    """Imported when first needed: Triton takes its time."""
    return importlib.import_module("attentiontuner.models.kernels.programs")


def apply(function: type[torch.autograd.Function], *inputs: Any) -> Tensor:
    result: Tensor = function.apply(*inputs)  # type: ignore[no-untyped-call]
    return result


def _seed(dropout: float, device: torch.device) -> Tensor:
    """Of what is dropped: a number of the generator, so a new one each time a recorded graph is replayed."""
    return torch.randint(2**31, (1,), device=device) if dropout else torch.empty(1, dtype=torch.int64, device=device)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _tile(columns: int, size: int) -> dict[str, int]:
    """Whole rows that a program takes together: about `size` values."""
    width = _power_of_two(columns)
    return {"ROWS": max(1, size // width), "COLUMNS": width}


# --- linear maps -----------------------------------------------------------------------------------------------------


def linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """F.linear(inputs, weight, bias)"""
    if not fuses(inputs):
        return host_linear(inputs, weight, bias)
    return apply(_Linear, inputs, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return F.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        up = upstream[0].contiguous()
        rows = up.flatten(0, -2)
        return up @ weight, rows.T @ inputs.flatten(0, -2), column_sums(rows)


def linear_relu(inputs: Tensor, layer: nn.Linear) -> Tensor:
    """F.relu(layer(inputs))"""
    if not fuses(inputs):
        return F.relu(layer(inputs))
    out = apply(_LinearRelu, inputs.flatten(0, -2), layer.weight, layer.bias)
    return out.view(*inputs.shape[:-1], -1)


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        result = torch._addmm_activation(bias, inputs, weight.T)
        ctx.save_for_backward(inputs, weight, result)
        return result

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight, result = ctx.saved_tensors
        down, of_bias = through_relu(upstream[0].contiguous(), result)
        return down @ weight, down.T @ inputs, of_bias


def linear_add_norm(
    inputs: Tensor, layer: nn.Linear, residual: Tensor, norm: nn.LayerNorm, dropout: float = 0.0
) -> Tensor:
    """norm(residual + F.dropout(layer(inputs), dropout))"""
    if not fuses(inputs) or residual.shape[-1] > LARGEST_ROW:
        plain: Tensor = norm(residual + F.dropout(host_linear(inputs, layer.weight, layer.bias), dropout))
        return plain
    seed = _seed(dropout, inputs.device)
    rows = inputs.flatten(0, -2), residual.flatten(0, -2)
    normal = apply(
        _LinearAddNorm, rows[0], layer.weight, layer.bias, rows[1], norm.weight, norm.bias, norm.eps, dropout, seed
    )
    return normal.view_as(residual)


def feed_forward_add_norm(
    tokens: Tensor, widen: nn.Linear, narrow: nn.Linear, norm: nn.LayerNorm, dropout: float = 0.0
) -> Tensor:
    """norm(tokens + F.dropout(narrow(F.relu(widen(tokens))), dropout))"""
    if fuses(tokens):
        return linear_add_norm(linear_relu(tokens, widen), narrow, tokens, norm, dropout)
    plain: Tensor = norm(tokens + F.dropout(host_feed_forward(tokens, widen, narrow), dropout))
    return plain


class _LinearAddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float,
        dropout: float,
        seed: Tensor,
    ) -> Tensor:
        kernels = kernel_module()
        update, residual = F.linear(inputs, weight), residual.contiguous()
        count, columns = update.shape
        summed, normal = torch.empty_like(update), torch.empty_like(update)
        mean, scale = torch.empty(2, count, device=update.device).unbind()
        tile = _tile(columns, FORWARD)
        kernels.add_norm_forward[(-(-count // tile["ROWS"]),)](
            update, bias, residual, gamma, beta, seed, summed, normal, mean, scale, count, columns, eps, dropout,
            **tile, DROPS=dropout > 0,
        )  # fmt: skip
        ctx.save_for_backward(inputs, weight, gamma, seed, summed, mean, scale)
        ctx.dropout = dropout
        return normal

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        kernels = kernel_module()
        inputs, weight, gamma, seed, summed, mean, scale = ctx.saved_tensors
        count, columns = summed.shape
        of_residual = torch.empty_like(summed)
        of_update = torch.empty_like(summed) if ctx.dropout else of_residual
        tile = _tile(columns, BACKWARD)
        programs = min(_PROGRAMS, -(-count // tile["ROWS"]))
        partial = torch.empty(programs, 3, columns, device=summed.device)
        kernels.add_norm_backward[(programs,)](
            upstream[0].contiguous(), summed, mean, scale, gamma, seed, of_residual, of_update, partial, count, columns,
            ctx.dropout, **tile, DROPS=ctx.dropout > 0, num_warps=8,
        )  # fmt: skip
        of_gamma, of_beta, of_bias = _totals(partial, summed.dtype).unbind()
        return of_update @ weight, of_update.T @ inputs, of_bias, of_residual, of_gamma, of_beta, None, None, None


def sinusoids(time: Tensor, size: int) -> Tensor:
    """Sinusoidal positions, always float32: `[S]` → `[S, size]`. The kernel of `embed_norm` knows the same formula."""
    # A position of 100 steps has no room in the eight bits of a bfloat16.
    even = torch.arange(0, size, 2, device=time.device)
    angles = time[:, None] * torch.exp(even * (-math.log(10_000.0) / size))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def embed_norm(seen: Tensor, done: Tensor, time: Tensor, norm: nn.LayerNorm, dropout: float) -> Tensor:
    """F.dropout(norm(torch.stack([seen + position, done + position], 1).flatten(0, 1)), dropout), where position is
    sinusoids(time, C): `[S, C]`, `[S, C]` and `[S]` → `[2S, C]`"""
    if not fuses(seen) or seen.shape[-1] > LARGEST_ROW:
        position = sinusoids(time, seen.shape[-1]).to(seen.dtype)
        tokens = torch.stack([seen + position, done + position], 1).flatten(0, 1)
        return F.dropout(norm(tokens), dropout)
    return apply(_EmbedNorm, seen, done, time, norm.weight, norm.bias, norm.eps, dropout, _seed(dropout, seen.device))


class _EmbedNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        seen: Tensor,
        done: Tensor,
        time: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float,
        dropout: float,
        seed: Tensor,
    ) -> Tensor:
        kernels = kernel_module()
        steps, columns = seen.shape
        summed, normal = torch.empty(2, 2 * steps, columns, dtype=seen.dtype, device=seen.device).unbind()
        mean, scale = torch.empty(2, 2 * steps, device=seen.device).unbind()
        tile = _tile(columns, FORWARD)
        kernels.embed_norm_forward[(-(-2 * steps // tile["ROWS"]),)](
            seen.contiguous(), done.contiguous(), time, gamma, beta, seed, summed, normal, mean, scale, 2 * steps,
            columns, eps, dropout, **tile, DROPS=dropout > 0,
        )  # fmt: skip
        ctx.save_for_backward(gamma, seed, summed, mean, scale)
        ctx.dropout = dropout
        return normal

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        kernels = kernel_module()
        gamma, seed, summed, mean, scale = ctx.saved_tensors
        count, columns = summed.shape
        of_seen, of_done = torch.empty(2, count // 2, columns, dtype=summed.dtype, device=summed.device).unbind()
        tile = _tile(columns, BACKWARD)
        programs = min(_PROGRAMS, -(-count // tile["ROWS"]))
        partial = torch.empty(programs, 2, columns, device=summed.device)
        kernels.embed_norm_backward[(programs,)](
            upstream[0].contiguous(), summed, mean, scale, gamma, seed, of_seen, of_done, partial, count, columns,
            ctx.dropout, **tile, DROPS=ctx.dropout > 0, num_warps=8,
        )  # fmt: skip
        of_gamma, of_beta = _totals(partial, summed.dtype).unbind()
        return of_seen, of_done, None, of_gamma, of_beta, None, None, None


# --- sums over rows --------------------------------------------------------------------------------------------------


def columns_of_a_program(columns: int) -> int:
    """How many columns a program takes."""
    return min(128, max(16, _power_of_two(columns)))


def through_relu(upstream: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient `[S, C]` before a rectifier and the bias it had added, and the bias's own `[C]`."""
    down = torch.empty_like(upstream)
    return down, column_sums(upstream, result, down)


def column_sums(upstream: Tensor, result: Tensor | None = None, down: Tensor | None = None) -> Tensor:
    kernels = kernel_module()
    count, columns = upstream.shape
    size = columns_of_a_program(columns)
    blocks = -(-columns // size)
    programs = max(1, min(_PROGRAMS // blocks, -(-count // 32)))
    partial = torch.empty(programs, columns, device=upstream.device)
    kernels.bias_gradient[(programs, blocks)](
        upstream, upstream if result is None else result, upstream if down is None else down, partial, count, columns,
        ROWS=32, COLUMNS=size, RECTIFIED=result is not None,
    )  # fmt: skip
    return _totals(partial, upstream.dtype)


def _totals(partial: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum over the first dimension: float32 `[programs, …]` → `[…]`."""
    kernels = kernel_module()
    total = torch.empty(partial.shape[1:], dtype=dtype, device=partial.device)
    kernels.totals[(-(-total.numel() // 32),)](partial, total, len(partial), total.numel(), ROWS=64, COLUMNS=32)
    return total


# --- the memory loss -------------------------------------------------------------------------------------------------


def memory_sum(projected: Tensor, head: int, bounds: Tensor, expert: Tensor, annotated: Tensor, floor: float) -> Tensor:
    """Equation 4's sum over all entries of the annotated episodes, for one head of at most `LARGEST_HEAD` features.

    Queries, keys and values `[N, 3, H, h]`, the tokens up to the end of each episode `[B + 2]` int32 (0 first, fillers
    last), E as bool `[B, n, n]`, which episodes count `[B]` bool, and the logarithm of nothing. Only for values that
    `fuses` says yes to: for all others there is `losses.memory_cross_entropy`.
    """
    return apply(_MemorySum, projected, head, bounds, expert, annotated, floor)


class _MemorySum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, head: int, bounds: Tensor, expert: Tensor, annotated: Tensor, floor: float
    ) -> Tensor:
        kernels = kernel_module()
        projected = projected.contiguous()
        rows = torch.zeros(5, len(projected), device=projected.device)
        top = torch.zeros(len(projected), dtype=torch.int32, device=projected.device)
        grid, inputs, sizes, blocks = _MemorySum._launch(projected, head, bounds, expert, annotated)
        kernels.memory_rows[grid](*inputs, *rows.unbind(), top, *sizes, floor, **blocks)
        ctx.save_for_backward(projected, bounds, expert, annotated, rows, top)
        ctx.head = head
        return rows[0].sum()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        kernels = kernel_module()
        projected, bounds, expert, annotated, rows, top = ctx.saved_tensors
        gradient = torch.zeros_like(projected)
        grid, inputs, sizes, blocks = _MemorySum._launch(projected, ctx.head, bounds, expert, annotated)
        found = (upstream[0].float().contiguous(), *rows[1:].unbind(), top)
        kernels.memory_query_gradient[grid](*inputs, *found, gradient[:, 0, ctx.head], *sizes, **blocks)
        kernels.memory_key_gradient[grid](*inputs, *found, gradient[:, 1, ctx.head], *sizes, **blocks)
        return gradient, None, None, None, None, None

    @staticmethod
    def _launch(projected: Tensor, head: int, bounds: Tensor, expert: Tensor, annotated: Tensor) -> tuple[Any, ...]:
        """What all three kernels are called with: their grid, tensors, sizes and blocks."""
        episodes, tokens, _ = expert.shape
        size = projected.shape[-1]
        inputs = (projected[:, 0, head], projected[:, 1, head], bounds, expert, annotated)
        grid = (-(-tokens // 64), episodes)
        blocks = {"BLOCK": 64, "SIZE": max(16, _power_of_two(size)), "num_warps": 8, "num_stages": 2}
        return grid, inputs, (tokens, size, projected.stride(0), size**-0.5), blocks
