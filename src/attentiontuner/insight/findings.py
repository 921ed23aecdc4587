"""What the evidence says, in numbers and in words: is a memory needed, when, of what; and what to annotate first."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from attentiontuner.core.wording import counted
from attentiontuner.insight.evidence import Evidence
from attentiontuner.insight.explaining import Thing, beyond_chance, by_episode, standard_errors
from attentiontuner.insight.places import Place
from attentiontuner.insight.recommendations import Recommended, Suggestion
from attentiontuner.insight.steps import Integers
from attentiontuner.spaces import ActionSpec

Verdict = Literal["needed", "not needed", "unclear"]

PHASES = ("first fifth", "second fifth", "middle fifth", "fourth fifth", "last fifth")

UNSURE = 0.1
"""Nats of entropy a step, on average, from which on a policy without a memory is unsure of too much to say that no
memory is needed."""

DECIDING = 0.2
"""A step recalls something where its action becomes surer, or likelier, by this share of the mean gain."""

MOST_TIMES = 100
"""How many times as likely something is, in words: beyond that it says nothing."""

LEFT = 0.25
"""The share of the surprise from which on what nothing found tells is spoken of."""


@dataclass(frozen=True)
class Gain:
    """What something gains an episode: mean, its standard error, how many of these it lies above nothing."""

    mean: float
    error: float
    errors: float

    @classmethod
    def of(cls, gains: NDArray[np.float64]) -> "Gain":
        error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
        return cls(float(gains.mean()), error, standard_errors(gains))


@dataclass(frozen=True)
class Findings:
    """All that a report says.

    Attributes:
        verdict, headline, reasons: in words.
        frames, past: gain by the frames found, and by the whole past.
        numbers: whether actions are numbers.
        surprise: nats an episode of the policy without a memory, above what is usual.
        error: the mean error of a step without a memory.
        phases: for each phase of the episode: steps, how many of them recall something, and the mean of what is `shown`
            of a step.
        suggestions: by place of the episode.
        things: how many things are recalled in an episode, by how many episodes do so.
        recommended: demonstrations to annotate first.
    """

    verdict: Verdict
    headline: str
    reasons: tuple[str, ...]
    frames: Gain
    past: Gain
    numbers: bool
    surprise: float
    error: float
    phases: tuple[tuple[int, int, float, float, float], ...]
    suggestions: dict[int, list[Suggestion]]
    things: dict[int, int]
    recommended: tuple[Recommended, ...] = ()

    @property
    def distances(self) -> Integers:
        """How many steps back each pair goes."""
        pairs = [each for own in self.suggestions.values() for each in own]
        return np.array([each.q - each.p for each in pairs if each.p is not None], np.int64)

    @property
    def recalled_steps(self) -> Integers:
        """Which step each pair recalls."""
        pairs = [each for own in self.suggestions.values() for each in own]
        return np.array([each.p for each in pairs if each.p is not None], np.int64)


def judge(evidence: Evidence, actions: ActionSpec, *, count: int) -> Findings:
    """What the evidence says; `count` demonstrations are recommended."""
    number = len(evidence.lengths)
    owner = evidence.owner
    surprise = by_episode(evidence.surprise, owner, number)
    frames, past = (by_episode(gain, owner, number) for gain in (evidence.recalled, evidence.past))
    by_past = beyond_chance(past, float(surprise.mean()))
    unsure = evidence.pictures if evidence.numbers else float(evidence.entropy.mean()) >= UNSURE
    verdict: Verdict = "needed" if evidence.things or by_past else "unclear" if unsure else "not needed"
    suggestions = _suggestions(evidence, actions, by_past) if verdict != "not needed" else {}
    phases = _phases(evidence, suggestions)
    recommended = _recommend(evidence, suggestions, count) if verdict != "not needed" else ()
    things = Counter(len({each.p for each in own} - {None}) for own in suggestions.values())
    gains = Gain.of(frames), Gain.of(past)
    together = by_past and (not evidence.things or beyond_chance(past - frames, float((surprise - frames).mean())))
    headline, reasons = _words(evidence, verdict, gains, together, len(recommended), suggestions)
    mean = float(surprise.mean())
    found = dict(sorted(things.items()))
    numbers, error = evidence.numbers, float(evidence.error.mean())
    return Findings(verdict, headline, reasons, *gains, numbers, mean, error, phases, suggestions, found, recommended)


# --- pairs -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _deciding(evidence: Evidence) -> NDArray[np.bool_]:
    """`[Q]` which steps in question recall something: their action becomes surer with a frame in view, or likelier."""
    asked = evidence.asked
    known = torch.from_numpy(evidence.things[-1].known).to(asked.base.device)
    surer = (asked.head.entropy(asked.base) - asked.head.entropy(known)).cpu().numpy()
    gain = np.sum([thing.gain for thing in evidence.things], axis=0)
    return np.asarray(np.maximum(surer, gain) >= DECIDING * max(float(gain.mean()), 1e-3))


def _suggestions(evidence: Evidence, actions: ActionSpec, by_past: bool) -> dict[int, list[Suggestion]]:
    """By place of the episode, in order of q. Where no frame tells anything: the steps that need something."""
    asked = evidence.asked
    found: dict[int, list[Suggestion]] = {}
    if evidence.things:
        rows = np.flatnonzero(_deciding(evidence))
    else:
        rows = np.flatnonzero(evidence.entropy[asked.step] >= np.median(evidence.entropy[asked.step]))
    before = asked.log_likelihood(asked.base).exp().cpu().numpy()
    for row in rows:
        q, action = int(asked.time[row]), _named(actions, asked.data.packed.actions[asked.step[row]])
        own = found.setdefault(int(asked.episode[row]), [])
        chance = float(before[row])
        for thing in evidence.things:
            p = int(thing.time[row])
            if p >= 0 and all(each.p != p for each in own if each.q == q):
                reason = _reason(actions, action, chance, p, float(thing.gain[row]))
                own.append(Suggestion(q, p, float(thing.share[row]), float(thing.gain[row]), reason))
            if not evidence.numbers:
                chance = min(1.0, chance * math.exp(min(float(thing.gain[row]), 50)))
        if not evidence.things:
            own.append(Suggestion(q, None, 0.0, 0.0, _no_frame(actions, action, chance, by_past)))
    return found


def _named(actions: ActionSpec, action: Any) -> str:
    return "" if actions.kind == "box" else actions.name(action)


def _percent(chance: float) -> str:
    return f"{100 * chance:.0f} %" if 0.005 <= chance <= 0.995 else "under 1 %" if chance < 0.5 else "over 99 %"


def _reason(actions: ActionSpec, action: str, chance: float, p: int, gain: float) -> str:
    if actions.kind == "box":
        times = f"{math.exp(gain):.1f}" if gain < math.log(MOST_TIMES) else f"over {MOST_TIMES}"
        return f"with step {p} in view what the expert did is {times} times as likely"
    after = _percent(min(1.0, chance * math.exp(min(gain, 50))))
    return f"what is in view gives {action} a chance of {_percent(chance)}; with step {p} in mind it is {after}"


def _no_frame(actions: ActionSpec, action: str, chance: float, by_past: bool) -> str:
    why = "the past tells more, but no single frame does" if by_past else "and no earlier frame tells more"
    if actions.kind == "box":
        return f"what is in view does not tell what the expert did; {why}"
    return f"what is in view gives {action} a chance of {_percent(chance)}; {why}"


# --- tables ----------------------------------------------------------------------------------------------------------


def phase_of(evidence: Evidence) -> Integers:
    """`[S]` which fifth of its episode a step is in."""
    return np.asarray(len(PHASES) * evidence.time // np.repeat(evidence.lengths, evidence.lengths))


def _phases(
    evidence: Evidence, suggestions: dict[int, list[Suggestion]]
) -> tuple[tuple[int, int, float, float, float], ...]:
    phase, rows = phase_of(evidence), []
    starts = np.cumsum(evidence.lengths) - evidence.lengths
    deciding = np.zeros(len(phase), np.bool_)
    for place, own in suggestions.items():
        deciding[[starts[place] + each.q for each in own]] = True
    for number in range(len(PHASES)):
        there = phase == number
        without, frames, past = (float(each[there].mean()) if there.any() else 0.0 for each in evidence.shown)
        rows.append((int(there.sum()), int(deciding[there].sum()), without, frames, past))
    return tuple(rows)


# --- what to annotate ------------------------------------------------------------------------------------------------


def _recommend(evidence: Evidence, suggestions: dict[int, list[Suggestion]], count: int) -> tuple[Recommended, ...]:
    """Demonstrations one after the other, each the one that adds most to those before it: surprise at its deciding
    steps, halved for every time that one like it (the same action, as far back, in the same phase) was there before,
    and divided by the root of how many marks it takes."""
    asked, phase = evidence.asked, phase_of(evidence)
    row_of = {(int(e), int(t)): row for row, (e, t) in enumerate(zip(asked.episode, asked.time, strict=True))}
    surprise = np.maximum(-asked.log_likelihood(asked.base).cpu().numpy(), 0)
    kinds: dict[int, list[tuple[tuple[Any, ...], float]]] = {}
    for place, own in suggestions.items():
        for each in own:
            row = row_of[place, each.q]
            taken = asked.data.packed.actions[asked.step[row]]
            action = tuple(np.ravel(taken).tolist()) if taken.dtype.kind in "iu" else ()
            back = None if each.p is None else int(math.log2(each.q - each.p))
            worth = float(surprise[row]) if action else max(each.gain, 0.0)
            kinds.setdefault(place, []).append(((action, back, int(phase[asked.step[row]])), worth))
    met: Counter[tuple[Any, ...]] = Counter()
    left = set(kinds)
    chosen: list[Recommended] = []
    while left and len(chosen) < count:

        def value(place: int) -> float:
            return sum(w * 0.5 ** met[kind] for kind, w in kinds[place]) / math.sqrt(len(kinds[place]))

        best = max(sorted(left), key=value)
        new = len({kind for kind, _ in kinds[best] if not met[kind]})
        met.update({kind for kind, _ in kinds[best]})
        left.remove(best)
        chosen.append(_recommended(int(evidence.episodes[best]), suggestions[best], new))
    return tuple(chosen)


def _recommended(episode: int, own: Sequence[Suggestion], new: int) -> Recommended:
    steps = len({each.q for each in own})
    strongest = max(own, key=lambda each: each.gain)
    fresh = f"; {counted(new, 'kind')} of decision that those before it do not have" if new else ""
    pair = "" if strongest.p is None else f" (recalls step {strongest.p})"
    needs = f"{counted(steps, 'step')} {'needs' if steps == 1 else 'need'} a memory{fresh}"
    return Recommended(episode, f"{needs}. At step {strongest.q}{pair}: {strongest.reason}", tuple(own))


# --- words -----------------------------------------------------------------------------------------------------------


def place_words(place: Place | None) -> str:
    """How a frame is found, in words."""
    if place is None:
        return "a frame that looks a certain way, wherever it is"
    kind, number = place
    if kind == "at":
        return f"the frame of step {number}"
    if kind == "ago":
        return f"the frame {counted(number, 'step')} before"
    return f"the {kind} frame of those that look alike in a certain way (look {number})"


def thing_words(thing: Thing) -> str:
    """How one thing is found, in words."""
    return " or ".join(dict.fromkeys(place_words(place) for place in thing.found_by))


def _words(
    evidence: Evidence,
    verdict: Verdict,
    gains: tuple[Gain, Gain],
    together: bool,
    count: int,
    suggestions: dict[int, list[Suggestion]],
) -> tuple[str, tuple[str, ...]]:
    frames, past = gains
    surprise = float(evidence.surprise.sum()) / len(evidence.lengths)
    steps, total = sum(len({each.q for each in own}) for own in suggestions.values()), int(evidence.lengths.sum())
    share = 100 * float((evidence.surprise < math.log(2)).mean())
    alone = f"A policy that sees only the present gives the expert's action a chance above one half at {share:.1f} % of"
    alone += " all steps, in demonstrations it was not trained on."
    no_gain = "Neither earlier frames nor the whole past make the expert's actions likelier, beyond chance."
    if evidence.numbers:
        alone = (
            f"A policy that sees only the present is {evidence.error.mean():.3f} off the expert's action on average, "
            f"at half of all steps less than {np.median(evidence.error):.3f}, in demonstrations it was not trained on. "
            "(The mean distance of an action's numbers from the expert's, in their units.)"
        )
    if verdict == "not needed":
        caution = "Where actions are numbers, or are drawn at random, what is left is taken for chance."
        return "Memory is not your problem.", (alone, no_gain, caution)
    if verdict == "unclear":
        pictures = ["Where actions are numbers, little is found of what pictures show."] if evidence.numbers else []
        return "No sign of a memory, but the present does not tell everything.", (
            alone,
            no_gain,
            "So at these steps the expert acts at random, or remembers what these policies cannot find in so few "
            "demonstrations: counts, an order, several things together.",
            *pictures,
            f"If you know that something is remembered, annotate these {counted(count, 'demonstration')} first.",
        )
    said = [alone]
    if evidence.things:
        of_all = "" if evidence.numbers else f", of {surprise:.2f} nats of surprise without it"
        said.append(
            f"{counted(steps, 'step', form=',')} of {total:,} recall something. What they recall makes the expert's "
            f"actions likelier by {frames.mean:.2f} nats a demonstration (± {2 * frames.error:.2f}){of_all}."
        )
        said += [f"Recalled is {thing_words(thing)}." for thing in evidence.things]
    left = surprise - frames.mean
    if together:
        said.append(
            f"The whole past gains {past.mean:.2f} nats a demonstration, more than any single frame tells: several "
            "things may be recalled together, such as how many there were, or in which order."
        )
    elif evidence.things and not evidence.numbers and left > LEFT * surprise:
        said.append(
            f"{left:.2f} nats a demonstration are told by nothing that was found: chance, or a memory of several "
            "things together."
        )
    if evidence.numbers:
        said.append(
            "Where actions are numbers a gain is that of an estimate that also knows sums of what was seen before, or "
            "a frame, beside the better of two answers from the present alone."
        )
    return f"A memory is needed. Annotate these {counted(count, 'demonstration')} first.", tuple(said)
