"""The figures of a memory report, for light pages and for dark ones."""

import io
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attentiontuner.insight.evidence import Evidence
from attentiontuner.insight.findings import Findings

BINS = 20
"""Parts of an episode that are told apart along it."""

LINES = (
    ("without a memory", "#D55E00", "--"),
    ("with the frames found", "#0072B2", "-"),
    ("whole past", "#009E73", ":"),
)
"""Colours of Okabe and Ito, and a line style each."""

LIGHT, DARK = ("#1b1b1f", "#d9d9df"), ("#e8e8ec", "#3c3c44")
"""Ink and lines."""


def to_png(figure: Figure, dark: bool) -> bytes:
    """The figure as PNG bytes on no background, in the colours of a light or a dark page."""
    ink, line = DARK if dark else LIGHT
    for axes in figure.axes:
        axes.set_facecolor("none")
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts):
            text.set_color(ink)
        axes.tick_params(colors=ink)
        axes.grid(axis="y", color=line, linewidth=0.6)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(ink)
    for legend in figure.legends:
        for text in legend.get_texts():
            text.set_color(ink)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, format="png", transparent=True, metadata={"Software": None})
    return buffer.getvalue()


def along_the_episode(evidence: Evidence) -> Figure:
    """The mean of what is `shown` of a step along an episode, in those parts of it that have steps: without a memory,
    with the frames found, with the whole past. Where actions are numbers, their error without a memory."""
    part = BINS * evidence.time // np.repeat(evidence.lengths, evidence.lengths)
    count = np.bincount(part, minlength=BINS)
    there = np.flatnonzero(count)  # of episodes shorter than that some parts have no step
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.subplots()
    lines = list(zip(LINES, evidence.shown, strict=True))
    for (label, colour, style), values in lines[:1] if evidence.numbers else lines:
        means = (np.bincount(part, values, minlength=BINS) / count.clip(1))[there]
        axes.plot((there + 0.5) * 100 / BINS, means, color=colour, linestyle=style, label=label, linewidth=2)
    what = "error (the actions' units)" if evidence.numbers else "surprise a step (nats)"
    axes.set(xlabel="how far into the episode, %", ylabel=what, xlim=(0, 100))
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def gains(findings: Findings) -> Figure:
    """What is gained an episode, with two standard errors, beside all surprise there is without a memory; where actions
    are numbers there is no such thing."""
    figure = Figure(figsize=(7.2, 1.5 if findings.numbers else 1.9), layout="constrained")
    axes = figure.subplots()
    rows = (
        (findings.surprise, 0.0),
        (findings.frames.mean, findings.frames.error),
        (findings.past.mean, findings.past.error),
    )
    bars = list(zip(LINES, rows, strict=True))[findings.numbers :]
    for place, ((_, colour, _), (value, error)) in enumerate(bars):
        axes.barh(place, value, 0.6, color=colour, xerr=2 * error if error else None, ecolor="#888888", capsize=3)
        axes.text(max(value + 2 * error, 0), place, f"  {value:.2f}", va="center", fontsize=9)
    names = [
        "all there is to gain\n(surprise without a memory)",
        "gained by the frames found",
        "gained by the whole past",
    ]
    axes.set_yticks(range(len(bars)), names[findings.numbers :], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("nats a demonstration")
    axes.margins(x=0.12)
    return figure


def how_far_back(findings: Findings) -> Figure:
    """How many steps back pairs go, and which steps they recall."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _histogram(left, findings.distances, "steps back")
    _histogram(right, findings.recalled_steps, "recalled step, from the start")
    left.set_ylabel("pairs")
    return figure


def _histogram(axes: Any, values: Any, label: str) -> None:
    low, high = int(values.min(initial=0)), int(values.max(initial=1))
    width = max(1, -(-(high - low + 1) // 30))
    axes.hist(values, np.arange(low, high + width + 1, width) - 0.5, color=LINES[1][1], rwidth=0.85)
    axes.set_xlabel(label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
