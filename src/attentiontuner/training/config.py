"""What a training run is: every choice that changes its result, checked when made and saved with the run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from attentiontuner.demos.writer import plain_settings
from attentiontuner.errors import UserError
from attentiontuner.models import model_config_from_json
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.recall import RECALL_HEAD, RecallConfig
from attentiontuner.models.transformer import TransformerConfig
from attentiontuner.tasks import PAPER_EPOCHS, Task

PAPER_MEMORY_WEIGHT = 10.0


@dataclass(frozen=True)
class Method:
    """A way to learn from demonstrations: its network, where its recipe differs from the usual, and whether it is told
    the memory pairs. Without them its memory weight is always 0."""

    network: type
    recipe: Mapping[str, Any] = field(default_factory=dict)
    pairs: bool = True


RECALL_DEMONSTRATIONS = 120_000
"""How many demonstrations a recall network sees on a task, each of the data set's as often as that takes…"""

RECALL_EPOCHS = 10
"""… and at least this often."""

_RECALL_RECIPE = {
    "batch_size": 32,
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "warmup_steps": 100,
    "clip": 1.0,
    "memory_weight": 1.0,
    "attend_self": False,
    "precision": "float32",
}

METHODS = {
    "attentiontuner": Method(TransformerConfig),
    "vanilla": Method(TransformerConfig, pairs=False),
    "recall": Method(RecallConfig, _RECALL_RECIPE),
    "recall-vanilla": Method(RecallConfig, _RECALL_RECIPE, pairs=False),
}
"""The paper's two methods, and the network of `models/recall.py` with and without pairs."""

Precision = Literal["auto", "float32", "bfloat16"]
Pairs = Literal["given", "random", "shuffled"]
Schedule = Literal["constant", "cosine"]

