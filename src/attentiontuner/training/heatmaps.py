"""Pictures of what the heads attend to: every head of a model beside the expert's matrix E, on one demonstration.

RUN/heatmaps/00300.png           all heads, layers downwards, and E
RUN/heatmaps/00300.safetensors   `attention` uint8 [layers, heads, n, n] (255 is 1), `expert` uint8 [n, n]
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import nn

from attentiontuner.data.batches import DemoData
from attentiontuner.data.tokens import TOKENS_PER_STEP, expert_matrix
from attentiontuner.files import write_bytes

FOLDER = "heatmaps"


def write_heatmaps(
    run: Path, epoch: int, model: nn.Module, data: DemoData, attend_self: bool = True, row: int = 0
) -> Path:
    """Draw all heads on demonstration `row` of `data`, whose pairs give E; the path of the picture."""
    attention = all_attention(model, data, row)
    pairs = data.packed.pairs[data.packed.pairs[:, 0] == row][:, 1:]
    steps = int(data.lengths[row])
    expert = expert_beside(attention, pairs, steps, attend_self) if data.annotated[row] else None
    arrays = {"attention": np.rint(255 * attention).astype(np.uint8)}
    if expert is not None:
        arrays["expert"] = np.rint(255 * expert).astype(np.uint8)
    path = run / FOLDER / f"{epoch:05d}.png"
    write_bytes(path.with_suffix(".safetensors"), save(arrays))
    episode = int(data.packed.episodes[row])
    write_bytes(path, draw(attention, expert, f"Attention after epoch {epoch}, demonstration {episode}"))
    return path


def all_attention(model: nn.Module, data: DemoData, row: int) -> NDArray[np.float32]:
    """What the heads look at on one demonstration, `[layers, heads, n, n]`; see the model's `attention`."""
    training = model.training
    model.eval()
    with torch.no_grad():
        network: Any = model
        maps: NDArray[np.float32] = network.attention(data.batch(np.array([row])))[:, :, 0].float().cpu().numpy()
    model.train(training)
    return maps


def expert_beside(
    attention: NDArray[np.float32], pairs: NDArray[np.int64], steps: int, attend_self: bool
) -> NDArray[np.float32]:
    """E over what the attention is over: tokens, or timesteps for a model whose tokens are steps."""
    expert = expert_matrix(pairs, steps, attend_self)
    return expert if attention.shape[-1] == len(expert) else expert[::TOKENS_PER_STEP, ::TOKENS_PER_STEP]


def draw(attention: NDArray[np.float32], expert: NDArray[np.float32] | None, title: str) -> bytes:
    """A PNG: one panel per head, one row per layer, and the expert's matrix on the right."""
    import io

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
