"""Cells: one experiment each, resolved at a scale. Expansion of a recipe into cells is pure.

A **cell** is task × method × condition × seed at a scale: one training run and its evaluation. Recipes that share a
(task, method, condition) share the record, which lives in the folder of the first recipe of `RECIPES` that has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.experiments.planning.recipe import Column, Condition, Recipe
from attentiontuner.experiments.planning.recipes import RECIPES, home_of
from attentiontuner.experiments.planning.scales import Scale, Sizes, get_scale
from attentiontuner.experiments.planning.task_groups import (
    MINIGRID_TASKS,
    OTHER_TASKS,
    POPGYM_TASKS,
    ROBOT_TASKS,
    SOLVED_TASKS,
    TMAZES,
)
from attentiontuner.methods import DataFacts, get_method
from attentiontuner.runs.config import TrainConfig, paper_config
from attentiontuner.tasks.task import Task, get_task

TRAIN_DATA_SEED = 0
TEST_DATA_SEED = 1
EVALUATION_SEED = 0


@dataclass(frozen=True)
class Cell:
    """One experiment, resolved: equal cells are the same experiment.

    Attributes:
        home: the recipe whose folder holds the record.
        settings: environment settings that differ from the task's own.
        demos, test_demos: sizes of the data sets with seeds 0 and 1.
        episodes: evaluation episodes, evaluation seed 0.
        config: fields of `TrainConfig` that differ from the paper's, the network's under `model`.
        lengths: values of the setting `length` it is evaluated at besides its own.
    """

    home: str
    scale: str
    task: str
    method: str
    condition: str
    seed: int
    demos: int
    test_demos: int
    episodes: int
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    lengths: Sequence[int] = ()

    @property
    def name(self) -> str:
        """Its name in messages and, with `.json`, its record's file name."""
        return f"{self.task}--{self.method}--{self.condition}--seed{self.seed}"

    @property
    def folder(self) -> str:
        """The folder of its record: the home recipe at paper scale, `<home>-<scale>` otherwise."""
        return folder_of(self.home, self.scale)

    @property
    def epochs(self) -> int:
        return int(self.config["epochs"])

    @property
    def facts(self) -> DataFacts:
        """What it trains on, as far as that is known before anything is collected."""
        return _facts(self.config, self.demos)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Cell":
        return cls(**value)


def folder_of(home: str, scale: str) -> str:
    return home if scale == "paper" else f"{home}-{scale}"


def planned_seeds(recipe: Recipe, task: str, method: str, scale: Scale) -> range:
    """The seeds an entry of the recipe's table asks for, from 1."""
    return range(1, min(recipe.more_seeds.get((task, method), recipe.seeds), scale.seeds) + 1)


