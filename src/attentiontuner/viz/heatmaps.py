"""Pictures of what the heads attend to: every head of a model beside the expert's matrix E, on one demonstration.

00300.png           all heads, layers downwards, and E
00300.safetensors   `attention` uint8 [layers, heads, n, n] (255 is 1), `expert` uint8 [n, n]
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from attentiontuner.core.files import write_bytes


def write_heatmaps(path: Path, attention: NDArray[np.float32], expert: NDArray[np.float32] | None, title: str) -> None:
    """Draw `[layers, heads, n, n]` weights beside E `[n, n]` into the PNG `path`, with the numbers beside it."""
    arrays = {"attention": attention} | ({} if expert is None else {"expert": expert})
    numbers = {name: np.rint(255 * array).astype(np.uint8) for name, array in arrays.items()}
    write_bytes(path.with_suffix(".safetensors"), save(numbers))
    write_bytes(path, draw(attention, expert, title))


def draw(attention: NDArray[np.float32], expert: NDArray[np.float32] | None, title: str) -> bytes:
    """A PNG: one panel per head, one row per layer, and the expert's matrix on the right."""
    from matplotlib.figure import Figure

    layers, heads = attention.shape[:2]
    columns = heads + (expert is not None)
    figure = Figure(figsize=(2.6 * columns + 0.6, 2.6 * layers + 0.8), layout="constrained")
    axes = figure.subplots(layers, columns, squeeze=False)
    picture: Any = None
    for layer in range(layers):
        for head in range(heads):
            # The square root lets weights of a few per cent be seen beside those near one.
            picture = axes[layer, head].imshow(np.sqrt(attention[layer, head]), vmin=0, vmax=1, cmap="viridis")
            axes[layer, head].set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
        if expert is not None:
            axes[layer, -1].axis("off")
    if expert is not None:
        axes[0, -1].axis("on")
        axes[0, -1].imshow(expert, vmin=0, vmax=1, cmap="viridis")
        axes[0, -1].set_title("expert (E)", fontsize=9)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    axes[-1, 0].set_xlabel("token attended to", fontsize=8)
    axes[-1, 0].set_ylabel("token", fontsize=8)
    bar = figure.colorbar(picture, ax=axes, shrink=0.6, ticks=np.sqrt([0, 0.01, 0.1, 0.5, 1]))
    bar.ax.set_yticklabels(["0", "0.01", "0.1", "0.5", "1"], fontsize=7)
    figure.suptitle(title, fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    return buffer.getvalue()
