"""The page of a memory report: one HTML file that stands alone, light or dark, for people who need not program."""

import html
import io
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from attentiontuner.core.wording import counted
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight import report_figures as figures
from attentiontuner.insight.evidence import Evidence, worth_looking_at
from attentiontuner.insight.findings import PHASES, Findings, thing_words
from attentiontuner.insight.recommendations import Recommended, Suggestion
from attentiontuner.viz.page import data_url, page, table
from attentiontuner.viz.pictures import at_steps, draw_observations

EXAMPLES, PAIRS_SHOWN = 3, 4
"""Demonstrations that are shown, and pairs of each."""

STYLE = """
.verdict { border-left: 6px solid var(--mark); padding: .2rem 0 .2rem 1.2rem; margin: 1rem 0 1.5rem; }
.verdict strong { font-size: 1.35rem; line-height: 1.3; display: block; margin-bottom: .4rem; }
.needed { --mark: #0072b2; } .not { --mark: #009e73; } .unclear { --mark: #e69f00; }
ul, ol { max-width: 75ch; padding-left: 1.3rem; } li { margin: .25rem 0; }
.pair { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; margin: .8rem 0 1.4rem; }
.pair figure { margin: 0; } .pair img { width: 140px; height: 140px; image-rendering: pixelated; border-radius: 3px; }
.pair p { flex: 1 1 16rem; } .arrow { align-self: center; color: var(--soft); font-size: 1.4rem; }
svg.need { width: 100%; height: 64px; display: block; }
svg.need .bar { fill: #e69f00; } svg.need .q { fill: #d55e00; } svg.need .p { fill: #0072b2; }
svg.need line { stroke: var(--line); }
.key span { display: inline-block; width: .7em; height: .7em; margin: 0 .35em 0 .9em; border-radius: 2px; }
pre.command { padding: .6rem .9rem; border: 1px solid var(--line); border-radius: 4px; overflow-x: auto; }
table.reasons td { white-space: normal; vertical-align: top; } table.reasons td:last-child { min-width: 18rem; }
@media (max-width: 600px) {
  .chart { overflow-x: auto; } .chart img { max-width: none; width: 540px; }
  main { padding: 1rem .9rem 3rem; } .arrow { display: none; } .pair img { width: 118px; height: 118px; }
}
"""

CLASSES = {"needed": "needed", "not needed": "not", "unclear": "unclear"}


def report_page(store: DemoStore, evidence: Evidence, findings: Findings, command: str) -> str:
    """The whole page; `command` opens the studio with what it recommends."""
    body = [
        _verdict(findings),
        _looked_at(store, evidence),
        _gains(evidence, findings),
        _when(evidence, findings),
    ]
    if findings.suggestions:
        if len(findings.distances):
            body.append(_what(evidence, findings))
        body += [_examples(store, evidence, findings), _first(findings, command)]
    body.append(_method())
    return page(f"Memory report: {store.task}", "\n".join(body), STYLE, dark=True)


def _section(title: str, *parts: str) -> str:
    return "\n".join([f"<section>\n<h2>{html.escape(title)}</h2>", *parts, "</section>"])


def _text(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    return f'<div class="wide">{table(head, rows, name)}</div>'


def _figure(figure: Figure, caption: str) -> str:
    dark, light = (data_url("image/png", figures.to_png(figure, dark=each)) for each in (True, False))
    text = html.escape(caption)
    source = f'<source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
    shown = f'<picture>{source}<img alt="{text}" src="{light}"></picture>'
    return f'<figure class="chart">{shown}<figcaption>{text}</figcaption></figure>'


def _verdict(findings: Findings) -> str:
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in findings.reasons)
    head = html.escape(findings.headline)
    return f'<div class="verdict {CLASSES[findings.verdict]}"><strong>{head}</strong><ul>{reasons}</ul></div>'


def _looked_at(store: DemoStore, evidence: Evidence) -> str:
    number, steps = len(evidence.lengths), int(evidence.lengths.sum())
    every = len(worth_looking_at(store))
    drawn = "" if number == every else f", drawn at random from {every:,}"
    drawn += f" ({len(store) - every:,} failed and are left out)" if every < len(store) else ""
    return _text(
        f"Looked at: {counted(number, 'demonstration', form=',')}{drawn}, {counted(steps, 'step', form=',')}; each "
        f"shows {store.observation}; actions {', '.join(store.actions.names) or store.actions}. No annotation was used."
    )


