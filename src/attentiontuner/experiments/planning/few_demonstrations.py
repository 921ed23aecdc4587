"""Columns that are lines over the number of demonstrations, and the order in which they run: all methods with few, a
robot's arm, memories that do not grow, benchmarks of others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.recipe import (
    BOUNDED,
    BOUNDED_NO_PAIRS,
    NO_PAIRS,
    RECALL,
    TUNER,
    VANILLA,
    Column,
    Condition,
    Stage,
)
from attentiontuner.experiments.planning.task_groups import MEMORY_TASKS, ROBOT_TASKS

FEW = (20, 50, 100, 300, 1000)
FEW_FIRST = (100, 300, 50, 1000, 20)
"""Numbers of demonstrations a person can record, and the order in which they run…"""

FEW_COLLECTED = 1000
"""… each run with its own, drawn from these many."""

FEW_SEEDS = 3

FEW_BASELINES: Mapping[str, Any] = {
    "config": {
        **{"batch_size": 8, "learning_rate": 1e-3, "schedule": "cosine", "warmup_steps": 100},
        **{"clip": 1.0, "weight_decay": 0.1},
    },
    "model": {"d_model": 128, "feedforward": 512},
    "epochs_of": "recall",
}
"""What the paper's methods change with few demonstrations, in all tasks alike: fields of a `Condition`. Chosen on other
demonstrations and episodes than those reported; see docs/experiments.md."""

BENCHMARK_SIZES = (100, 300, 1000)
"""Numbers of demonstrations on benchmarks of others."""

ROBOT_DEMONSTRATIONS = (100, 300)
CAMERA_DEMONSTRATIONS = 300
CAMERA_PIXELS = 64
"""A side of what robots see where it costs a CPU a quarter of 128, and all that is lit can be told apart."""

MEMORY_DEMONSTRATIONS = (300, 1000)
MEMORYLESS, PRESENT = "No memory", "-no-memory"
"""Title and end of the condition's name of a network that sees the present alone."""

NO_PRODUCTS, PRODUCTS = ", no products", "-products"
"""End of the title of recall networks that lay recalled vectors beside the one in view and look nothing up in it, and
end of the condition's name of those that do."""

PAPERS_TUNER = "AttentionTuner (paper)"
"""Title where it stands beside what the package uses unless told otherwise."""

RANDOM_PAIRS, CONTROL = "Recall heads, random pairs", "-random-pairs"
"""Title and end of the condition's name of the control."""


def few(line: str, method: str, demos: int, control: str = "", **config: Any) -> Column:
    """A method with so many demonstrations; `control` ends the name of a condition that is not the method itself."""
    own = FEW_BASELINES if method in (VANILLA.method, TUNER.method) else {"config": {}}
    changed = {**own, "config": {**own["config"], **config, "demos": demos}}
    condition = Condition(f"few-{demos}{control}", **changed, collected=FEW_COLLECTED)
    return Column(f"{line}, {demos:,}", method, condition)


def few_columns(sizes: Sequence[int] = FEW) -> list[Column]:
    """A line of columns for each method, and for random pairs."""
    methods = (VANILLA, replace(TUNER, title=PAPERS_TUNER), NO_PAIRS, RECALL)
    lines = [few(column.title, column.method, demos) for column in methods for demos in sizes]
    return lines + [few(RANDOM_PAIRS, "recall", demos, CONTROL, pairs="random") for demos in sizes]


_FEW_METHODS = (("recall", ""), ("recall-vanilla", ""), ("recall", CONTROL), ("vanilla", ""), ("attentiontuner", ""))
"""Lines of `few_columns` in the order they run, with the ends of their conditions' names."""


def few_stages() -> list[Stage]:
    """Size by size, each with recall heads first and the paper's methods last."""
    return [
        Stage(published.TASK_ORDER, (method,), range(1, FEW_SEEDS + 1), (f"few-{demos}{control}",))
        for demos in FEW_FIRST
        for method, control in _FEW_METHODS
    ]


