"""Images in blocks, and convolutions: on a GPU each is one kernel, as in `fused`.

Legend: U images of W × H pixels in C colours, in the layout of colours last.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attentiontuner.models.kernels.fused import (
    apply,
    columns_of_a_program,
    fuses,
    kernel_module,
    linear,
    through_relu,
    why_no_kernels,
)
from attentiontuner.models.kernels.products import host_linear

BLOCK = 4
"""Pixels a side that are taken together: the stride of the first convolution over images."""


def image_blocks(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Squares of 4 × 4 pixels side by side as colours of one: `[U, W, H, C]` → `[U, 16·C, W/4, H/4]`, bytes scaled to
    [0, 1]; pixels beyond the last whole square are left out, as the first convolution leaves them out.

    A convolution of 8 × 8 with stride 4 is one of 2 × 2 with stride 1 over these, and several times as fast.
    """
    width, height = images.shape[1] // BLOCK, images.shape[2] // BLOCK
    if images.is_cuda and images.dtype == torch.uint8 and not why_no_kernels():
        return _blocks_of_bytes(images.contiguous(), width, height, dtype)
    parts = images[:, : width * BLOCK, : height * BLOCK].unflatten(1, (width, BLOCK)).unflatten(3, (height, BLOCK))
    blocks = parts.permute(0, 1, 3, 2, 4, 5).reshape(len(images), width, height, -1).permute(0, 3, 1, 2)
    scaled: Tensor = blocks.to(dtype) / 255 if images.dtype == torch.uint8 else blocks.to(dtype)
    return scaled


def _blocks_of_bytes(images: Tensor, width: int, height: int, dtype: torch.dtype) -> Tensor:
    kernels = kernel_module()
    colours = images.shape[3]
    blocks = torch.empty(len(images), width, height, BLOCK**2 * colours, dtype=dtype, device=images.device)
    kernels.image_blocks[(len(images), -(-blocks[0].numel() // 1024))](
        images, blocks, WIDTH=images.shape[1], HEIGHT=images.shape[2], COLOURS=colours, BLOCK=BLOCK, SIZE=1024
    )
    return blocks.permute(0, 3, 1, 2)


def blocks_of_weight(weight: Tensor) -> Tensor:
    """A convolution `[out, C, 8, 8]` of stride 4 as one of stride 1 over blocks: `[out, 16·C, 2, 2]`."""
    out, colours, width, height = weight.shape
    parts = weight.view(out, colours, width // BLOCK, BLOCK, height // BLOCK, BLOCK)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(out, -1, width // BLOCK, height // BLOCK)


def linear_of_map(features: Tensor, layer: nn.Linear) -> Tensor:
    """layer(features.flatten(1)) for a map `[U, C, w, h]`"""
    if not fuses(features):
        return host_linear(features.flatten(1), layer.weight, layer.bias)
    # With colours last the map need not be copied; the weights are turned instead.
    weight = layer.weight.unflatten(1, features.shape[1:]).permute(0, 2, 3, 1).flatten(1)
    return linear(features.permute(0, 2, 3, 1).flatten(1), weight, layer.bias)


def conv_relu(inputs: Tensor, weight: Tensor, bias: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
    """F.relu(F.conv2d(inputs, weight, bias, stride, padding))"""
    if not fuses(inputs):
        return F.relu(F.conv2d(inputs, weight, bias, stride, padding))
    return apply(_ConvRelu, inputs, weight, bias, stride, padding)


class _ConvRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
        kernels = kernel_module()
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        result = F.conv2d(inputs, weight, None, stride, padding).contiguous(memory_format=torch.channels_last)
        rows = _pixels(result)
        count, columns = rows.shape
        size = columns_of_a_program(columns)
        kernels.bias_relu[(-(-count // 32), -(-columns // size))](rows, bias, count, columns, ROWS=32, COLUMNS=size)
        ctx.save_for_backward(inputs, weight, result)
        ctx.stride, ctx.padding = stride, padding
        return result

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, result = ctx.saved_tensors
        up = upstream[0].contiguous(memory_format=torch.channels_last)
        down, of_bias = through_relu(_pixels(up), _pixels(result))
        down = down.view(up.shape[0], *up.shape[2:], up.shape[1]).permute(0, 3, 1, 2)
        of_inputs, of_weight, _ = torch.ops.aten.convolution_backward(
            down, inputs, weight, None, [ctx.stride] * 2, [ctx.padding] * 2, [1, 1], False, [0, 0], 1,
            [ctx.needs_input_grad[0], True, False],
        )  # fmt: skip
        return of_inputs, of_weight, of_bias, None, None


def _pixels(images: Tensor) -> Tensor:
    """Images `[U, C, W, H]` in the layout of colours last as rows `[U·W·H, C]`, without copying."""
    return images.permute(0, 2, 3, 1).view(-1, images.shape[1])