def _gains(evidence: Evidence, findings: Findings) -> str:
    text = (
        "Surprise says how unexpected the expert's actions were: 0 nats where the action was certain, 0.7 where it had "
        "a chance of one half, 2.3 of a tenth. What the past takes away of it, in demonstrations that nothing was "
        "learned from, is what a memory is worth."
    )
    if evidence.numbers:
        text = (
            "Of numbers only differences of likelihood say something: 0 nats is the better of two answers that know "
            "the present alone, each nat more makes what the expert did 2.7 times as likely, in demonstrations that "
            "nothing was learned from."
        )
    caption = (
        "Bars: mean over demonstrations; thin lines: two standard errors. A gain whose line touches 0 may be chance."
    )
    rows = [
        (name, f"{gain.mean:.3f}", f"± {2 * gain.error:.3f}", f"{gain.errors:.1f}")
        for name, gain in (("earlier frames, one by one", findings.frames), ("the whole past", findings.past))
    ]
    head = ("gained by", "nats a demonstration", "two standard errors", "standard errors above 0")
    return _section("Does the past help?", _text(text), _figure(figures.gains(findings), caption), _table(head, rows))


def _when(evidence: Evidence, findings: Findings) -> str:
    rows = [
        (name, f"{steps:,}", f"{deciding:,}", f"{without:.3f}", f"{frames:.3f}", f"{past:.3f}")
        for name, (steps, deciding, without, frames, past) in zip(PHASES, findings.phases, strict=True)
    ]
    shown = ("surprise without a memory", "with the frames found", "with the whole past")
    caption = (
        "Where the dashed line is high the present does not tell what to do; where another is lower, the past does."
    )
    text = "Surprise is in nats a step, the mean over all steps of the phase."
    if evidence.numbers:
        shown = ("error without a memory", "frames gain", "the past gains")
        caption = "Where the line is high the present does not tell what to do, or the expert's actions vary."
        text = (
            "The error is the mean distance of an action's numbers from the expert's, in the actions' units: 0 is what "
            "the expert did. Gains are in nats. All are means over the steps of the phase."
        )
    head = ("phase of the episode", "steps", "need a memory", *shown)
    return _section(
        "When is a memory needed?",
        _figure(figures.along_the_episode(evidence), caption),
        _text(text),
        _table(head, rows),
    )


def _what(evidence: Evidence, findings: Findings) -> str:
    distance = findings.distances
    words = [
        f"{number} in {counted(episodes, 'demonstration', form=',')}" for number, episodes in findings.things.items()
    ]
    texts = [
        f"Half of the pairs go back {np.median(distance):.0f} steps or more, one in ten more than "
        f"{np.quantile(distance, 0.9):.0f}, the farthest {distance.max()}.",
        f"Different frames that are recalled in a demonstration: {'; '.join(words)}.",
    ]
    for number, thing in enumerate(evidence.things, 1):
        gain = float(thing.gain.mean())
        which = "What is recalled" if len(evidence.things) == 1 else f"Thing {number}"
        texts.append(f"{which}: {thing_words(thing)} (gain {gain:.3f} nats at a step in question).")
    figure = _figure(figures.how_far_back(findings), "Left: how far back. Right: which step, counted from the start.")
    return _section("How far back, which frames, how many things?", *map(_text, texts), figure)


def _examples(store: DemoStore, evidence: Evidence, findings: Findings) -> str:
    key = (
        '<p class="key">Each strip is one demonstration from its first step to its last.'
        '<span style="background:#e69f00"></span>unsure without a memory'
        '<span style="background:#d55e00"></span>steps in question<span style="background:#0072b2"></span>recalled</p>'
    )
    return _section("Examples", key, *(_example(store, evidence, each) for each in findings.recommended[:EXAMPLES]))


