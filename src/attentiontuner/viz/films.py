"""Recall films: beside the present, the past that the policy attends to and what the expert recalls there.

A film is a GIF. Left the present observation and the action; right one row per supervised head with the past
observations it attends to most, and a row with those the expert recalls; below a timeline of all weights, and actions
and vectors that are numbers as curves along it.
Green: policy and expert agree. Orange: only one of them.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw

from attentiontuner.core.files import write_bytes
from attentiontuner.viz.curves import LINE_COLOURS, Curves, curves_of
from attentiontuner.viz.pictures import draw_observations, font_of, parts_drawn
from attentiontuner.viz.recorded import RecordedEpisode

if TYPE_CHECKING:  # pictures need no torch
    from attentiontuner.models.heads import Head

PAPER, INK, FAINT, LINE = "#ffffff", "#1c1f26", "#7a808c", "#e3e6ea"
AGREE, DIFFER = "#1b8a4b", "#d9730d"
HEAD_COLOURS = ("#3b5bdb", "#9c36b5", "#0c8599", "#c2255c")

MARGIN, WIDTH, HEADER = 28, 920, 64
NOW_SIDE = 280
PAST_LEFT = MARGIN + NOW_SIDE + 44
GAP = 26
TIMELINE, CURVES = 132, 58

QUICK, SLOW, STILL = 140, 700, 2200
"""Milliseconds a step is shown: ordinary ones, those at which something is recalled, the first and the last."""

MOST_FRAMES = 160

LONG_NAME = 22
"""Letters of an action's name that there is room for; the numbers of an arm are many."""


def save_film(
    recalled: RecordedEpisode, path: Path, supervised: bool = True, counts: bool = False, whole: bool = False
) -> None:
    """Write the film of one episode. `counts`: weights say how many things are recalled, and need not add up to 1;
    `whole`: the network reads each as a whole number."""
    steps = _steps_shown(recalled)
    stage = _Stage(recalled, supervised, counts, whole)
    pictures = [stage.draw(step) for step in steps]
    palette = _shared_palette(pictures)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [_duration(recalled, step) for step in steps]
    buffer = io.BytesIO()
    frames[0].save(
        buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True, disposal=1
    )
    write_bytes(path, buffer.getvalue())


