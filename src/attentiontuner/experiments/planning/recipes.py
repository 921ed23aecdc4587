"""The recipes as data: which experiments a table of the paper is made of. Nothing here trains or reads files.

A **condition** is a named change to the standard experiment of a method, and its name means the same experiment in
every recipe. To add a method, give it columns; to add a table, give it a row of `RECIPES`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning import published
from attentiontuner.methods import all_methods, get_method
from attentiontuner.models.sizes import BEFORE

OWN_METHODS = "own"
"""The folder of records of methods that no recipe has."""


@dataclass(frozen=True)
class Condition:
    """A named change to the standard experiment of a method.

    Attributes:
        name: in file names and on the command line; the same name is the same experiment in every recipe.
        config: fields of `TrainConfig`; in `heads`, {first}, {middle} and {last} stand for the model's layers.
        model: fields of the network's configuration.
        settings: environment settings.
        demos: how many times the task's demonstrations are collected.
        collected: how many are collected in place of that, or the scale's own number where that is smaller; how many of
            them a run draws for training is `config["demos"]`.
        epochs: how many times the task's epochs, for those tasks in which that differs from 1.
        epochs_of: the method whose recipe says how many epochs there are, in place of its own.
        longer: evaluated also in worlds this many times as long as those it was trained in (setting `length`).
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    demos: int = 1
    collected: int | None = None
    epochs: Mapping[str, float] = field(default_factory=dict)
    epochs_of: str | None = None
    longer: Sequence[float] = ()


STANDARD = Condition("standard")


@dataclass(frozen=True)
class Column:
    """One column of a recipe's table. `longer`: success in worlds this many times as long, one of the condition's."""

    title: str
    method: str
    condition: Condition = STANDARD
    longer: float = 1

    @property
    def line(self) -> str:
        """The title without what stands after its last comma: what the points of one line in a figure share."""
        return self.title.rpartition(", ")[0]


@dataclass(frozen=True)
class Stage:
    """Cells to run before others: a cell belongs to the first stage that names its task, method, seed and condition
    (no condition named: any)."""

    tasks: Sequence[str]
    methods: Sequence[str]
    seeds: Sequence[int]
    conditions: Sequence[str] = ()


@dataclass(frozen=True)
class Recipe:
    """One table (or figure): tasks down, columns across, seeds behind every entry.

    Attributes:
        seeds: how many an entry has, five as in the paper unless said.
        more_seeds: (task, method) with another number of seeds.
        stages: the order in which cells run; without them by seed, task, column.
        includes: recipes whose cells this one is computed from; it then has none of its own.
    """

    name: str
    title: str
    tasks: Sequence[str] = ()
    columns: Sequence[Column] = ()
    seeds: int = published.SEEDS
    more_seeds: Mapping[tuple[str, str], int] = field(default_factory=dict)
    stages: Sequence[Stage] = ()
    includes: Sequence[str] = ()


# --- the table of recipes --------------------------------------------------------------------------------------------

VANILLA = Column("Vanilla", "vanilla")
TUNER = Column("AttentionTuner", "attentiontuner")
RECALL = Column("Recall heads", "recall")
NO_PAIRS = Column("Recall network, no pairs", "recall-vanilla")
BOUNDED = tuple(Column(get_method(name).title, name) for name in ("gru", "lru", "slots"))
BOUNDED_NO_PAIRS = tuple(
    Column(get_method(name).title, name) for name in ("gru-vanilla", "lru-vanilla", "slots-vanilla")
)
PADDED = Condition("padding-learned", {"learn_padding": True})
ABLATION_TASKS = ("mortar-mayhem", "hallway")
SOLVED_TASKS = ("hallway", "ordering", "mortar-mayhem", "mystery-path")
OTHER_TASKS = ("searing-spotlights", "counting")
ROBOT_TASKS = ("remember-reach", "remember-colour", "blink-count")
POPGYM_GAMES = (
    *("count-recall", "repeat-first", "repeat-previous", "autoencode"),
    *("higher-lower", "concentration", "battleship"),
    *("position-only-pendulum", "noisy-position-only-pendulum"),
)
TMAZES = ("tmaze-300", "tmaze-1000")
MEMORY_TASKS = ("hallway", "counting", *TMAZES)
POPGYM_LEVELS = ("easy", "medium", "hard")
POPGYM_TASKS = tuple(f"popgym-{game}-{level}" for game in POPGYM_GAMES for level in POPGYM_LEVELS)
MINIGRID_TASKS = tuple(f"minigrid-memory-s{size}" for size in ("7", "9", "11", "13", "13-random", "17-random"))
LONGER_WORLDS = (1.5, 2, 3, 4)

