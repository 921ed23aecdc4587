"""Learning curves of several runs as one: their middle, and how far they lie apart."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatter

from attentiontuner.core.wording import counted
from attentiontuner.evaluation.metrics import median_iqr, student_interval
from attentiontuner.experiments.planning.recipes import method_titles
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.reporting.styles import TASKS_IN_A_ROW, legend, plain, style_of
from attentiontuner.tasks.task import get_task


def learning_curves(records: Sequence[Record], tasks: Sequence[str], spread: str) -> Figure | None:
    """Training loss above, test accuracy (of actions that are numbers their error) below, one column per task, a line
    per method.

    `spread` is `median` (with the interquartile range) or `mean` (with the 90 % interval). None without records.
    """
    tasks = [task for task in tasks if any(record.cell.task == task for record in records)]
    if not tasks:
        return None
    columns = min(TASKS_IN_A_ROW, len(tasks))
    bands = math.ceil(len(tasks) / columns)
    figure = Figure(figsize=(3.3 * columns + 0.9, 4.6 * bands + 0.5), layout="constrained")
    axes = figure.subplots(2 * bands, columns, squeeze=False)
    for number, task in enumerate(tasks):
        band, column = divmod(number, columns)
        _draw_task(axes[2 * band, column], axes[2 * band + 1, column], records, task, spread)
    for row in range(0, 2 * bands, 2):
        axes[row, 0].set_ylabel("training loss (imitation)")
        axes[row + 1, 0].set_ylabel(axes[row + 1, 0].get_ylabel() or "test accuracy (actions), %")
    for axis in axes.flat:
        axis.set_visible(bool(axis.lines))
    legend(figure, [method for method in method_titles() if any(record.cell.method == method for record in records)])
    return figure


def _draw_task(above: Any, below: Any, records: Sequence[Record], task: str, spread: str) -> None:
    counts = {}
    numbers = any(record.cell.task == task and "test_error" in record.curves for record in records)
    measure = "test_error" if numbers else "test_accuracy"
    for method in method_titles():
        chosen = [record for record in records if (record.cell.task, record.cell.method) == (task, method)]
        if chosen:
            _draw_curves(above, chosen, "imitation_loss", method, spread)
            _draw_curves(below, chosen, measure, method, spread)
            counts[method_titles()[method]] = len(chosen)
    above.set_title(f"{get_task(task).title}\n", fontsize=11)
    seeds = "seeds: " + ", ".join(f"{title} {count}" for title, count in counts.items())
    if len(set(counts.values())) == 1:
        seeds = counted(max(counts.values()), "seed") + (" each" if len(counts) > 1 else "")
    above.text(0.5, 1.03, seeds, transform=above.transAxes, ha="center", fontsize=7.5)
    if numbers:  # whose loss, that of a density, may be below 0
        below.set_ylabel("test error of actions")
    else:
        above.set_yscale("log")
        above.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        above.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    below.set_xlabel("epoch", fontsize=8)
    for axis in (above, below):
        plain(axis)


def _draw_curves(axis: Any, records: Sequence[Record], metric: str, method: str, spread: str) -> None:
    having = [record for record in records if metric in record.curves]
    if not having:
        return
    curves = [record.curves[metric] for record in having]
    epochs = min(len(curve) for curve in curves)
    scale = 100.0 if metric == "test_accuracy" else 1.0
    values = scale * np.array([[math.nan if v is None else v for v in curve[:epochs]] for curve in curves])
    colour, line, *_ = style_of(method)
    if spread == "median":
        middle, low, high = median_iqr(values)
    else:
        middle = values.mean(0)
        half = np.array([student_interval(column) for column in values.T]) if len(values) > 1 else np.zeros(epochs)
        low, high = middle - half, middle + half
        if metric == "imitation_loss" and values.min() > 0:  # and its axis logarithmic
            low = np.maximum(low, values.min() / 2)
        elif metric == "test_accuracy":
            low, high = np.maximum(low, 0), np.minimum(high, 100)
    x = having[0].curve_epochs[:epochs]
    axis.plot(x, middle, color=colour, linestyle=line, linewidth=1.6, marker="o" if epochs == 1 else None)
    axis.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
