"""Suggestions that need no page: stretching, and a run's attention."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from attentiontuner.demos import Demonstration
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.suggest import Suggester, stretch


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
    assert found == [(0, 4, 1.0)]


def test_a_runs_attention_is_asked_once_per_demonstration(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def recalled_steps(run: Path, demonstration: Demonstration, threshold: float) -> list[tuple[int, int, float]]:
        asked.append((run.name, len(demonstration), threshold))
        return [(1, 4, 0.75), (3, 3, 0.9), (0, 2, 1.0001)]

    policy = ModuleType("attentiontuner.evaluation.policy")
    policy.recalled_steps = recalled_steps  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "attentiontuner.evaluation.policy", policy)
    suggester = Suggester(Desk(toy), run=Path("runs/seventh"), threshold=0.3)
    assert suggester.sources("ada")[0].title == "attention of seventh"
    for _ in range(2):
        assert suggester.suggest("ada", 0, "run") == [(0, 2, 1.0), (1, 4, 0.75)]
    assert asked == [("seventh", 12, 0.3)]
