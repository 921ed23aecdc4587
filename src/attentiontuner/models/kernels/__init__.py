"""What a GPU computes in one pass over memory instead of many, and a CPU with all of its width: the one place that the
rest imports them from.

Each function is a line of PyTorch, given in its docstring; where a kernel can take its place it does. `fused` and
`images` launch the kernels, which are in `programs`, in Triton, and imported when first needed; `products` are a CPU's.
"""

from attentiontuner.models.kernels.fused import (
    LARGEST_HEAD,
    embed_norm,
    feed_forward_add_norm,
    fuses,
    linear,
    linear_add_norm,
    memory_sum,
    sinusoids,
    why_no_kernels,
)
from attentiontuner.models.kernels.images import BLOCK, blocks_of_weight, conv_relu, image_blocks, linear_of_map
from attentiontuner.models.kernels.products import product

__all__ = [
    "BLOCK",
    "LARGEST_HEAD",
    "blocks_of_weight",
    "conv_relu",
    "embed_norm",
    "feed_forward_add_norm",
    "fuses",
    "image_blocks",
    "linear",
    "linear_add_norm",
    "linear_of_map",
    "memory_sum",
    "product",
    "sinusoids",
    "why_no_kernels",
]