def _steps_shown(recalled: RecordedEpisode) -> list[int]:
    """Every step; of a long episode all that recall something, and as many others as there is room for."""
    length = len(recalled)
    if length <= MOST_FRAMES:
        return list(range(length))
    special = [step for step in range(length) if _recalls(recalled, step)]
    others = sorted(set(range(length)) - set(special))
    if len(special) > MOST_FRAMES // 2:
        special = special[:: -(-2 * len(special) // MOST_FRAMES)]
    others = others[:: max(1, -(-len(others) // (MOST_FRAMES - len(special))))]
    return sorted({0, *special, *others, length - 1})


def _recalls(recalled: RecordedEpisode, step: int) -> bool:
    """Whether the expert recalls something here that it did not recall a step before."""
    before = recalled.expert_recalls(step - 1) if step else []
    return bool(set(recalled.expert_recalls(step)) - set(before))


def _duration(recalled: RecordedEpisode, step: int) -> int:
    if step in (0, len(recalled) - 1):
        return STILL
    return SLOW if _recalls(recalled, step) else QUICK


def _shared_palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """One palette for the whole film, so that what does not change between frames costs nothing: ours, then theirs."""
    chosen = [pictures[index] for index in np.unique(np.linspace(0, len(pictures) - 1, 16).round().astype(int))]
    together = Image.new("RGB", (WIDTH, sum(picture.height for picture in chosen)))
    for number, picture in enumerate(chosen):
        together.paste(picture, (0, number * picture.height))
    found = np.array(together.quantize(colors=112, method=Image.Quantize.MEDIANCUT).getpalette()).reshape(-1, 3)
    own = np.array(
        [ImageColor.getrgb(name) for name in (PAPER, INK, FAINT, LINE, AGREE, DIFFER, *HEAD_COLOURS, *LINE_COLOURS)]
    )
    # A found colour next to one of ours would be taken in its place.
    apart = np.abs(found[:, None] - own).max(-1).min(1) >= 12
    palette = Image.new("P", (1, 1))
    palette.putpalette([int(part) for part in np.concatenate([own, found[apart]]).flat])
    return palette


def _short(name: str) -> str:
    return name if len(name) <= LONG_NAME else f"{name[:LONG_NAME]}…"


class _Stage:
    """Draws one step after the other on the same layout."""

    def __init__(self, recalled: RecordedEpisode, supervised: bool, counts: bool = False, whole: bool = False) -> None:
        self.recalled, self.supervised, self.counts, self.whole = recalled, supervised, counts, whole
        self.heads = tuple(recalled.weights)
        rows = len(self.heads) + 1
        self.thumbnail = 100 if rows <= 2 else 88 if rows == 3 else 64
        self.thumbnails = (WIDTH - MARGIN - PAST_LEFT + GAP) // (self.thumbnail + GAP)
        self.row_height = self.thumbnail + 66
        body = max(NOW_SIDE + 84, rows * self.row_height)
        self.timeline_top = HEADER + body + 8
        spec = recalled.task.observation
        self.curves = curves_of(spec, recalled.task.actions, recalled.observations, recalled.actions)
        self.height = self.timeline_top + TIMELINE + CURVES * len(self.curves)
        self.large = draw_observations(spec, recalled.observations, tile=NOW_SIDE // 7, bars=False)
        named = len(parts_drawn(spec, bars=False)) > 1  # letters cannot be read where pixels are left out
        self.enlarged = Image.Resampling.LANCZOS if named else Image.Resampling.NEAREST
        small = draw_observations(spec, recalled.observations, tile=16, bars=False)
        self.small = [Image.fromarray(frame) for frame in small]

    def draw(self, step: int) -> Image.Image:
        picture = Image.new("RGB", (WIDTH, self.height), PAPER)
        pen = ImageDraw.Draw(picture)
        self._header(pen)
        self._now(picture, pen, step)
        top = HEADER
        for number, head in enumerate(self.heads):
            self._head_row(picture, pen, step, head, HEAD_COLOURS[number], top)
            top += self.row_height
        self._expert_row(picture, pen, step, top)
        self._timeline(pen, step)
        for number, curves in enumerate(self.curves):
            self._draw_curves(pen, curves, step, self.timeline_top + TIMELINE + number * CURVES)
        return picture

    def _header(self, pen: Any) -> None:
        recalled = self.recalled
        pen.text((MARGIN, 18), recalled.task.title, INK, font_of(24, bold=True))
        right = f"episode {recalled.episode}  ·  seed {recalled.seed}  ·  "
        outcome, colour = ("solved", AGREE) if recalled.success else ("not solved", DIFFER)
        end = WIDTH - MARGIN - pen.textlength(outcome, font_of(15, bold=True))
        pen.text((end, 25), outcome, colour, font_of(15, bold=True))
        pen.text((end - pen.textlength(right, font_of(15)), 25), right, FAINT, font_of(15))
        pen.line((MARGIN, HEADER - 8, WIDTH - MARGIN, HEADER - 8), LINE)

    def _now(self, picture: Image.Image, pen: Any, step: int) -> None:
        recalled, top = self.recalled, HEADER + 30
        pen.text((MARGIN, HEADER + 4), f"step {step}", INK, font_of(16, bold=True))
        of = f"of {len(recalled)}"
        pen.text((MARGIN + NOW_SIDE - pen.textlength(of, font_of(14)), HEADER + 6), of, FAINT, font_of(14))
        frame = Image.fromarray(self.large[step]).resize((NOW_SIDE, NOW_SIDE), self.enlarged)
        picture.paste(frame, (MARGIN, top))
        actions, action, decision = recalled.task.actions, recalled.actions[step], recalled.expert[step]
        top += NOW_SIDE + 12
        pen.text((MARGIN, top), "does", FAINT, font_of(15))
        name = _short(actions.name(action))
        pen.text((MARGIN + 46, top - 3), name, INK, font_of(19 if len(name) < LONG_NAME else 13, bold=True))
        if decision is not None:
            same = actions.alike(decision.action, action)
            text = "as the expert would" if same else f"the expert would do {_short(actions.name(decision.action))}"
            pen.text((MARGIN, top + 26), text, AGREE if same else DIFFER, font_of(14))

    def _in_all(self, weights: NDArray[Any], step: int) -> str:
        if not self.counts:
            return f"the present {weights[step]:.2f}"
        read = f", read as {weights[:step].round().sum():.0f}" if self.whole else ""
        return f"{weights[:step].sum():.2f} things in all{read}"

    def _head_row(self, picture: Image.Image, pen: Any, step: int, head: "Head", colour: str, top: int) -> None:
        recalled = self.recalled
        expert, weights = set(recalled.expert_recalls(step)), recalled.weights[head][step]
        pen.rectangle((PAST_LEFT, top + 7, PAST_LEFT + 10, top + 17), fill=colour)
        name = f"head {head} attends to" if self.supervised else f"head {head} (not supervised) attends to"
        pen.text((PAST_LEFT + 18, top + 3), name, INK, font_of(15, bold=True))
        beside = self._in_all(weights, step)
        pen.text((WIDTH - MARGIN - pen.textlength(beside, font_of(13)), top + 5), beside, FAINT, font_of(13))
        found = recalled.attended(head, step, self.thumbnails)
        if not found:
            text = f"no earlier step with weight {recalled.threshold(step):.2g} or more"
            pen.text((PAST_LEFT, top + 30 + self.thumbnail // 2), text, FAINT, font_of(14))
        for place, (past, weight) in enumerate(found):
            left = self._thumbnail(picture, pen, past, place, top, AGREE if past in expert else DIFFER)
            bottom = top + 34 + self.thumbnail
            pen.text((left, bottom), self._label(past), INK, font_of(13))
            number = f"{weight:.2f}"
            pen.text(
                (left + self.thumbnail - pen.textlength(number, font_of(13, bold=True)), bottom),
                number,
                colour,
                font_of(13, bold=True),
            )
            pen.rectangle((left, bottom + 18, left + self.thumbnail - 1, bottom + 21), fill=LINE)
            length = max(1, round(min(weight, 1.0) * (self.thumbnail - 1)))
            pen.rectangle((left, bottom + 18, left + length, bottom + 21), fill=colour)

    def _expert_row(self, picture: Image.Image, pen: Any, step: int, top: int) -> None:
        recalled = self.recalled
        past = recalled.expert_recalls(step)
        pen.text((PAST_LEFT, top + 3), "the expert recalls", INK, font_of(15, bold=True))
        if not past:
            lost = recalled.expert[step] is None
            text = (
                "no expert to ask" if lost and recalled.task.expert is None else "lost its way" if lost else "nothing"
            )
            pen.text((PAST_LEFT + 158, top + 4), text, FAINT, font_of(14))
            return
        shown = sorted(past, key=lambda p: -recalled.strongest(step, p))[: self.thumbnails]
        if len(past) > len(shown):
            pen.text((PAST_LEFT + 158, top + 4), f"{len(past)} steps, among them", FAINT, font_of(14))
        for place, p in enumerate(shown):
            met = recalled.met(step, p)
            left = self._thumbnail(picture, pen, p, place, top, AGREE if met else DIFFER)
            bottom = top + 34 + self.thumbnail
            pen.text((left, bottom), self._label(p), INK, font_of(13))
            note = "so does the policy" if met else "the policy does not"
            if len(shown) == 1:
                pen.text((left + self.thumbnail + 12, bottom), note, AGREE if met else DIFFER, font_of(13))
            else:
                mark = "✓" if met else "✗"
                end = left + self.thumbnail - pen.textlength(mark, font_of(13))
                pen.text((end, bottom), mark, AGREE if met else DIFFER, font_of(13))

    def _thumbnail(self, picture: Image.Image, pen: Any, past: int, place: int, top: int, colour: str) -> int:
        """Paste the observation of step `past` with a border; its left edge."""
        side = self.thumbnail
        left = PAST_LEFT + place * (side + GAP)
        frame = self.small[past].resize((side, side), Image.Resampling.LANCZOS)
        picture.paste(frame, (left, top + 30))
        pen.rectangle((left - 3, top + 27, left + side + 2, top + side + 32), outline=colour, width=3)
        return left

    def _draw_curves(self, pen: Any, curves: Curves, step: int, top: int) -> None:
        """Each number between its own bounds along the timeline; what comes after the present step is faint."""
        width = (WIDTH - 2 * MARGIN) / len(self.recalled)
        bottom = top + CURVES - 10
        pen.line((MARGIN, bottom, WIDTH - MARGIN, bottom), LINE)
        for number, line in enumerate(curves.heights.T):
            points = [(MARGIN + (at + 0.5) * width, bottom - 3 - (CURVES - 30) * y) for at, y in enumerate(line)]
            pen.line(points[step:], LINE, width=2)
            pen.line(points[: step + 1], LINE_COLOURS[number % len(LINE_COLOURS)], width=2)
        x = MARGIN + (step + 0.5) * width
        pen.line((x, top + 16, x, bottom), INK)
        pen.text((MARGIN, top), curves.name, FAINT, font_of(12))

    def _label(self, step: int) -> str:
        return f"step {step}" if self.thumbnail >= 88 else str(step)

    def _timeline(self, pen: Any, step: int) -> None:
        recalled, top = self.recalled, self.timeline_top
        left, right, base = MARGIN, WIDTH - MARGIN, top + 62
        length = len(recalled)
        width = (right - left) / length
        pen.line((left, top - 6, right, top - 6), LINE)
        pen.line((left, base, right, base), LINE)
        for mark in range(0, length, 10 if length <= 160 else 50):
            x = left + (mark + 0.5) * width
            pen.line((x, base, x, base + 4), FAINT)
            pen.text((x, base + 24), str(mark), FAINT, font_of(12), anchor="mt")
        bar = max(2.0, width * 0.7 / max(1, len(self.heads)))
        for number, head in enumerate(self.heads):
            for past in np.flatnonzero(recalled.weights[head][step, : step + 1] >= 0.01):
                x = left + past * width + width * 0.15 + number * bar
                height = 52 * min(float(recalled.weights[head][step, past]), 1.0)
                pen.rectangle((x, base - max(1, height), x + bar - 1, base), fill=HEAD_COLOURS[number])
        for recalled_step in recalled.expert_recalls(step):
            x = left + (recalled_step + 0.5) * width
            met = recalled.met(step, recalled_step)
            pen.polygon([(x - 5, base + 18), (x + 5, base + 18), (x, base + 7)], fill=AGREE if met else DIFFER)
        x = left + (step + 0.5) * width
        pen.line((x, top, x, base + 4), INK)
        legend = "attention over the episode so far;  ▲ recalled by the expert"
        pen.text((left, top + 106), legend, FAINT, font_of(12))
