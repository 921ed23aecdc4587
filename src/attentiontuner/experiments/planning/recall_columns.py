"""Columns of recall heads: parts taken away, labels that are off or few, an earlier edition, other worlds. Those of one
recipe have its name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.few_demonstrations import FEW_COLLECTED, few
from attentiontuner.experiments.planning.recipe import RECALL, Column, Condition, Stage
from attentiontuner.models.sizes import BEFORE

PARTS: Mapping[str, Mapping[str, Any]] = {
    "Not bounded": {"model": {"bounded": False}},
    "Positions added": {"model": {"timing": "added"}},
    "No positions": {"model": {"positions": False}},
    "Nothing added up": {"model": {"sums": 0}},
    "Amount not read": {"model": {"periods": ()}},
    "Amount not rounded": {"model": {"whole": False}},
    "No teacher": {"model": {"teacher": 0.0}},
    "No weight decay": {"config": {"weight_decay": 0.0}},
}
PARTS_OF_SYMBOLS: Mapping[str, Mapping[str, Any]] = {
    "Kinds in view not asked for": {"model": {"alike": False}},
    "Cells told nothing": {"model": {"marks": 0}},
    "Cells told sums": {"model": {"means": False}},
    "No cells dropped": {"model": {"dropped_cells": 0.0}},
}
PARTS_OF_IMAGES: Mapping[str, Mapping[str, Any]] = {
    "No points": {"model": {"points": 0}},
    "No looks": {"model": {"looks": 0}},
    "First layer": {"model": {"recall_layer": 1}},
    "Never alone": {"model": {"alone": 0.0}},
    "Little dropout": {"model": {"dropout": 0.1}},
}
"""What can be taken away from recall heads, by the title of its column."""

OFF, SOME, LABELLED = (0, 1, 2, 5), (1, 2, 5, 10, 50), (200, 1000)
"""Standard deviations of labels in steps, numbers of annotated demonstrations, and of how many."""

LONGER_WORLDS = (1.5, 2, 3, 4)


def _changed(title: str, name: str, **config: Any) -> Column:
    return Column(title, "recall", Condition(name, config))


def _marked(title: str, demos: int, name: str, **config: Any) -> Column:
    """Recall heads that take labels for readings, with so many demonstrations."""
    changed = {"labels": "readings", **config, "demos": demos}
    return Column(title, "recall", Condition(f"labels-{demos}-{name}", changed, collected=FEW_COLLECTED))


def _off(deviation: float) -> dict[str, float]:
    return {"noise_p": deviation, "noise_q": deviation}


def _sloppy(demos: int) -> list[Column]:
    """Labels that are off, and controls."""
    given = [_marked(f"{demos:,}, σ = {off}", demos, f"off-{off}", **_off(off)) for off in OFF]
    controls: dict[str, dict[str, Any]] = {
        "late by 3": {"late": 3},
        "σ = 2 as marked": {**_off(2), "labels": "exact"},
        "random pairs": {"pairs": "random"},
        "shuffled pairs": {"pairs": "shuffled"},
        "need alone": {"pairs": "none"},
    }
    named = {title: title.replace("σ = ", "off ").replace(" ", "-") for title in controls}
    return given + [_marked(f"{demos:,}, {title}", demos, named[title], **controls[title]) for title in controls]


def _sparse(demos: int) -> list[Column]:
    """Labels of a few demonstrations; of ten, labels that are off too."""
    given = [
        _marked(f"{number} of {demos:,}", demos, f"few-{number}", annotated_fraction=number / demos) for number in SOME
    ]
    ten = {"annotated_fraction": 10 / demos, **_off(2)}
    return [*given, _marked(f"10 of {demos:,}, σ = 2", demos, "few-10-off-2", **ten)]


def _parts(demos: int, parts: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Recall heads with so many demonstrations, whole and without each of the parts."""
    whole = replace(few(RECALL.title, "recall", demos), title=RECALL.title)
    columns = [whole]
    for title, part in parts.items():
        name = f"{whole.condition.name}-{title.lower().replace(' ', '-')}"
        config = {**whole.condition.config, **part.get("config", {})}
        condition = replace(whole.condition, name=name, config=config, model=part.get("model", {}))
        columns.append(replace(whole, title=title, condition=condition))
    return columns


def _carried_over(title: str, condition: Condition) -> list[Column]:
    return [Column(f"{title}, {times:g}×", "recall", condition, times) for times in (1, *condition.longer)]


RECALL_STAGES = (Stage(("counting",), ("recall",), range(1, 6)), Stage(published.TASK_ORDER, ("recall",), (1,)))

FIRST_EDITION = Column("First edition", "recall", Condition("first-edition", {"weight_decay": 0.0}, BEFORE))

RECALL_ABLATION = _parts(100, {**PARTS, **PARTS_OF_SYMBOLS})
RECALL_ABLATION_IMAGES = _parts(300, {**PARTS, **PARTS_OF_IMAGES})

SLOPPY = (
    *(column for demos in LABELLED for column in _sloppy(demos)),
    _changed("The paper's number, σ = 2", "readings-off-2", labels="readings", **_off(2)),
)

SPARSE = (
    *(column for demos in LABELLED for column in _sparse(demos)),
    _changed("0.1 %", "readings-few-0.1", labels="readings", annotated_fraction=0.001),
    _changed("1 %", "readings-few-1", labels="readings", annotated_fraction=0.01),
)

RECALL_LABELS = (
    _changed("1 %", "annotated-1", annotated_fraction=0.01),
    _changed("10 %", "annotated-10", annotated_fraction=0.1),
    replace(RECALL, title="100 %"),
)

MODULUS = (
    replace(RECALL, title="Two doors"),
    Column("Three doors", "recall", Condition("modulus-3", settings={"modulus": 3})),
)

LONGER = (
    *_carried_over("Recall heads", Condition("longer", longer=LONGER_WORLDS)),
    *_carried_over(
        "Without positions",
        Condition("longer-no-positions", model={"positions": False}, longer=LONGER_WORLDS),
    ),
)