FEW = (20, 50, 100, 300, 1000)
FEW_FIRST = (100, 300, 50, 1000, 20)
"""Numbers of demonstrations a person can record, and the order in which they run…"""

BENCHMARK_SIZES = (100, 300, 1000)
"""Numbers of demonstrations on benchmarks of others."""

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

_FIRST = Condition("first-edition", {"weight_decay": 0.0}, BEFORE)
FIRST_EDITION = Column("First edition", "recall", _FIRST)

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

ROBOT_DEMONSTRATIONS = (100, 300)
CAMERA_DEMONSTRATIONS = 300
MEMORY_DEMONSTRATIONS = (300, 1000)
MEMORYLESS, PRESENT = "No memory", "-no-memory"
"""Title and end of the condition's name of a network that sees the present alone."""

BENCHMARKS = ("popgym", "minigrid-memory")
"""Recipes of many tasks, of which those are shown that have records; with their returns."""

BY_DEMONSTRATIONS = ("few", "robots", "memories", *BENCHMARKS)
"""Recipes whose columns are lines over the number of demonstrations."""

RANDOM_PAIRS, CONTROL = "Recall heads, random pairs", "-random-pairs"
"""Title and end of the condition's name of the control."""


def _placed(title: str, name: str, heads: str) -> Column:
    return Column(title, "attentiontuner", Condition(name, {"heads": heads}))


def _annotated(percent: str, epochs: Mapping[str, float] | None = None) -> Column:
    condition = Condition(f"annotated-{percent}", {"annotated_fraction": float(percent) / 100}, epochs=epochs or {})
    return Column(f"{percent} %", "attentiontuner", condition)


def _noisy(deviation: str, both: bool) -> Column:
    config = {"noise_p": float(deviation)} | ({"noise_q": float(deviation)} if both else {})
    return Column(deviation, "attentiontuner", Condition(f"noise-{'pq' if both else 'p'}-{deviation}", config))


def _more_data(times: int) -> Column:
    return Column(f"Vanilla {times}×", "vanilla", Condition(f"demos-{times}x", demos=times))


def _precise(title: str, precision: str) -> Column:
    condition = Condition(f"precision-{precision}", {"precision": precision}, epochs={"hallway": 0.6})
    return Column(title, "attentiontuner", condition)


def _changed(title: str, name: str, **config: Any) -> Column:
    return Column(title, "recall", Condition(name, config))


def _few(line: str, method: str, demos: int, control: str = "", **config: Any) -> Column:
    own = FEW_BASELINES if method in (VANILLA.method, TUNER.method) else {"config": {}}
    changed = {**own, "config": {**own["config"], **config, "demos": demos}}
    condition = Condition(f"few-{demos}{control}", **changed, collected=FEW_COLLECTED)
    return Column(f"{line}, {demos:,}", method, condition)


def _few_columns(sizes: Sequence[int] = FEW) -> list[Column]:
    """A line of columns for each method, and for random pairs."""
    lines = [
        _few(column.title, column.method, demos) for column in (VANILLA, TUNER, NO_PAIRS, RECALL) for demos in sizes
    ]
    return lines + [_few(RANDOM_PAIRS, "recall", demos, CONTROL, pairs="random") for demos in sizes]


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
    few = [
        _marked(f"{number} of {demos:,}", demos, f"few-{number}", annotated_fraction=number / demos) for number in SOME
    ]
    ten = {"annotated_fraction": 10 / demos, **_off(2)}
    return [*few, _marked(f"10 of {demos:,}, σ = 2", demos, "few-10-off-2", **ten)]


def _robot_columns() -> list[Column]:
    """A line for the network that sees the present alone (which can but guess: a mixture), for the one that sees
    everything, and with pairs."""
    lines = []
    for demos in ROBOT_DEMONSTRATIONS:
        alone = _few(MEMORYLESS, NO_PAIRS.method, demos, PRESENT)
        lines.append(replace(alone, condition=replace(alone.condition, model={"past": False, "action_head": "gmm"})))
    return lines + [
        _few(line.title, line.method, demos) for line in (NO_PAIRS, RECALL) for demos in ROBOT_DEMONSTRATIONS
    ]