def benchmark_stages(*groups: Sequence[str]) -> list[Stage]:
    """Seed by seed, group of tasks by group, and in each size by size."""
    return [
        Stage(tasks, (method,), (seed,), (f"few-{demos}{control}",))
        for seed in range(1, FEW_SEEDS + 1)
        for tasks in groups
        for demos in BENCHMARK_SIZES
        for method, control in _FEW_METHODS
    ]


def robot_columns() -> list[Column]:
    """A line for the network that sees the present alone (which can but guess: a mixture); then, each without products
    and with them, for the one that sees everything and for the one that is told pairs."""
    lines = []
    for demos in ROBOT_DEMONSTRATIONS:
        alone = few(MEMORYLESS, NO_PAIRS.method, demos, PRESENT)
        lines.append(_with(alone, past=False, action_head="gmm", products=False))
    for line in (NO_PAIRS, RECALL):
        before = [few(line.title + NO_PRODUCTS, line.method, demos) for demos in ROBOT_DEMONSTRATIONS]
        lines += [_with(column, products=False) for column in before]
        lines += [few(line.title, line.method, demos, PRODUCTS) for demos in ROBOT_DEMONSTRATIONS]
    return lines


def _with(column: Column, **model: Any) -> Column:
    return replace(column, condition=replace(column.condition, model=model))


def camera_columns() -> list[Column]:
    """What sees the present alone, everything, and is told pairs, as they are now, where a camera sees what the table
    shows."""
    alone = _with(few(MEMORYLESS, NO_PAIRS.method, CAMERA_DEMONSTRATIONS, PRESENT), past=False, action_head="gmm")
    others = [few(line.title, line.method, CAMERA_DEMONSTRATIONS) for line in (NO_PAIRS, RECALL)]
    return [replace(column, title=column.line, condition=_seen(column.condition)) for column in (alone, *others)]


def _seen(condition: Condition) -> Condition:
    return replace(condition, name=condition.name.replace("few-", "camera-"), settings={"cameras": CAMERA_PIXELS})


_ROBOT_METHODS = tuple((method, control) for control in (PRODUCTS, "") for method in ("recall", "recall-vanilla"))
"""Lines of `robot_columns` in the order they run, with the ends of their conditions' names; the present alone last."""


def robot_stages() -> list[Stage]:
    """Seed by seed; the most demonstrations first, and with pairs before without."""
    return [
        Stage(ROBOT_TASKS, (method,), (seed,), (f"few-{demos}{control}",))
        for seed in range(1, FEW_SEEDS + 1)
        for demos in reversed(ROBOT_DEMONSTRATIONS)
        for method, control in (*_ROBOT_METHODS, ("recall-vanilla", PRESENT))
    ]


def camera_stages() -> list[Stage]:
    """With pairs before without."""
    return [
        Stage(ROBOT_TASKS, (method,), (1,), (f"camera-{CAMERA_DEMONSTRATIONS}{control}",))
        for method, control in (("recall", ""), ("recall-vanilla", ""), ("recall-vanilla", PRESENT))
    ]


def memory_columns() -> list[Column]:
    """A line for each memory without pairs and with them: those that do not grow, then the Transformers."""
    lines = [line for both in zip(BOUNDED_NO_PAIRS, BOUNDED, strict=True) for line in both]
    return [
        few(line.title, line.method, demos)
        for line in (*lines, VANILLA, TUNER, NO_PAIRS, RECALL)
        for demos in MEMORY_DEMONSTRATIONS
    ]


def memory_stages() -> list[Stage]:
    """Seed by seed, the fewest demonstrations first; in each the short tasks before the long ones, with pairs before
    without."""
    lines = (BOUNDED, BOUNDED_NO_PAIRS, (RECALL, NO_PAIRS, TUNER, VANILLA))
    return [
        Stage((task,), [line.method for line in group], (seed,), (f"few-{demos}",))
        for seed in range(1, FEW_SEEDS + 1)
        for demos in MEMORY_DEMONSTRATIONS
        for task in MEMORY_TASKS
        for group in lines
    ]
