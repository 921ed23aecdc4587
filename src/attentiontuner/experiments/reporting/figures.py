"""Figures from records. Colours of Okabe and Ito, with a line style, marker or hatch besides: readable in grey too."""

import io
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatter
from numpy.typing import NDArray

from attentiontuner.core.wording import counted
from attentiontuner.evaluation.metrics import median_iqr, student_interval
from attentiontuner.experiments.planning.few_demonstrations import MEMORYLESS, RANDOM_PAIRS
from attentiontuner.experiments.planning.recipe import TUNER, VANILLA, Column
from attentiontuner.experiments.planning.recipes import method_titles
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.reporting.tables import Entry, Table, by_line, sizes_of
from attentiontuner.tasks.task import get_task

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#555555",
)


class Style(NamedTuple):
    """How a method looks: colour, line, hatch of bars, marker of points, hollow where a control has that of its
    method."""

    colour: str
    line: Any
    hatch: str
    marker: str
    hollow: bool = False


STYLES = (
    Style(VERMILION, "--", "//", "s"),
    Style(BLUE, (0, (3, 1, 1, 1, 1, 1)), "", "^"),
    Style(GREEN, "-.", "xx", "D"),
    Style(PURPLE, "-", "..", "o"),
    Style(ORANGE, "--", "\\\\", "v", hollow=True),
    Style(ORANGE, "-", "", "v"),
    Style(SKY, "--", "--", "P", hollow=True),
    Style(SKY, "-", "||", "P"),
    Style(GREY, "--", "oo", "X", hollow=True),
    Style(GREY, "-", "++", "X"),
)
"""In the order of the table of methods."""

DPI = 130
TASKS_IN_A_ROW = 3


def style_of(method: str) -> Style:
    """How a method looks."""
    return STYLES[list(method_titles()).index(method) % len(STYLES)]