def _camera_columns() -> list[Column]:
    """The lines of `_robot_columns` with the most demonstrations, where a camera sees what the table shows."""
    suffix = f", {CAMERA_DEMONSTRATIONS:,}"
    return [
        replace(
            column,
            title=column.line,
            condition=replace(
                column.condition,
                name=column.condition.name.replace("few-", "camera-"),
                settings={"cameras": True},
            ),
        )
        for column in _robot_columns()
        if column.title.endswith(suffix)
    ]


def _robot_stages() -> list[Stage]:
    """Seed by seed; the most demonstrations first, and with pairs before without."""
    lines = (("recall", ""), ("recall-vanilla", ""), ("recall-vanilla", PRESENT))
    return [
        Stage(ROBOT_TASKS, (method,), (seed,), (f"few-{demos}{control}",))
        for seed in range(1, FEW_SEEDS + 1)
        for demos in reversed(ROBOT_DEMONSTRATIONS)
        for method, control in lines
    ]


def _memory_columns() -> list[Column]:
    """A line for each memory without pairs and with them: those that do not grow, then the Transformers."""
    lines = [line for both in zip(BOUNDED_NO_PAIRS, BOUNDED, strict=True) for line in both]
    return [
        _few(line.title, line.method, demos)
        for line in (*lines, VANILLA, TUNER, NO_PAIRS, RECALL)
        for demos in MEMORY_DEMONSTRATIONS
    ]


def _memory_stages() -> list[Stage]:
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