def _example(store: DemoStore, evidence: Evidence, chosen: Recommended) -> str:
    demonstration = store[chosen.episode]
    place = int(np.flatnonzero(evidence.episodes == chosen.episode)[0])
    start = int(evidence.lengths[:place].sum())
    need = evidence.entropy[start : start + len(demonstration)]
    strongest = sorted(chosen.suggestions, key=lambda each: -each.gain)[:PAIRS_SHOWN]
    parts = [f"<h3>Demonstration {chosen.episode}</h3>", _strip(need, chosen.suggestions)]
    for each in sorted(strongest, key=lambda each: each.q):
        steps = [each.q] if each.p is None else [each.p, each.q]
        drawn = draw_observations(store.observation, at_steps(demonstration.observations, steps), tile=20)
        frames = [
            f'<figure><img alt="step {step}" src="{_png(picture)}">'
            f"<figcaption>step {step}: {role}</figcaption></figure>"
            for step, picture, role in zip(steps, drawn, ("recalled", "in question")[-len(steps) :], strict=True)
        ]
        pictures = '<span class="arrow">→</span>'.join(frames)
        parts.append(f'<div class="pair">{pictures}{_text(f"At step {each.q} {each.reason}.")}</div>')
    return "\n".join(parts)


def _png(picture: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "png", optimize=True)
    return data_url("image/png", buffer.getvalue())


def _strip(need: np.ndarray, pairs: Sequence[Suggestion]) -> str:
    """Need along an episode as bars, deciding steps and recalled ones marked below."""
    height = np.maximum(need - min(0, need.min()), 0)
    scale = 44 / max(float(height.max()), 1e-6)
    bars = [
        f'<rect class="bar" x="{step}" y="{46 - scale * value:.1f}" width=".8" height="{scale * value:.1f}"/>'
        for step, value in enumerate(height)
        if scale * value >= 0.5
    ]
    marks = {each.q: "q" for each in pairs} | {each.p: "p" for each in pairs if each.p is not None}
    bars += [f'<rect class="{kind}" x="{step}" y="50" width=".8" height="10"/>' for step, kind in sorted(marks.items())]
    line = f'<line x1="0" y1="47" x2="{len(need)}" y2="47"/>'
    inside = line + "".join(bars)
    label = f"Need along {counted(len(need), 'step')}"
    shape = f'viewBox="0 0 {len(need)} 62" preserveAspectRatio="none"'
    return f'<svg class="need" role="img" aria-label="{label}" {shape}>{inside}</svg>'


def _first(findings: Findings, command: str) -> str:
    text = (
        "Each adds most to those before it: decisions that surprise a policy without a memory, of kinds that were not "
        "there yet. The studio offers them in this order, with the suggested pairs and the reason of each:"
    )
    rows = [
        (str(rank), str(each.episode), str(len({pair.q for pair in each.suggestions})), f"{each.reason}.")
        for rank, each in enumerate(findings.recommended, 1)
    ]
    head = ("", "demonstration", "steps to mark", "why")
    typed = f'<pre class="command">{html.escape(command)}</pre>'
    return _section("Annotate these first", _text(text), typed, _table(head, rows, "reasons"))


def _method() -> str:
    texts = (
        "Half of the demonstrations teach, the other half is judged, and the other way round. A policy that sees the "
        "present and the action before says how sure it is of each step. At the steps with most of its doubt every "
        "earlier frame is tried: found by its place (a step from the start, so many steps back, the first or last of a "
        "look) or by its look, with a network that learns where to look and what that tells. A recurrent network is "
        "given the whole past. What either gains with the past hidden is not counted: that is no memory.",
        "Where actions are numbers, an estimate by regression corrects that policy: once from the present and the "
        "action before, once from sums of up to three numbers seen in the past too, and once from the frame in which "
        "these numbers stand out most. What the first one gains is not counted.",
        "A gain counts if it lies three standard errors above nothing, takes away a twentieth of the surprise, and is "
        "0.02 nats a demonstration at least. Where actions are numbers the surprise is counted from that of a usual "
        "step, which half of the steps do not reach.",
        "It cannot tell chance from a memory that it did not find. Where an action hangs on a count, an order or the "
        "parity of many frames, no single frame tells anything, and only the whole past may. A frame that looks like "
        "the one recalled may be named in its place. And an expert who remembers what the present shows anyway needs "
        "no memory, by this measure.",
    )
    return _section("How this was found, and what it cannot tell", *map(_text, texts))
