"""Pictures of memory: what the experts recall, and what every head of a trained model attends to."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attentiontuner.collecting.episode import record_episode
from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import demonstration_seed
from attentiontuner.data.tokens import expert_matrix, head_of
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.experiments.records import Record, decode_map
from attentiontuner.experiments.reporting.styles import ORANGE
from attentiontuner.tasks.task import get_task

PANEL, GAP, MARGIN = 2.1, 0.25, 0.35
"""Inches: a panel with its labels, the space between methods, and around everything."""

EXPERT_DATA_SEED = 1
"""The demonstrations drawn are the first ones of the test set."""


def matrices_by_task(tasks: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """E of one episode of each task by its title, played now; tasks whose package is missing are left out."""
    matrices = {}
    for name in tasks:
        task = get_task(name)
        try:
            env = task.make_env()
        except UserError:
            continue
        try:
            episode = record_episode(task, env, demonstration_seed(EXPERT_DATA_SEED, 0))
        finally:
            env.close()
        matrices[task.title] = expert_matrix(episode.pairs[EXPERT], len(episode.demonstration))
    return matrices


def split_matrices(matrix: NDArray[Any], heads: int) -> dict[str, NDArray[Any]]:
    """One expert matrix per head when each row's ones are split over `heads` heads."""
    row, column = np.nonzero(matrix)
    owner = head_of(column, row, heads)
    parts = {}
    for head in range(heads):
        part = np.zeros_like(matrix)
        part[row[owner == head], column[owner == head]] = 1
        parts[f"head {head + 1}"] = part
    return parts


def expert_heatmaps(matrices: Mapping[str, NDArray[Any]], columns: int = 3) -> Figure:
    """The expert's E by title, each over the tokens of one demonstration."""
    columns = min(columns, len(matrices))
    rows = math.ceil(len(matrices) / columns)
    figure = Figure(figsize=(3.3 * columns, 3.4 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.set_visible(False)
    for axis, (title, matrix) in zip(axes, matrices.items(), strict=False):
        axis.set_visible(True)
        _heatmap(axis, np.asarray(matrix, float), len(matrix))
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("token recalled", fontsize=8)
        axis.set_ylabel("token", fontsize=8)
    return figure


def learned_heatmaps(records: Mapping[str, Record]) -> Figure:
    """All heads of one run per method (title → record), layers downwards, methods side by side, and the expert's E."""
    shapes = {title: _head_grid(record) for title, record in records.items()}
    layers = max(layers for layers, _ in shapes.values())
    columns = 1 + sum(heads for _, heads in shapes.values())
    size = (columns * PANEL + len(records) * GAP + MARGIN, layers * PANEL + 2 * MARGIN)
    figure = Figure(figsize=size)

    def panel(layer: int, left: float) -> Any:
        side, bottom = 0.79 * PANEL, size[1] - 1.3 * MARGIN - (layer + 1) * PANEL + 0.1 * PANEL
        return figure.add_axes((left / size[0], bottom / size[1], side / size[0], side / size[1]))

    first = next(iter(records.values())).attention
    tokens = 2 * int(first["steps"])
    axis = panel(0, MARGIN)
    _stored_heatmap(axis, first["expert"], tokens)
    axis.set_title("expert (E)", fontsize=7.5)
    left = MARGIN + PANEL + GAP
    for title, record in records.items():
        width = shapes[title][1] * PANEL
        figure.text((left + 0.4 * width) / size[0], 1 - 0.2 / size[1], title, ha="center", va="center", fontsize=11)
        for name, value in record.attention["heads"].items():
            layer, head = (int(number) - 1 for number in name.split(":"))
            axis = panel(layer, left + head * PANEL)
            _stored_heatmap(axis, value, 2 * int(record.attention["steps"]))
            supervised = name in record.attention["supervised"]
            axis.set_title(f"layer {layer + 1}, head {head + 1}{' (memory loss)' if supervised else ''}", fontsize=7.5)
            for spine in axis.spines.values():
                spine.set(color=ORANGE if supervised else "black", linewidth=2.2 if supervised else 0.6)
        left += width + GAP
    return figure


def _head_grid(record: Record) -> tuple[int, int]:
    places = [tuple(int(number) for number in name.split(":")) for name in record.attention["heads"]]
    return max(layer for layer, _ in places), max(head for _, head in places)


def _stored_heatmap(axis: Any, value: Mapping[str, Any], most_tokens: int) -> None:
    """A map of a record. Models with one token a step have half as many as `most_tokens`."""
    _heatmap(axis, decode_map(value) / 255.0, min(most_tokens, int(value["side"]) * int(value["block"])))


def _heatmap(axis: Any, weights: NDArray[Any], tokens: int) -> None:
    """Weights in [0, 1] over `tokens` tokens; the square root makes small ones visible beside large ones."""
    axis.imshow(np.sqrt(weights), vmin=0, vmax=1, cmap="Blues", interpolation="nearest", extent=(0, tokens, tokens, 0))
    axis.tick_params(labelsize=6)
