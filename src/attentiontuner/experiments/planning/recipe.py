"""What a recipe is made of: conditions, columns, stages; and the column of each method as it is.

A **condition** is a named change to the standard experiment of a method, and its name means the same experiment in
every recipe.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attentiontuner.experiments.planning import published
from attentiontuner.methods import get_method


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


VANILLA = Column("Vanilla", "vanilla")
TUNER = Column("AttentionTuner", "attentiontuner")
RECALL = Column("Recall heads", "recall")
NO_PAIRS = Column("Recall network, no pairs", "recall-vanilla")
BOUNDED = tuple(Column(get_method(name).title, name) for name in ("gru", "lru", "slots"))
BOUNDED_NO_PAIRS = tuple(
    Column(get_method(name).title, name) for name in ("gru-vanilla", "lru-vanilla", "slots-vanilla")
)