CHANGEABLE = frozenset({"keep", "checkpoint_seconds"})
"""Fields that change no result, so that a run may go on with other values."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run.

    Attributes:
        task: name of the task; `settings` are its environment settings.
        model: the network.
        method: one of `METHODS`.
        seed: fixes the weights at the start, the order of the batches, dropout and every drawn label.
        epochs: passes over the training demonstrations.
        batch_size: demonstrations in a step, over all processes together.
        learning_rate: of Adam (β 0.9 and 0.999, ε 1e-8, no weight decay).
        schedule: `constant`, as in the paper; or `cosine`: down to a fiftieth over the whole run.
        warmup_steps: batches over which the learning rate rises from nothing.
        clip: the largest gradient norm; 0: no limit.
        memory_weight: λ, the weight of the memory loss.
        heads: the supervised heads as text, see `models.heads.parse_heads`.
        split_pairs: distribute each row's pairs over the supervised heads.
        attend_self: E has a one on the diagonal of every observation.
        annotator: whose memory pairs are used.
        annotated_fraction: the share of training demonstrations that keep their annotation.
        noise_p: standard deviation, in steps, of a normal perturbation of p; `noise_q` the same for q.
        pairs: `given`; or for controls `random` pairs, or pairs `shuffled` between trajectories.
        demos: train on this many demonstrations, drawn from the seed; None: all.
        precision: of the matrix products; weights are always float32.
        test_fraction: the share of episodes at the end of the data set that is kept for testing (at most 500).
        memory_limit: bytes of frames held at once where the data set is streamed; None: it is held as a whole.
        eval_every: epochs between evaluations, 0 for none; `eval_episodes` in each.
        keep: how many full states are kept.
        checkpoint_seconds: seconds between two of them.
        heatmap_epochs: after which epochs the attention of all heads is drawn (0: before the first).
    """

    task: str
    settings: Mapping[str, Any]
    model: TransformerConfig | RecallConfig
    method: str = "attentiontuner"
    seed: int = 1
    epochs: int = PAPER_EPOCHS
    batch_size: int = 64
    learning_rate: float = 1e-4
    schedule: Schedule = "constant"
    warmup_steps: int = 0
    clip: float = 0.0
    memory_weight: float = PAPER_MEMORY_WEIGHT
    heads: str = "1:1"
    split_pairs: bool = False
    attend_self: bool = True
    annotator: str = "expert"
    annotated_fraction: float = 1.0
    noise_p: float = 0.0
    noise_q: float = 0.0
    pairs: Pairs = "given"
    demos: int | None = None
    precision: Precision = "auto"
    test_fraction: float = 0.05
    memory_limit: int | None = None
    eval_every: int = 0
    eval_episodes: int = 0
    keep: int = 2
    checkpoint_seconds: float = 30.0
    heatmap_epochs: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"unknown method {self.method!r}: the methods are {', '.join(METHODS)}")
        if not METHODS[self.method].pairs:
            object.__setattr__(self, "memory_weight", 0.0)
        object.__setattr__(self, "settings", plain_settings(self.settings))
        object.__setattr__(self, "heatmap_epochs", tuple(sorted({int(epoch) for epoch in self.heatmap_epochs})))
        if not isinstance(self.model, METHODS[self.method].network):
            raise UserError(f"method {self.method!r} does not train a {type(self.model).__name__}")
        for name, kind in (("precision", Precision), ("pairs", Pairs), ("schedule", Schedule)):
            choices = get_args(kind)
            if getattr(self, name) not in choices:
                raise UserError(f"{_option(name)} {getattr(self, name)!r} is not one of {', '.join(choices)}")
        for name in ("epochs", "batch_size", "keep"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in (
            "seed",
            "memory_weight",
            "noise_p",
            "noise_q",
            "eval_every",
            "eval_episodes",
            "checkpoint_seconds",
            "warmup_steps",
            "clip",
        ):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        self._check("learning_rate", self.learning_rate > 0, "above 0")
        self._check("annotated_fraction", 0 <= self.annotated_fraction <= 1, "between 0 and 1")
        self._check("test_fraction", 0 <= self.test_fraction < 1, "0 or more and below 1")
        self._check("demos", self.demos is None or self.demos >= 1, "at least 1")
        self._check("memory_limit", self.memory_limit is None or self.memory_limit >= 1, "at least 1 byte")
        drawn = (*self.heatmap_epochs, 0)
        self._check("heatmap_epochs", 0 <= min(drawn) <= max(drawn) <= self.epochs, f"epochs from 0 to {self.epochs}")
        self._check(
            "eval_episodes", not self.eval_every or self.eval_episodes >= 1, "at least 1 where --eval-every is set"
        )
        if isinstance(self.model, RecallConfig):
            self._check_recall(self.model)
        self.supervised()

    def _check_recall(self, model: RecallConfig) -> None:
        """The recall head is one, and exp of its scores counts things: eight bits are too few to count with. Without
        pairs nothing makes the amounts whole, so they are read as they are."""
        if not self.needs_pairs:
            object.__setattr__(self, "model", replace(model, whole=False))
        if self.precision == "auto":
            object.__setattr__(self, "precision", "float32")
        self._check("precision", self.precision == "float32", f"float32 with method {self.method!r}")
        if set(self.supervised()) - {RECALL_HEAD}:
            raise UserError(f"--heads {self.heads!r}: method {self.method!r} supervises head {RECALL_HEAD}, no other")

    def _check(self, name: str, good: bool, wanted: str) -> None:
        if not good:
            raise UserError(f"{_option(name)} is {getattr(self, name)}: give {wanted}")

    def supervised(self) -> tuple[Head, ...]:
        """The heads the memory loss is applied to; none where its weight is 0."""
        heads = parse_heads(self.heads, self.model.layers, self.model.heads)
        return heads if self.memory_weight > 0 else ()

    @property
    def needs_pairs(self) -> bool:
        """Whether the run reads annotations."""
        return bool(self.supervised()) and self.annotated_fraction > 0

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**value, "model": self.model.to_json(), "heatmap_epochs": list(self.heatmap_epochs)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrainConfig":
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise UserError(f"unknown setting {unknown[0]!r} in a run's configuration: made by a newer version?")
        try:
            return cls(**{**value, "model": model_config_from_json(value["model"])})
        except (KeyError, TypeError) as error:
            raise UserError(f"a run's configuration is damaged: {error}") from error


def paper_config(
    task: Task, method: str = "attentiontuner", model: Mapping[str, Any] | None = None, **overrides: Any
) -> TrainConfig:
    """The recipe for that task and method, the paper's where it has one. `model` replaces fields of the network,
    `overrides` the rest."""
    if method not in METHODS:
        raise UserError(f"unknown method {method!r}: the methods are {', '.join(METHODS)}")
    way = METHODS[method]
    network = way.network(task.observation, len(task.actions))
    try:
        network = replace(network, **(model or {}))
    except TypeError:
        raise UserError(
            f"method {method!r} has no {', '.join(sorted(set(model or {}) - set(vars(network))))}"
        ) from None
    recipe = {"epochs": recipe_epochs(task, method)}
    return TrainConfig(
        task=task.name,
        settings=task.settings,
        model=network,
        method=method,
        **{**way.recipe, **recipe, **overrides},
    )


def recipe_epochs(task: Task, method: str) -> int:
    """Epochs of the recipe: the task's own for that method; else the paper's, or for recall networks those of
    `RECALL_DEMONSTRATIONS` and `RECALL_EPOCHS`."""
    if method in task.epochs:
        return task.epochs[method]
    recall = METHODS[method].network is RecallConfig
    return max(RECALL_EPOCHS, round(RECALL_DEMONSTRATIONS / task.demonstrations)) if recall else PAPER_EPOCHS


def learning_rate_at(config: TrainConfig, step: int, steps: int) -> float:
    """The learning rate of batch `step` (from 0) of a run of `steps` batches."""
    rate = config.learning_rate * min(1.0, (step + 1) / max(config.warmup_steps, 1))
    if config.schedule == "cosine":
        rate *= max(0.02, 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0))))
    return rate


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first setting (dotted name, old value, new value) in which two JSON configurations differ."""
    before, after = dict(_flat(old)), dict(_flat(new))
    for name in [*before, *after]:
        if name not in CHANGEABLE and before.get(name) != after.get(name):
            return name, before.get(name), after.get(name)
    return None


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield prefix + name, list(item) if isinstance(item, tuple) else item


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