def _parts(demos: int, parts: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Recall heads with so many demonstrations, whole and without each of the parts."""
    whole = replace(_few(RECALL.title, "recall", demos), title=RECALL.title)
    columns = [whole]
    for title, part in parts.items():
        name = f"{whole.condition.name}-{title.lower().replace(' ', '-')}"
        config = {**whole.condition.config, **part.get("config", {})}
        condition = replace(whole.condition, name=name, config=config, model=part.get("model", {}))
        columns.append(replace(whole, title=title, condition=condition))
    return columns


_FEW_METHODS = (("recall", ""), ("recall-vanilla", ""), ("recall", CONTROL), ("vanilla", ""), ("attentiontuner", ""))
"""Lines of `_few_columns` in the order they run, with the ends of their conditions' names."""


def _few_stages() -> list[Stage]:
    """Size by size, each with recall heads first and the paper's methods last."""
    return [
        Stage(published.TASK_ORDER, (method,), range(1, FEW_SEEDS + 1), (f"few-{demos}{control}",))
        for demos in FEW_FIRST
        for method, control in _FEW_METHODS
    ]


def _benchmark_stages(*groups: Sequence[str]) -> list[Stage]:
    """Seed by seed, group of tasks by group, and in each size by size."""
    return [
        Stage(tasks, (method,), (seed,), (f"few-{demos}{control}",))
        for seed in range(1, FEW_SEEDS + 1)
        for tasks in groups
        for demos in BENCHMARK_SIZES
        for method, control in _FEW_METHODS
    ]


def _carried_over(title: str, condition: Condition) -> list[Column]:
    return [Column(f"{title}, {times:g}×", "recall", condition, times) for times in (1, *condition.longer)]


_LONGER = {"mortar-mayhem": 2.0}
"""Appendix E: Mortar Mayhem with 0.1 % and 1 % of annotations was trained for 600 epochs instead of 300."""

_RECALL_STAGES = (Stage(("counting",), ("recall",), range(1, 6)), Stage(published.TASK_ORDER, ("recall",), (1,)))

_TABLE1_STAGES = (
    Stage(SOLVED_TASKS, ("attentiontuner",), range(1, 4)),
    Stage(SOLVED_TASKS, ("vanilla",), range(1, 4)),
    Stage(SOLVED_TASKS, ("attentiontuner", "vanilla"), range(4, 6)),
    Stage(OTHER_TASKS, ("attentiontuner", "vanilla"), range(1, 6)),
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "table1",
            "Success of both methods on six tasks (Table 1)",
            published.TASK_ORDER,
            (VANILLA, TUNER),
            more_seeds=published.MORE_SEEDS,
            stages=_TABLE1_STAGES,
        ),
        # "None" has the very numbers of the vanilla runs elsewhere in the paper, so it is those runs here too.
        # Of four layers the paper does not say which is the middle one; {middle} is the third.
        Recipe(
            "placement",
            "Where the memory loss is applied (Table 2)",
            ABLATION_TASKS,
            (
                replace(VANILLA, title="None"),
                _placed("First, all", "first-layer-all-heads", "{first}:all"),
                _placed("Middle, all", "middle-layer-all-heads", "{middle}:all"),
                _placed("Last, all", "last-layer-all-heads", "{last}:all"),
                replace(TUNER, title="First, single"),
                _placed("Middle, single", "middle-layer-one-head", "{middle}:1"),
                _placed("Last, single", "last-layer-one-head", "{last}:1"),
            ),
        ),
        Recipe(
            "missing",
            "Share of trajectories that are annotated (Figure 5, Table 6)",
            ABLATION_TASKS,
            (
                replace(VANILLA, title="0 %"),
                _annotated("0.1", _LONGER),
                _annotated("1", _LONGER),
                _annotated("5"),
                _annotated("10"),
                _annotated("90"),
                replace(TUNER, title="100 %"),
            ),
        ),
        Recipe(
            "imprecise-p",
            "Perturbed p: standard deviation in steps (Table 7)",
            ABLATION_TASKS,
            (replace(TUNER, title="0"), *(_noisy(deviation, False) for deviation in ("1", "2", "5", "10", "20"))),
        ),
        Recipe(
            "imprecise-pq",
            "Perturbed p and q: standard deviation in steps (Table 8)",
            ABLATION_TASKS,
            (replace(TUNER, title="0"), *(_noisy(deviation, True) for deviation in ("0.5", "0.75", "1", "1.5", "2"))),
        ),
        Recipe(
            "scaling",
            "Vanilla with more demonstrations (Figure 6)",
            ABLATION_TASKS,
            (
                replace(VANILLA, title="Vanilla 1×"),
                _more_data(2),
                _more_data(4),
                replace(TUNER, title="AttentionTuner 1×"),
            ),
        ),
        Recipe(
            "split",
            "Pairs split over four heads (Appendix B, Figure 10)",
            ("searing-spotlights",),
            (
                VANILLA,
                TUNER,
                Column(
                    "Split over 4 heads",
                    "attentiontuner",
                    Condition("split-4-heads", {"heads": "{first}:all", "split_pairs": True}, {"heads": 4}),
                ),
            ),
        ),
        Recipe("value", "What an annotation is worth (Appendix L)", includes=("missing", "scaling")),
        Recipe(
            "few",
            "Few demonstrations: what a person can record in an afternoon (not in the paper)",
            published.TASK_ORDER,
            _few_columns(),
            seeds=FEW_SEEDS,
            stages=_few_stages(),
        ),
        Recipe(
            "robots",
            "A robot's arm: what is remembered decides where it goes (not in the paper)",
            ROBOT_TASKS,
            _robot_columns(),
            seeds=FEW_SEEDS,
            stages=_robot_stages(),
        ),
        Recipe(
            "robots-camera",
            f"A robot's arm seen by a camera, {CAMERA_DEMONSTRATIONS} demonstrations (not in the paper)",
            ROBOT_TASKS,
            _camera_columns(),
            seeds=1,
            stages=[Stage((task,), (method,), (1,)) for task in ROBOT_TASKS for method in ("recall", "recall-vanilla")],
        ),
        Recipe(
            "memories",
            "Memories that do not grow, beside Transformers (not in the paper)",
            MEMORY_TASKS,
            _memory_columns(),
            seeds=FEW_SEEDS,
            stages=_memory_stages(),
        ),
        Recipe(
            "popgym",
            "Nine games of POPGym at three levels (not in the paper)",
            POPGYM_TASKS,
            _few_columns(BENCHMARK_SIZES),
            seeds=FEW_SEEDS,
            stages=_benchmark_stages(*(POPGYM_TASKS[level::3] for level in range(3))),
        ),
        Recipe(
            "minigrid-memory",
            "Minigrid's memory corridor (not in the paper)",
            MINIGRID_TASKS,
            _few_columns(BENCHMARK_SIZES),
            seeds=FEW_SEEDS,
            stages=_benchmark_stages(MINIGRID_TASKS[3:4], MINIGRID_TASKS),
        ),
        Recipe(
            "controls",
            "Wrong pairs in place of the expert's (not in the paper)",
            ABLATION_TASKS,
            (
                VANILLA,
                Column("Random pairs", "attentiontuner", Condition("random-pairs", {"pairs": "random"})),
                Column("Shuffled pairs", "attentiontuner", Condition("shuffled-pairs", {"pairs": "shuffled"})),
                TUNER,
            ),
        ),
        Recipe(
            "padding",
            "Padding that is learned from the second epoch on (not in the paper)",
            ("hallway",),
            (
                VANILLA,
                replace(VANILLA, title="Vanilla, padding learned", condition=PADDED),
                TUNER,
                replace(TUNER, title="AttentionTuner, padding learned", condition=PADDED),
            ),
        ),
        # On a GPU; on a CPU "auto" is float32 too.
        Recipe(
            "precision",
            "Hallway in bfloat16 and in float32 (not in the paper)",
            ("hallway",),
            (_precise("bfloat16", "auto"), _precise("float32", "float32")),
        ),
        Recipe(
            "recall",
            "Recall heads on six tasks (not in the paper)",
            published.TASK_ORDER,
            (TUNER, NO_PAIRS, RECALL),
            stages=_RECALL_STAGES,
        ),
        Recipe(
            "first-edition",
            "Recall heads as they were before 0.2 (not in the paper)",
            published.TASK_ORDER,
            (
                Column("First edition, no pairs", "recall-vanilla", _FIRST),
                FIRST_EDITION,
            ),
        ),
        Recipe(
            "recall-ablation",
            "Recall heads with each part taken away, symbols, 100 demonstrations (not in the paper)",
            ("hallway", "ordering", "counting"),
            _parts(100, {**PARTS, **PARTS_OF_SYMBOLS}),
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "recall-ablation-images",
            "Recall heads with each part taken away, images, 300 demonstrations (not in the paper)",
            ("mortar-mayhem", "mystery-path", "searing-spotlights"),
            _parts(300, {**PARTS, **PARTS_OF_IMAGES}),
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "sloppy",
            "Labels that are a few steps off: standard deviation of p and q (not in the paper)",
            ("hallway", "ordering", "counting", "mortar-mayhem"),
            (
                *(column for demos in LABELLED for column in _sloppy(demos)),
                _changed("The paper's number, σ = 2", "readings-off-2", labels="readings", **_off(2)),
            ),
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "sparse",
            "Labels of a few demonstrations (not in the paper)",
            ("hallway", "ordering", "counting", "mortar-mayhem"),
            (
                *(column for demos in LABELLED for column in _sparse(demos)),
                _changed("0.1 %", "readings-few-0.1", labels="readings", annotated_fraction=0.001),
                _changed("1 %", "readings-few-1", labels="readings", annotated_fraction=0.01),
            ),
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "recall-labels",
            "Recall heads with few annotated trajectories (not in the paper)",
            ("counting",),
            (
                _changed("1 %", "annotated-1", annotated_fraction=0.01),
                _changed("10 %", "annotated-10", annotated_fraction=0.1),
                replace(RECALL, title="100 %"),
            ),
        ),
        Recipe(
            "modulus",
            "Counting that is not parity: three doors (not in the paper)",
            ("counting",),
            (
                replace(RECALL, title="Two doors"),
                Column("Three doors", "recall", Condition("modulus-3", settings={"modulus": 3})),
            ),
        ),
        Recipe(
            "longer",
            "Recall heads in longer worlds than those of the training set (not in the paper)",
            ("counting", "hallway", "ordering"),
            (
                *_carried_over("Recall heads", Condition("longer", longer=LONGER_WORLDS)),
                *_carried_over(
                    "Without positions",
                    Condition("longer-no-positions", model={"positions": False}, longer=LONGER_WORLDS),
                ),
            ),
        ),
    )
}


def get_recipe(name: str) -> Recipe:
    """The recipe called `name`."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}: the recipes are {', '.join(RECIPES)}")
    return RECIPES[name]


def of_methods(recipe: Recipe, methods: Sequence[str]) -> Recipe:
    """The standard experiments of other methods on the tasks of a recipe."""
    columns = tuple(Column(get_method(method).title, method) for method in methods)
    return replace(recipe, columns=columns, stages=(), includes=())


def method_titles() -> dict[str, str]:
    """What people call the methods, in the order of tables and figures."""
    return {name: method.title for name, method in all_methods().items()}


def home_of(task: str, method: str, condition: str) -> str:
    """The first recipe that has this experiment: its record lives there; `own` for a method that no recipe has."""
    for recipe in RECIPES.values():
        for column in recipe.columns:
            if task in recipe.tasks and (column.method, column.condition.name) == (method, condition):
                return recipe.name
    return OWN_METHODS
