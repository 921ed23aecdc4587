"""Suggestions that need no page: stretching, and a run's attention."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from attentiontuner.demos import Demonstration
from attentiontuner.demos.annotations import Annotation, write_annotation
from attentiontuner.demos.pair_text import parse_pairs
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.suggest import Suggester, Suggestion, stretch


def test_stretching_keeps_first_and_last_steps() -> None:
    assert stretch([(0, 10), (5, 10)], 11, 21) == [(0, 20), (10, 20)]
    assert stretch([(0, 20), (10, 20)], 21, 11) == [(0, 10), (5, 10)]
    assert stretch([(0, 0)], 1, 5) == [(0, 0)]


def test_stretched_pairs_that_fall_together_are_left_out(toy: Path) -> None:
    from attentiontuner.studio import session as edits
    from tests.studio.test_desk import change

    desk = Desk(toy)
    change(desk, 1, edits.add([(0, 1), (0, 19)]))
    found = Suggester(desk).suggest("ada", 2, "before-stretched")
    assert found == [Suggestion(0, 4)]


def test_counts_intervals_and_weights_are_suggested_as_they_are_marked(toy: Path) -> None:
    write_annotation(toy, "bob", 1, Annotation(parse_pairs({"9": "2x3,4~7", "10~18": "1@0.5"}, 20)))
    write_annotation(toy, "ada", 1, Annotation(parse_pairs({"3": "1~2", "4": "1x2", "10~14": "8"}, 20)))
    suggester = Suggester(Desk(toy))
    assert suggester.suggest("ada", 1, "labels:bob") == [
        Suggestion(2, 9, times=3),
        Suggestion(5, 9, about=(4, 7, 9, 9, 1.0)),
        Suggestion(1, 14, about=(1, 1, 10, 18, 0.5)),
    ]
    # In the next demonstration, of five steps, an interval stays one where there is room for it.
    before = suggester.suggest("ada", 2, "before")
    assert before == [Suggestion(1, 3, about=(1, 2, 3, 3, 1.0)), Suggestion(1, 4, times=2)]


def test_a_runs_attention_is_asked_once_per_demonstration(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def recalled_steps(run: Path, demonstration: Demonstration, threshold: float) -> list[tuple[int, int, float]]:
        asked.append((run.name, len(demonstration), threshold))
        return [(1, 4, 0.75), (3, 3, 0.9), (0, 2, 1.0001)]

    policy = ModuleType("attentiontuner.evaluation.opening")
    policy.recalled_steps = recalled_steps  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "attentiontuner.evaluation.opening", policy)
    suggester = Suggester(Desk(toy), run=Path("runs/seventh"), threshold=0.3)
    assert suggester.sources("ada")[0].title == "attention of seventh"
    for _ in range(2):
        assert suggester.suggest("ada", 0, "run") == [Suggestion(0, 2, 1.0), Suggestion(1, 4, 0.75)]
    assert asked == [("seventh", 12, 0.3)]
