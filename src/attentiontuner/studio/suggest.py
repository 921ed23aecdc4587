"""Where suggested pairs come from: a memory report, a trained run, other annotators, the demonstration before.

It is an annotation only once somebody accepts it.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import Annotation, read_annotation, read_annotations
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.insight.recommendations import Recommendations
from attentiontuner.studio.desk import Desk, state_of
from attentiontuner.studio.remarks import Remark
from attentiontuner.studio.session import MAX_MULTIPLICITY, About


class Suggestion(NamedTuple):
    """A suggested pair: how sure its source is, from 0 to 1, how often it counts, what is known less of it, and why."""

    p: int
    q: int
    weight: float = 1.0
    times: int = 1
    about: About | None = None
    reason: str = ""


class Deciding(NamedTuple):
    """A step that needs a memory, nobody knows of what: no single frame tells."""

    q: int
    reason: str


REPORT, RUN, SAME_STEP, STRETCHED = "memory-report", "run", "before", "before-stretched"
LABELS = "labels:"
"""The prefix of a source that is another annotator's labels."""


class SuggestionSource(NamedTuple):
    """A place suggestions come from: its name in requests, and what the page calls it."""

    name: str
    title: str


class Suggester:
    """Suggested pairs for the demonstrations of one desk.

    Args:
        desk: the data set.
        run: a trained run whose attention is asked, or None.
        threshold: attention weight from which a step counts as recalled.
        enabled: False for annotation that must not be influenced: there are no sources at all, and no reasons.
        report: what a memory report of the data set recommends, or None.
    """

    def __init__(
        self,
        desk: Desk,
        run: Path | None = None,
        threshold: float = 0.1,
        enabled: bool = True,
        report: Recommendations | None = None,
    ) -> None:
        self.desk, self.run, self.threshold, self.enabled, self.report = desk, run, threshold, enabled, report
        self._attention: dict[int, list[Suggestion]] = {}
        self._thinking = threading.Lock()

    def sources(self, annotator: str) -> list[SuggestionSource]:
        """What `annotator` can choose from, the most useful first."""
        if not self.enabled:
            return []
        report = [SuggestionSource(REPORT, "memory report")] if self.report is not None else []
        run = [SuggestionSource(RUN, f"attention of {self.run.name}")] if self.run is not None else []
        others = sorted(set(self.desk.store.annotators()) - {annotator}, key=lambda name: (name != EXPERT, name))
        return [
            *report,
            *run,
            *(
                SuggestionSource(LABELS + name, "scripted expert" if name == EXPERT else f"labels of {name}")
                for name in others
            ),
            SuggestionSource(SAME_STEP, "demonstration before, same steps"),
            SuggestionSource(STRETCHED, "demonstration before, stretched"),
        ]

    def recommended(self) -> list[tuple[int, str]]:
        """The demonstrations to annotate first, in order, each with the reason."""
        first = self.report.first if self.report is not None else ()
        return [(one.episode, one.reason if self.enabled else "") for one in first]

    def deciding(self, episode: int, source: str) -> list[Deciding]:
        """The steps of `episode` of which `source` knows only that something is recalled there."""
        if source != REPORT or self.report is None or not self.enabled:
            return []
        said = self.report.suggestions.get(episode, ())
        return sorted(Deciding(one.q, one.reason) for one in said if one.p is None)

    def suggest(self, annotator: str, episode: int, source: str) -> list[Suggestion]:
        """The pairs `source` proposes for `episode`, in order of (q, p)."""
        if source not in {known.name for known in self.sources(annotator)}:
            raise UserError(f"there are no suggestions called {source[:80]!r} here")
        length = self.desk.length(episode)
        if source == REPORT:
            found = self._from_report(episode)
        elif source == RUN:
            found = self._from_run(episode)
        elif source.startswith(LABELS):
            found = self._from_labels(source.removeprefix(LABELS), episode)
        else:
            found = self._from_before(annotator, episode, length, stretched=source == STRETCHED)
        unlike = {(one.p, one.q): one for one in found if 0 <= one.p < one.q < length}
        return sorted(unlike.values(), key=lambda one: (one.q, one.p))

    def _from_report(self, episode: int) -> list[Suggestion]:
        assert self.report is not None
        said = self.report.suggestions.get(episode, ())
        return [Suggestion(one.p, one.q, one.weight, reason=one.reason) for one in said if one.p is not None]

    def _from_labels(self, name: str, episode: int) -> list[Suggestion]:
        return _as_marked(read_annotation(self.desk.root, name, episode))

    def _from_run(self, episode: int) -> list[Suggestion]:
        with self._thinking:  # one at a time: two threads cannot record CUDA graphs at once
            if episode not in self._attention:
                # Torch is loaded here and nowhere else in the studio.
                from attentiontuner.evaluation.opening import recalled_steps

                assert self.run is not None
                found = recalled_steps(self.run, self.desk.demonstration(episode), self.threshold)
                self._attention[episode] = [
                    Suggestion(int(p), int(q), min(max(float(w), 0.0), 1.0)) for p, q, w in found
                ]
            return self._attention[episode]

    def _from_before(self, annotator: str, episode: int, length: int, stretched: bool) -> list[Suggestion]:
        """Pairs of the nearest earlier demonstration that this annotator has marked."""
        annotations = read_annotations(self.desk.root, annotator)
        earlier = [number for number, annotation in annotations.items() if number < episode and len(annotation.pairs)]
        if not earlier:
            return []
        before = max(earlier)
        marked = _as_marked(annotations[before])
        if not stretched:  # an interval that ends outside this demonstration is only its middle
            return [one if one.about is None or one.about[3] < length else one._replace(about=None) for one in marked]
        moved = stretch([(one.p, one.q) for one in marked], self.desk.length(before), length)
        return [Suggestion(p, q, times=one.times) for (p, q), one in zip(moved, marked, strict=True)]


def _as_marked(annotation: Annotation | None) -> list[Suggestion]:
    """An annotation's pairs as they are: with counts, intervals and weights."""
    state = state_of(annotation, Remark())
    return [
        Suggestion(p, q, times=min(count, MAX_MULTIPLICITY), about=state.uncertain.get((p, q)))
        for p, q, count in state.rows()
    ]


def stretch(pairs: Iterable[tuple[int, int]], old_length: int, new_length: int) -> list[tuple[int, int]]:
    """Pairs of an episode of `old_length` steps at the same share of an episode of `new_length` steps."""
    factor = (new_length - 1) / max(old_length - 1, 1)
    return [(round(p * factor), round(q * factor)) for p, q in pairs]
