"""Figures from records. Colours of Okabe and Ito, with a line style, marker or hatch besides: readable in grey too."""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from attentiontuner.evaluation.metrics import median_iqr, student_interval
from attentiontuner.experiments.recipes import METHODS
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.tables import Entry, Table
from attentiontuner.tasks import get_task

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#555555",
)
STYLES = {"vanilla": (VERMILION, "--", "//"), "attentiontuner": (BLUE, "-", "")}
"""method → colour, line, hatch."""

MORE_STYLES = ((GREEN, "-.", "xx"), (PURPLE, ":", ".."))
DPI = 130


def style_of(method: str) -> tuple[str, str, str]:
    """Colour, line style and hatch of a method; methods added later take the next free one."""
    later = [name for name in METHODS if name not in STYLES]
    return STYLES[method] if method in STYLES else MORE_STYLES[later.index(method) % len(MORE_STYLES)]


def to_png(figure: Figure) -> bytes:
    """The figure as PNG bytes, the same for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png", metadata={"Software": None})
    return buffer.getvalue()


# --- learning curves -------------------------------------------------------------------------------------------------


def learning_curves(records: Sequence[Record], tasks: Sequence[str], spread: str) -> Figure | None:
    """Training loss above, test accuracy below, one column per task.

    `spread` is `median` (with the interquartile range) or `mean` (with the 90 % interval). None where no task has
    records of the standard experiment.
    """
    standard = [record for record in records if record.cell.condition == "standard"]
    tasks = [task for task in tasks if any(record.cell.task == task for record in standard)]
    if not tasks:
        return None
    figure = Figure(figsize=(max(2.9 * len(tasks), 4.2) + 0.6, 5.4), layout="constrained")
    axes = figure.subplots(2, len(tasks), squeeze=False, sharex="col")
    for column, task in enumerate(tasks):
        for method in METHODS:
            chosen = [record for record in standard if (record.cell.task, record.cell.method) == (task, method)]
            if chosen:
                _draw_curves(axes[0, column], chosen, "imitation_loss", method, spread)
                _draw_curves(axes[1, column], chosen, "test_accuracy", method, spread)
        axes[0, column].set_title(get_task(task).title)
        axes[0, column].set_yscale("log")
        axes[0, column].legend(fontsize=7.5, frameon=False)
        axes[1, column].set_xlabel("epoch")
        for axis in axes[:, column]:
            _plain(axis)
    axes[0, 0].set_ylabel("training loss (imitation)")
    axes[1, 0].set_ylabel("test accuracy (actions), %")
    what = "Median and interquartile range" if spread == "median" else "Mean and 90 % interval"
    figure.suptitle(f"{what} over seeds", fontsize=10)
    return figure


def _draw_curves(axis: Any, records: Sequence[Record], metric: str, method: str, spread: str) -> None:
    curves = [record.curves[metric] for record in records if metric in record.curves]
    if not curves:
        return
    epochs = min(len(curve) for curve in curves)
    scale = 100.0 if metric == "test_accuracy" else 1.0
    values = scale * np.array([[math.nan if v is None else v for v in curve[:epochs]] for curve in curves])
    colour, line, _ = style_of(method)
    if spread == "median":
        middle, low, high = median_iqr(values)
    else:
        middle = values.mean(0)
        half = np.array([student_interval(column) for column in values.T]) if len(values) > 1 else np.zeros(epochs)
        low, high = middle - half, middle + half
        if metric == "imitation_loss":  # a loss is positive, and its axis logarithmic
            low = np.maximum(low, values.min() / 2)
        else:
            low, high = np.maximum(low, 0), np.minimum(high, 100)
    x = np.arange(1, epochs + 1)
    label = f"{METHODS[method]}, {len(curves)} seed{'s' if len(curves) > 1 else ''}"
    axis.plot(x, middle, color=colour, linestyle=line, linewidth=1.6, label=label)
    axis.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)


# --- success ---------------------------------------------------------------------------------------------------------


def success_bars(table: Table) -> Figure | None:
    """Bars of a recipe's entries, one panel per task, with 90 % intervals; hollow diamonds are the paper's numbers."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    if not tasks:
        return None
    columns = table.recipe.columns
    figure = Figure(figsize=((0.72 * len(columns) + 1.4) * len(tasks) + 0.4, 3.9), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        for place, column in enumerate(columns):
            colour, _, hatch = style_of(column.method)
            _draw_bar(axis, place, table.rows[task][column.title], colour, hatch)
        axis.set_xticks(range(len(columns)), [_wrap(column.title) for column in columns], fontsize=8)
        axis.set_xlim(-0.6, len(columns) - 0.4)
        axis.set_ylim(0, 109)
        axis.set_yticks(range(0, 101, 20))
        axis.set_title(get_task(task).title)
        _plain(axis)
    axes[0].set_ylabel("success, %")
    _legend(figure, columns_methods=[column.method for column in columns], paper=_any_paper(table, tasks))
    return figure


def scaling_lines(table: Table) -> Figure | None:
    """Vanilla success against the size of the training set; the dotted line is AttentionTuner at 1×."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    if not tasks:
        return None
    figure = Figure(figsize=(3.6 * len(tasks) + 0.6, 3.7), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        row = table.rows[task]
        sizes = {
            column.condition.demos: row[column.title] for column in table.recipe.columns if column.method == "vanilla"
        }
        reference = next(row[column.title] for column in table.recipe.columns if column.method == "attentiontuner")
        there = [size for size, entry in sizes.items() if entry.values]
        half = [0.0 if math.isnan(sizes[size].half_width) else sizes[size].half_width for size in there]
        means = [sizes[size].mean for size in there]
        colour, line, _ = style_of("vanilla")
        axis.errorbar(there, means, half, color=colour, linestyle=line, marker="o", capsize=4, label=METHODS["vanilla"])
        printed = [size for size, entry in sizes.items() if entry.published]
        heights = [entry.published.mean for entry in sizes.values() if entry.published]
        axis.plot(printed, heights, "D", markerfacecolor="none", markeredgecolor="black", label="paper, vanilla")
        if reference.values:
            axis.axhline(reference.mean, color=style_of("attentiontuner")[0], linestyle=":", label="AttentionTuner, 1×")
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(sizes), [f"{size}×" for size in sizes])
        axis.set_ylim(0, 105)
        axis.set_xlabel("demonstrations")
        axis.set_title(get_task(task).title)
        axis.legend(fontsize=7.5, frameon=False, loc="lower right")
        _plain(axis)
    axes[0].set_ylabel("success, %")
    return figure


def _draw_bar(axis: Any, place: float, entry: Entry, colour: str, hatch: str) -> None:
    if entry.values:
        axis.bar(place, entry.mean, 0.7, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
        if not math.isnan(entry.half_width):
            low, high = min(entry.half_width, entry.mean), min(entry.half_width, max(100 - entry.mean, 0))
            axis.errorbar(place, entry.mean, [[low], [high]], color="black", capsize=3, linewidth=1)
        if len(entry.values) < entry.planned:
            axis.text(place, 2, f"n={len(entry.values)}", ha="center", fontsize=7, color="black", bbox=_LABEL)
    if entry.published is not None:
        axis.plot(place, entry.published.mean, "D", markerfacecolor="white", markeredgecolor="black", markersize=5)


_LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


def _legend(figure: Figure, columns_methods: Sequence[str], paper: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for method in dict.fromkeys(columns_methods):
        colour, _, hatch = style_of(method)
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=METHODS[method]))
    if paper:
        handles.append(
            Line2D([], [], label="paper", marker="D", markerfacecolor="white", markeredgecolor="black", linestyle="")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)


def _any_paper(table: Table, tasks: Sequence[str]) -> bool:
    return any(entry.published for task in tasks for entry in table.rows[task].values())


def _wrap(title: str) -> str:
    return title.replace(", ", "\n").replace(" over ", "\nover ").replace(" ", "\n", 1 if " %" not in title else 0)


def _plain(axis: Any) -> None:
    axis.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