def to_png(figure: Figure) -> bytes:
    """The figure as PNG bytes, the same for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png", metadata={"Software": None})
    return buffer.getvalue()


# --- learning curves -------------------------------------------------------------------------------------------------


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
    _legend(figure, [method for method in method_titles() if any(record.cell.method == method for record in records)])
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
        _plain(axis)


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


# --- success ---------------------------------------------------------------------------------------------------------

DOTS: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "mfc": "white",
    "mec": "black",
    "ms": 3,
    "mew": 0.6,
    "clip_on": False,
}
"""The seeds behind a bar."""

NO_RECORD = "–"
"""What stands where a bar has no record yet, as in the tables."""


def success_bars(table: Table) -> Figure | None:
    """Bars of a recipe's entries, one panel per task, with 90 % intervals; hollow diamonds are the paper's numbers."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    if not tasks:
        return None
    columns, paper = table.recipe.columns, _with_paper(table)
    figure = Figure(figsize=((0.72 * len(columns) + 1.4) * len(tasks) + 0.4, 3.9), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        for place, column in enumerate(columns):
            _draw_bar(axis, place, table.rows[task][column.title], style_of(column.method), paper)
        axis.set_xticks(range(len(columns)), [_wrap(column.title) for column in columns], fontsize=8)
        axis.set_xlim(-0.6, len(columns) - 0.4)
        axis.set_title(get_task(task).title)
        _success_axis(axis)
    axes[0].set_ylabel("success, %")
    _legend(figure, [column.method for column in columns], bars=True, paper=paper)
    return figure


def success_rows(table: Table) -> Figure | None:
    """Bars of a recipe's entries as rows, for tables of many columns; one panel per task, with 90 % intervals. Columns
    and tasks without any record are left out."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    columns = [each for each in table.recipe.columns if any(table.rows[task][each.title].values for task in tasks)]
    if not columns:
        return None
    figure = Figure(figsize=(3.4 * len(tasks) + 1.8, 0.27 * len(columns) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        for place, column in enumerate(columns):
            entry, style = table.rows[task][column.title], style_of(column.method)
            if not entry.values:
                axis.text(2.5, place, NO_RECORD, va="center", fontsize=7)
            else:
                error = None if math.isnan(entry.half_width) else _clipped(entry)
                axis.barh(
                    place,
                    entry.mean,
                    0.7,
                    color=style.colour,
                    hatch=style.hatch,
                    edgecolor="white",
                    linewidth=0.6,
                    xerr=error,
                )
                if len(entry.values) > 1:
                    axis.plot(entry.values, [place] * len(entry.values), **DOTS)
                seeds = "" if len(entry.values) >= entry.planned else f"  n={len(entry.values)}"
                axis.text(max(entry.values) + 2.5, place, f"{entry.mean:.1f}{seeds}", va="center", fontsize=7)
        axis.set_yticks(range(len(columns)), [column.title for column in columns])
        axis.set_ylim(len(columns) - 0.4, -0.6)
        axis.set_xlim(0, 125)
        axis.set_xticks(range(0, 101, 20))
        _plain(axis, "x")
        axis.set_title(get_task(task).title)
        axis.set_xlabel("success, %")
    _legend(figure, [column.method for column in columns], bars=True)
    return figure


def success_by_task(table: Table) -> Figure | None:
    """Bars of every column beside each other, task by task, with 90 % intervals; diamonds are the paper's numbers."""
    if not table.has_results:
        return None
    columns, paper = table.recipe.columns, _with_paper(table)
    tasks = [
        task
        for task, row in table.rows.items()
        if any(entry.values or (paper and entry.published) for entry in row.values())
    ]
    figure = Figure(figsize=(max(1.6 * len(tasks) + 1.6, 4.2), 3.9), layout="constrained")
    axis = figure.subplots()
    for number, task in enumerate(tasks):
        for place, column in enumerate(columns):
            where = number * (len(columns) + 0.7) + place
            _draw_bar(axis, where, table.rows[task][column.title], style_of(column.method), paper)
    middles = [number * (len(columns) + 0.7) + (len(columns) - 1) / 2 for number in range(len(tasks))]
    axis.set_xticks(middles, [get_task(task).title for task in tasks])
    _success_axis(axis)
    axis.set_ylabel("success, %")
    _legend(figure, [column.method for column in columns], bars=True, paper=paper)
    return figure


def _success_axis(axis: Any) -> None:
    axis.set_ylim(0, 109)
    axis.set_yticks(range(0, 101, 20))
    _plain(axis)


def scaling_lines(table: Table) -> Figure | None:
    """Vanilla success against the size of the training set; the dotted line is AttentionTuner at 1×."""
    vanilla = [column for column in table.recipe.columns if column.method == VANILLA.method]
    tasks = [task for task, row in table.rows.items() if any(row[column.title].values for column in vanilla)]
    if not tasks:
        return None
    figure = Figure(figsize=(3.6 * len(tasks) + 0.6, 3.7), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axis, task in zip(axes, tasks, strict=True):
        row = table.rows[task]
        sizes = {column.condition.demos: row[column.title] for column in vanilla}
        references = [row[column.title] for column in table.recipe.columns if column.method == TUNER.method]
        there = [size for size, entry in sizes.items() if entry.values]
        half = _halves([sizes[size] for size in there])
        means = [sizes[size].mean for size in there]
        colour, line, *_ = style_of(VANILLA.method)
        label = method_titles()[VANILLA.method]
        axis.errorbar(there, means, half, color=colour, linestyle=line, marker="o", capsize=4, label=label)
        if _with_paper(table):
            printed = {size: entry.published.mean for size, entry in sizes.items() if entry.published}
            axis.plot(*zip(*printed.items(), strict=True), "D", mfc="none", mec="black", ms=10, label="paper, vanilla")
        for entry in references:
            if entry.values:
                axis.axhline(entry.mean, color=style_of(TUNER.method).colour, linestyle=":", label=f"{TUNER.title}, 1×")
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(sizes), [f"{size}×" for size in sizes])
        _success_axis(axis)
        axis.set_xlim(min(sizes) / 1.3, max(sizes) * 1.3)
        axis.set_xlabel("demonstrations")
        axis.set_title(get_task(task).title)
        axis.legend(fontsize=7.5, frameon=False, loc="lower right")
    axes[0].set_ylabel("success, %")
    return figure


def longer_lines(table: Table) -> Figure | None:
    """Success against the length of the world, as a multiple of that of the training set; a line per condition."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    if not tasks:
        return None
    figure = Figure(figsize=(3.6 * len(tasks) + 0.6, 3.7), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    names = list(dict.fromkeys(column.condition.name for column in table.recipe.columns))
    looks = dict(zip(names, ((BLUE, "-", "o"), (VERMILION, "--", "s")), strict=False))
    shown: dict[str, Any] = {}
    for axis, task in zip(axes, tasks, strict=True):
        for name, (colour, line, marker) in looks.items():
            entries = {
                column.longer: table.rows[task][column.title]
                for column in table.recipe.columns
                if column.condition.name == name and table.rows[task][column.title].values
            }
            if entries:
                means, half = [entry.mean for entry in entries.values()], _halves(entries.values())
                title = next(c.line for c in table.recipe.columns if c.condition.name == name)
                shown[title] = axis.errorbar(
                    list(entries), means, half, color=colour, linestyle=line, marker=marker, capsize=4
                )
        _success_axis(axis)
        axis.set_xticks([column.longer for column in table.recipe.columns], minor=False)
        axis.set_xlabel("length of the world, training set = 1")
        axis.set_title(get_task(task).title)
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown), frameon=False, fontsize=9)
    axes[0].set_ylabel("success, %")
    return figure


def few_lines(table: Table) -> Figure | None:
    """Success against the number of demonstrations; a panel per task, a line per method through the means over seeds,
    small dots the seeds."""
    tasks = [task for task, row in table.rows.items() if any(entry.values for entry in row.values())]
    if not tasks:
        return None
    columns = min(TASKS_IN_A_ROW, len(tasks))
    figure = Figure(figsize=(3 * columns, 2.6 * math.ceil(len(tasks) / columns) + 0.6), layout="constrained")
    axes = figure.subplots(math.ceil(len(tasks) / columns), columns, squeeze=False, sharex=True, sharey=True)
    shown: dict[str, Any] = {}
    sizes = sizes_of(table)
    for axis, task in zip(axes.flat, tasks, strict=False):
        for line, points in by_line(table).items():
            found = {size: table.rows[task][column.title] for size, column in points.items()}
            found = {size: entry for size, entry in found.items() if entry.values}
            looks = _few_looks(next(iter(points.values())))
            if found:
                (shown[line],) = axis.plot(list(found), [entry.mean for entry in found.values()], **looks)
            for size, entry in found.items():
                dots = {"ms": 2.8, "alpha": 0.6, "mew": 0, "color": looks["color"], "clip_on": False}
                axis.plot([size] * len(entry.values), entry.values, "o", **dots)
        axis.set_xscale("log")
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set_xticks([], minor=True)
        axis.set_xlim(min(sizes) / 1.15, max(sizes) * 1.15)
        axis.set_title(get_task(task).title, fontsize=11)
        _success_axis(axis)
        axis.tick_params(labelbottom=True, labelsize=9)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("success, %")
    for axis in axes[-1]:
        axis.set_xlabel("demonstrations")
    lines = {line: shown[line] for line in by_line(table) if line in shown}
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=columns, frameon=False, fontsize=10)
    return figure


def _few_looks(column: Column) -> dict[str, Any]:
    """A line of the figure: as its method looks; a control of it dotted, thin and hollow."""
    style = style_of(column.method)
    filled = "white" if style.hollow else style.colour
    looks: dict[str, Any] = {"color": style.colour, "marker": style.marker, "mfc": filled, "clip_on": False}
    if column.line in (RANDOM_PAIRS, MEMORYLESS):
        return {**looks, "linestyle": ":", "linewidth": 1.2, "ms": 4.5, "mfc": "white", "alpha": 0.75}
    return {**looks, "linestyle": style.line, "linewidth": 1.9, "ms": 5}


def _draw_bar(axis: Any, place: float, entry: Entry, style: Style, paper: bool) -> None:
    if not entry.values:
        axis.text(place, 1.5, NO_RECORD, ha="center", fontsize=7)
    else:
        axis.bar(place, entry.mean, 0.7, color=style.colour, hatch=style.hatch, edgecolor="white", linewidth=0.6)
        if not math.isnan(entry.half_width):
            axis.errorbar(place, entry.mean, _clipped(entry), color="black", capsize=3, linewidth=1)
        if len(entry.values) > 1:
            axis.plot([place] * len(entry.values), entry.values, **DOTS)
        if len(entry.values) < entry.planned:
            axis.text(place, 104, f"n={len(entry.values)}", ha="center", fontsize=7)
    if paper and entry.published is not None:
        axis.plot(place, entry.published.mean, "D", markerfacecolor="white", markeredgecolor="black", markersize=5)


def _halves(entries: Iterable[Entry]) -> NDArray[np.float64]:
    """The intervals of several entries, within 0 and 100 %; nan, which draws nothing, where there is none."""
    return np.hstack([_clipped(entry) for entry in entries])


def _clipped(entry: Entry) -> list[list[float]]:
    """The interval below and above the mean, within 0 and 100 %."""
    return [[min(entry.half_width, entry.mean)], [min(entry.half_width, max(100 - entry.mean, 0))]]


def _legend(figure: Figure, methods: Sequence[str], bars: bool = False, paper: bool = False) -> None:
    """One legend below everything."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for method in dict.fromkeys(methods):
        colour, line, hatch, *_ = style_of(method)
        if bars:
            handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=method_titles()[method]))
        else:
            handles.append(Line2D([], [], color=colour, linestyle=line, label=method_titles()[method]))
    if paper:
        handles.append(Line2D([], [], label="paper", marker="D", mfc="white", mec="black", linestyle=""))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def _with_paper(table: Table) -> bool:
    """Whether the paper's numbers are drawn: only beside experiments of its own size."""
    return table.scale == "paper" and any(entry.published for row in table.rows.values() for entry in row.values())


def _wrap(title: str) -> str:
    return title.replace(", ", "\n").replace(" over ", "\nover ").replace(" ", "\n", 1 if " %" not in title else 0)


def _plain(axis: Any, grid: str = "y") -> None:
    axis.grid(axis=grid, linewidth=0.4, alpha=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(which="both", labelsize=8)
