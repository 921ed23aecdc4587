"""How large the experiments are: `paper` as the paper has them, `small` for two CPU cores, `smoke` for the tests."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning.task_groups import MINIGRID_TASKS, POPGYM_TASKS, ROBOT_TASKS, TMAZES


@dataclass(frozen=True)
class Sizes:
    """One task at a scale: environment settings, demonstrations, and epochs by method ("*": every other method;
    those of no entry have the recipe's)."""

    demos: int
    epochs: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """A size of all experiments.

    Attributes:
        tasks: sizes by task, "*" for any other (without it there are no others); empty: each task's own, which are the
            paper's.
        models: fields of the networks: "*" of every one that has them, then by architecture, then by architecture and
            kind of observation ("transformer:grid"); empty: each network's own.
        config: fields of `TrainConfig` that differ from the paper's.
        seeds: the most seeds of an entry.
        episodes: evaluation episodes of a cell.
        test_demos: size of the test set.
    """

    name: str
    about: str
    tasks: Mapping[str, Sizes] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 15
    episodes: int = 1000
    test_demos: int = 200

    def sizes(self, task: str) -> Sizes | None:
        """The sizes of a task; None: its own."""
        return self.tasks.get(task, self.tasks.get("*"))

    def has(self, task: str) -> bool:
        """Whether the task is run at this scale."""
        return not self.tasks or self.sizes(task) is not None

    def model(self, architecture: str, kinds: Iterable[str], known: Collection[str]) -> dict[str, Any]:
        """Fields of a network of that architecture for observations of these kinds; `known` are those it has."""
        names = ["*", architecture, *(f"{architecture}:{kind}" for kind in sorted(kinds))]
        found = {name: value for key in names for name, value in self.models.get(key, {}).items()}
        return {name: value for name, value in found.items() if name in known}


_TINY = {"d_model": 16, "layers": 3, "heads": 2, "feedforward": 32}
_LIGHT = {"d_model": 64, "layers": 3, "heads": 2, "feedforward": 128}

SMOKE = Scale(
    name="smoke",
    about="seconds; shows that everything runs, learns nothing",
    tasks={
        "hallway": Sizes(16, {"*": 2}, {"length": 2}),
        "ordering": Sizes(8, {"*": 2}, {"length": 4}),
        "counting": Sizes(8, {"*": 2}, {"length": 3}),
        "mortar-mayhem": Sizes(4, {"*": 1}, {"command_count": 2}),
        **dict.fromkeys(TMAZES, Sizes(4, {"*": 1}, {"length": 12})),
        "*": Sizes(4, {"*": 1}),
    },
    models={"*": _TINY, "transformer:grid": {"embedder": "lookup"}},
    config={"batch_size": 8, "learning_rate": 1e-3},
    seeds=1,
    episodes=8,
    test_demos=4,
)

# 36 cells of table1 in an hour on two cores, so three minutes a cell on one core; epochs were measured there.
SMALL = Scale(
    name="small",
    about="two CPU cores, an hour for table1",
    tasks={
        "hallway": Sizes(4000, {"*": 30}, {"length": 4}),
        "ordering": Sizes(2000, {"*": 24}, {"length": 10}),
        "counting": Sizes(2000, {"*": 26}, {"length": 6}),
        "mortar-mayhem": Sizes(1000, {"*": 24}, {"command_count": 3}),
        "mystery-path": Sizes(500, {"*": 22}),
        "searing-spotlights": Sizes(300, {"*": 14}),
        "tmaze-300": Sizes(300, settings={"length": 30}),
        "tmaze-1000": Sizes(300, settings={"length": 100}),
        **{task: Sizes(300) for task in (*ROBOT_TASKS, *POPGYM_TASKS, *MINIGRID_TASKS)},
    },
    models={
        "transformer": _LIGHT,
        "transformer:grid": {"embedder": "lookup"},
        "recall:image": _LIGHT,
        "recall:vector": _LIGHT,
    },
    config={"batch_size": 32, "learning_rate": 1e-3},
    seeds=3,
    episodes=200,
    test_demos=100,
)

DEMO = Scale(
    name="demo",
    about="two CPU cores, a few minutes: Hallway with 100 demonstrations, Counting with ten rooms; one seed",
    tasks={"hallway": Sizes(100), "counting": Sizes(6000, {"*": 12}, {"length": 10})},
    seeds=1,
    episodes=300,
    test_demos=100,
)

PAPER = Scale(name="paper", about="the paper's settings; recall networks have settings of their own")

SCALES = {scale.name: scale for scale in (SMOKE, DEMO, SMALL, PAPER)}


def get_scale(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise UserError(f"unknown scale {name!r}: the scales are {', '.join(SCALES)}")
    return SCALES[name]
