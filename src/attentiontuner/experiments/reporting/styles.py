"""How figures look. Colours of Okabe and Ito, with a line style, marker or hatch besides: readable in grey too."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from attentiontuner.experiments.planning.recipes import method_titles

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


def legend(figure: Figure, methods: Sequence[str], bars: bool = False, paper: bool = False) -> None:
    """One legend below everything."""
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


def plain(axis: Any, grid: str = "y") -> None:
    """Thin lines behind what is drawn, and no box around it."""
    axis.grid(axis=grid, linewidth=0.4, alpha=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(which="both", labelsize=8)
