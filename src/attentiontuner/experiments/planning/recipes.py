"""The recipes as data: which experiments a table of the paper is made of. Nothing here trains or reads files.

To add a method, give it columns; to add a table, give it a row of `RECIPES`. Columns of the paper's methods are made in
`paper_columns`, of recall heads in `recall_columns`, lines over the number of demonstrations in `few_demonstrations`.
"""

from collections.abc import Sequence
from dataclasses import replace

from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.few_demonstrations import (
    BENCHMARK_SIZES,
    CAMERA_DEMONSTRATIONS,
    FEW_SEEDS,
    benchmark_stages,
    camera_columns,
    camera_stages,
    few_columns,
    few_stages,
    memory_columns,
    memory_stages,
    robot_columns,
    robot_stages,
)
from attentiontuner.experiments.planning.paper_columns import (
    CONTROLS,
    IMPRECISE_P,
    IMPRECISE_PQ,
    MISSING,
    PADDING,
    PLACEMENT,
    PRECISION,
    SCALING,
    SPLIT,
    TABLE1_STAGES,
)
from attentiontuner.experiments.planning.recall_columns import (
    FIRST_EDITION,
    LONGER,
    MODULUS,
    RECALL_ABLATION,
    RECALL_ABLATION_IMAGES,
    RECALL_LABELS,
    RECALL_STAGES,
    SLOPPY,
    SPARSE,
)
from attentiontuner.experiments.planning.recipe import NO_PAIRS, RECALL, TUNER, VANILLA, Column, Recipe
from attentiontuner.experiments.planning.task_groups import (
    ABLATION_TASKS,
    MEMORY_TASKS,
    MINIGRID_TASKS,
    POPGYM_TASKS,
    ROBOT_TASKS,
)
from attentiontuner.methods import all_methods, get_method

OWN_METHODS = "own"
"""The folder of records of methods that no recipe has."""

BENCHMARKS = ("popgym", "minigrid-memory")
"""Recipes of many tasks, of which those are shown that have records; with their returns."""

BY_DEMONSTRATIONS = ("few", "robots", "memories", *BENCHMARKS)
"""Recipes whose columns are lines over the number of demonstrations."""

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "table1",
            "Success of both methods on six tasks (Table 1)",
            published.TASK_ORDER,
            (VANILLA, TUNER),
            more_seeds=published.MORE_SEEDS,
            stages=TABLE1_STAGES,
        ),
        Recipe(
            "placement",
            "Where the memory loss is applied (Table 2)",
            ABLATION_TASKS,
            PLACEMENT,
        ),
        Recipe(
            "missing",
            "Share of trajectories that are annotated (Figure 5, Table 6)",
            ABLATION_TASKS,
            MISSING,
        ),
        Recipe(
            "imprecise-p",
            "Perturbed p: standard deviation in steps (Table 7)",
            ABLATION_TASKS,
            IMPRECISE_P,
        ),
        Recipe(
            "imprecise-pq",
            "Perturbed p and q: standard deviation in steps (Table 8)",
            ABLATION_TASKS,
            IMPRECISE_PQ,
        ),
        Recipe(
            "scaling",
            "Vanilla with more demonstrations (Figure 6)",
            ABLATION_TASKS,
            SCALING,
        ),
        Recipe(
            "split",
            "Pairs split over four heads (Appendix B, Figure 10)",
            ("searing-spotlights",),
            SPLIT,
        ),
        Recipe("value", "What an annotation is worth (Appendix L)", includes=("missing", "scaling")),
        Recipe(
            "few",
            "Few demonstrations: what a person can record in an afternoon (not in the paper)",
            published.TASK_ORDER,
            few_columns(),
            seeds=FEW_SEEDS,
            stages=few_stages(),
        ),
        Recipe(
            "robots",
            "A robot's arm: what is remembered decides where it goes (not in the paper)",
            ROBOT_TASKS,
            robot_columns(),
            seeds=FEW_SEEDS,
            stages=robot_stages(),
        ),
        Recipe(
            "robots-camera",
            f"A robot's arm seen by a camera, {CAMERA_DEMONSTRATIONS} demonstrations (not in the paper)",
            ROBOT_TASKS,
            camera_columns(),
            seeds=1,
            stages=camera_stages(),
        ),
        Recipe(
            "memories",
            "Memories that do not grow, beside Transformers (not in the paper)",
            MEMORY_TASKS,
            memory_columns(),
            seeds=FEW_SEEDS,
            stages=memory_stages(),
        ),
        Recipe(
            "popgym",
            "Nine games of POPGym at three levels (not in the paper)",
            POPGYM_TASKS,
            few_columns(BENCHMARK_SIZES),
            seeds=FEW_SEEDS,
            stages=benchmark_stages(*(POPGYM_TASKS[level::3] for level in range(3))),
        ),
        Recipe(
            "minigrid-memory",
            "Minigrid's memory corridor (not in the paper)",
            MINIGRID_TASKS,
            few_columns(BENCHMARK_SIZES),
            seeds=FEW_SEEDS,
            stages=benchmark_stages(MINIGRID_TASKS[3:4], MINIGRID_TASKS),
        ),
        Recipe(
            "controls",
            "Wrong pairs in place of the expert's (not in the paper)",
            ABLATION_TASKS,
            CONTROLS,
        ),
        Recipe(
            "padding",
            "Padding that is learned from the second epoch on (not in the paper)",
            ("hallway",),
            PADDING,
        ),
        Recipe(
            "precision",
            "Hallway in bfloat16 and in float32 (not in the paper)",
            ("hallway",),
            PRECISION,
        ),
        Recipe(
            "recall",
            "Recall heads on six tasks (not in the paper)",
            published.TASK_ORDER,
            (TUNER, NO_PAIRS, RECALL),
            stages=RECALL_STAGES,
        ),
        Recipe(
            "first-edition",
            "Recall heads as they were before 0.2 (not in the paper)",
            published.TASK_ORDER,
            (Column("First edition, no pairs", "recall-vanilla", FIRST_EDITION.condition), FIRST_EDITION),
        ),
        Recipe(
            "recall-ablation",
            "Recall heads with each part taken away, symbols, 100 demonstrations (not in the paper)",
            ("hallway", "ordering", "counting"),
            RECALL_ABLATION,
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "recall-ablation-images",
            "Recall heads with each part taken away, images, 300 demonstrations (not in the paper)",
            ("mortar-mayhem", "mystery-path", "searing-spotlights"),
            RECALL_ABLATION_IMAGES,
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "sloppy",
            "Labels that are a few steps off: standard deviation of p and q (not in the paper)",
            ("hallway", "ordering", "counting", "mortar-mayhem"),
            SLOPPY,
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "sparse",
            "Labels of a few demonstrations (not in the paper)",
            ("hallway", "ordering", "counting", "mortar-mayhem"),
            SPARSE,
            seeds=FEW_SEEDS,
        ),
        Recipe(
            "recall-labels",
            "Recall heads with few annotated trajectories (not in the paper)",
            ("counting",),
            RECALL_LABELS,
        ),
        Recipe(
            "modulus",
            "Counting that is not parity: three doors (not in the paper)",
            ("counting",),
            MODULUS,
        ),
        Recipe(
            "longer",
            "Recall heads in longer worlds than those of the training set (not in the paper)",
            ("counting", "hallway", "ordering"),
            LONGER,
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
