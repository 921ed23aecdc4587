"""Figures of success, from records."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attentiontuner.experiments.planning.few_demonstrations import MEMORYLESS, NO_PRODUCTS, RANDOM_PAIRS
from attentiontuner.experiments.planning.recipe import TUNER, VANILLA, Column
from attentiontuner.experiments.planning.recipes import method_titles
from attentiontuner.experiments.reporting.styles import BLUE, TASKS_IN_A_ROW, VERMILION, Style, legend, plain, style_of
from attentiontuner.experiments.reporting.tables import Entry, Table, by_line, sizes_of
from attentiontuner.tasks.task import get_task

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
    tasks = table.played
    if not tasks:
        return None
    columns, paper = table.recipe.columns, _with_paper(table)
    figure, axes = _panels(tasks, (0.72 * len(columns) + 1.4) * len(tasks) + 0.4, 3.9)
    for task, axis in axes.items():
        for place, column in enumerate(columns):
            _draw_bar(axis, place, table.rows[task][column.title], style_of(column.method), paper)
        axis.set_xticks(range(len(columns)), [_wrap(column.title) for column in columns], fontsize=8)
        axis.set_xlim(-0.6, len(columns) - 0.4)
        _success_axis(axis)
    axes[tasks[0]].set_ylabel("success, %")
    legend(figure, [column.method for column in columns], bars=True, paper=paper)
    return figure


def success_rows(table: Table) -> Figure | None:
    """Bars of a recipe's entries as rows, for tables of many columns; one panel per task, with 90 % intervals. Columns
    and tasks without any record are left out."""
    tasks = table.played
    columns = [each for each in table.recipe.columns if any(table.rows[task][each.title].values for task in tasks)]
    if not columns:
        return None
    figure, axes = _panels(tasks, 3.4 * len(tasks) + 1.8, 0.27 * len(columns) + 1.3)
    for task, axis in axes.items():
        for place, column in enumerate(columns):
            _draw_row(axis, place, table.rows[task][column.title], style_of(column.method))
        axis.set_yticks(range(len(columns)), [column.title for column in columns])
        axis.set_ylim(len(columns) - 0.4, -0.6)
        axis.set_xlim(0, 125)
        axis.set_xticks(range(0, 101, 20))
        plain(axis, "x")
        axis.set_xlabel("success, %")
    legend(figure, [column.method for column in columns], bars=True)
    return figure


def success_by_task(table: Table) -> Figure | None:
    """Bars of every column beside each other, task by task, with 90 % intervals; diamonds are the paper's numbers."""
    if not table.played:
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
    legend(figure, [column.method for column in columns], bars=True, paper=paper)
    return figure


def _panels(tasks: Sequence[str], width: float, height: float) -> tuple[Figure, dict[str, Any]]:
    """A row of panels, one for each task, with its title."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = dict(zip(tasks, figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0], strict=True))
    for task, axis in axes.items():
        axis.set_title(get_task(task).title)
    return figure, axes


def _success_axis(axis: Any) -> None:
    axis.set_ylim(0, 109)
    axis.set_yticks(range(0, 101, 20))
    plain(axis)


def scaling_lines(table: Table) -> Figure | None:
    """Vanilla success against the size of the training set; the dotted line is AttentionTuner at 1×."""
    vanilla = [column for column in table.recipe.columns if column.method == VANILLA.method]
    tasks = [task for task, row in table.rows.items() if any(row[column.title].values for column in vanilla)]
    if not tasks:
        return None
    figure, axes = _panels(tasks, 3.6 * len(tasks) + 0.6, 3.7)
    for task, axis in axes.items():
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
        axis.legend(fontsize=7.5, frameon=False, loc="lower right")
    axes[tasks[0]].set_ylabel("success, %")
    return figure


def longer_lines(table: Table) -> Figure | None:
    """Success against the length of the world, as a multiple of that of the training set; a line per condition."""
    tasks = table.played
    if not tasks:
        return None
    figure, axes = _panels(tasks, 3.6 * len(tasks) + 0.6, 3.7)
    names = list(dict.fromkeys(column.condition.name for column in table.recipe.columns))
    looks = dict(zip(names, ((BLUE, "-", "o"), (VERMILION, "--", "s")), strict=False))
    shown: dict[str, Any] = {}
    for task, axis in axes.items():
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
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown), frameon=False, fontsize=9)
    axes[tasks[0]].set_ylabel("success, %")
    return figure


def few_lines(table: Table) -> Figure | None:
    """Success against the number of demonstrations; a panel per task, a line per method through the means over seeds,
    small dots the seeds."""
    tasks = table.played
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
    """A line of the figure: as its method looks; a control of it dotted, thin and hollow, an older network dashed."""
    style = style_of(column.method)
    filled = "white" if style.hollow else style.colour
    looks: dict[str, Any] = {"color": style.colour, "marker": style.marker, "mfc": filled, "clip_on": False}
    thin = {"linewidth": 1.2, "ms": 4.5, "mfc": "white", "alpha": 0.75}
    if column.line in (RANDOM_PAIRS, MEMORYLESS):
        return {**looks, **thin, "linestyle": ":"}
    if column.line.endswith(NO_PRODUCTS):
        return {**looks, **thin, "linestyle": "--"}
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


def _draw_row(axis: Any, place: float, entry: Entry, style: Style) -> None:
    if not entry.values:
        axis.text(2.5, place, NO_RECORD, va="center", fontsize=7)
        return
    error = None if math.isnan(entry.half_width) else _clipped(entry)
    looks = {"color": style.colour, "hatch": style.hatch, "edgecolor": "white", "linewidth": 0.6}
    axis.barh(place, entry.mean, 0.7, xerr=error, **looks)
    if len(entry.values) > 1:
        axis.plot(entry.values, [place] * len(entry.values), **DOTS)
    seeds = "" if len(entry.values) >= entry.planned else f"  n={len(entry.values)}"
    axis.text(max(entry.values) + 2.5, place, f"{entry.mean:.1f}{seeds}", va="center", fontsize=7)


def _halves(entries: Iterable[Entry]) -> NDArray[np.float64]:
    """The intervals of several entries, within 0 and 100 %; nan, which draws nothing, where there is none."""
    return np.hstack([_clipped(entry) for entry in entries])


def _clipped(entry: Entry) -> list[list[float]]:
    """The interval below and above the mean, within 0 and 100 %."""
    return [[min(entry.half_width, entry.mean)], [min(entry.half_width, max(100 - entry.mean, 0))]]


def _with_paper(table: Table) -> bool:
    """Whether the paper's numbers are drawn: only beside experiments of its own size."""
    return table.scale == "paper" and any(entry.published for row in table.rows.values() for entry in row.values())


def _wrap(title: str) -> str:
    return title.replace(", ", "\n").replace(" over ", "\nover ").replace(" ", "\n", 1 if " %" not in title else 0)