def make_cell(task: str, column: Column, seed: int, scale_name: str) -> Cell:
    """The cell of one column, resolved at a scale."""
    scale, condition = get_scale(scale_name), column.condition
    small = scale.sizes(task)
    settings = {**(small.settings if small else {}), **condition.settings}
    row = get_task(task, settings)
    method = get_method(column.method)
    known = {item.name for item in fields(method.network)}
    model = {**scale.model(method.network.architecture, row.observation.kinds, known), **condition.model}
    own = small.demos if small else row.demonstrations
    demos = own * condition.demos if condition.collected is None else min(condition.collected, own)
    config: dict[str, Any] = {**scale.config, **condition.config, "model": model}
    if "demos" in config:
        config["demos"] = min(config["demos"], demos)
    facts = _facts(config, demos)
    config["epochs"] = max(1, round(_epochs(row, column.method, condition, small, facts)))
    if "heads" in config:
        layers = int(model.get("layers", 4))
        config["heads"] = config["heads"].format(first=1, middle=layers // 2 + 1, last=layers)
    return Cell(
        home=home_of(task, column.method, condition.name),
        scale=scale.name,
        task=task,
        method=column.method,
        condition=condition.name,
        seed=seed,
        demos=demos,
        test_demos=scale.test_demos,
        episodes=scale.episodes,
        settings=settings,
        config=config,
        lengths=[longer_length(task, settings, times) for times in condition.longer],
    )


def _facts(config: Mapping[str, Any], demos: int) -> DataFacts:
    return DataFacts(config.get("demos", demos), config.get("annotated_fraction", 1.0))


def _epochs(task: Task, method: str, condition: Condition, sizes: Sizes | None, facts: DataFacts) -> float:
    """The scale's epochs, else the recipe's for such data. A condition that says how many demonstrations there are
    follows the recipe at every scale, as far as no more are seen in all than in the scale's own epochs."""
    epochs = get_method(condition.epochs_of or method).recipe(task, facts).get("epochs", TrainConfig.epochs)
    scaled = None if sizes is None else sizes.epochs.get(method, sizes.epochs.get("*"))
    if condition.collected is None:
        return float(epochs if scaled is None else scaled) * condition.epochs.get(task.name, 1)
    if sizes is not None and scaled is not None:
        epochs = min(epochs, scaled * sizes.demos / facts.demonstrations)
    return float(epochs)


def cell_config(cell: Cell, task: Task | None = None) -> TrainConfig:
    """The training configuration of a cell: the paper's, with the cell's changes; the scripted expert annotates, and is
    right."""
    chosen = {"annotator": EXPERT, "labels": "exact", **cell.config, "seed": cell.seed}
    return paper_config(task or get_task(cell.task, cell.settings), cell.method, data=cell.facts, **chosen)


def longer_length(task: str, settings: Mapping[str, Any], times: float) -> int:
    """The setting `length` of a world this many times as long."""
    return round(int({**get_task(task).settings, **settings}["length"]) * times)


def expand(recipe: Recipe, scale: str = "paper", only: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Cell]:
    """The cells of a recipe in the order they should run, each once.

    `only` names tasks, methods and conditions: a cell stays if it fits each of these kinds that is named at all.
    """
    cells = {(cell.folder, cell.name): cell for cell in all_cells(recipe, scale)}.values()
    chosen: dict[str, set[str]] = {}
    for word in only:
        kinds = [kind for kind in ("task", "method", "condition") if any(getattr(cell, kind) == word for cell in cells)]
        if not kinds:
            raise UserError(f"--only {word}: recipe {recipe.name!r} has no such task, method or condition")
        for kind in kinds:
            chosen.setdefault(kind, set()).add(word)
    known = {cell.seed for cell in cells}
    if known and (unknown := set(seeds) - known):
        raise UserError(
            f"--seeds: recipe {recipe.name!r} at scale {scale!r} has no seed {min(unknown)}, its last is {max(known)}"
        )
    kept = [
        cell
        for cell in cells
        if all(getattr(cell, kind) in words for kind, words in chosen.items()) and (not seeds or cell.seed in seeds)
    ]
    if not kept:
        chosen_by = " with these --only and --seeds" if only or seeds else ""
        raise UserError(f"recipe {recipe.name!r} at scale {scale!r} has no cell{chosen_by}")
    return sorted(kept, key=lambda cell: (_stage(recipe, cell), cell.seed))


def all_cells(recipe: Recipe, scale: str) -> Iterator[Cell]:
    """The cells of a recipe as its table has them; one that two columns share comes twice."""
    for name in recipe.includes:
        yield from all_cells(RECIPES[name], scale)
    for task in sorted(recipe.tasks, key=_running_order):
        if not get_scale(scale).has(task):
            continue
        for column in recipe.columns:
            for seed in planned_seeds(recipe, task, column.method, get_scale(scale)):
                yield make_cell(task, column, seed, scale)


def _running_order(task: str) -> int:
    return (*SOLVED_TASKS, *OTHER_TASKS, *TMAZES, *ROBOT_TASKS, *POPGYM_TASKS, *MINIGRID_TASKS).index(task)


def _stage(recipe: Recipe, cell: Cell) -> int:
    for number, stage in enumerate(recipe.stages):
        named = cell.task in stage.tasks and cell.method in stage.methods and cell.seed in stage.seeds
        if named and (not stage.conditions or cell.condition in stage.conditions):
            return number
    return len(recipe.stages)
