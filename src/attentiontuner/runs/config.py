"""What a training run is: every choice that changes its result, checked when made and saved with the run.

The command line makes its options from these classes: an attribute's words are the option's help. Making a
configuration needs no torch, so that whatever is wrong with it is said at once.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.annotations import named
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import plain_settings
from attentiontuner.methods import DataFacts, Method, all_methods, facts_of, get_method
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import NetworkConfig
from attentiontuner.tasks.task import Task

Precision = Literal["auto", "float32", "bfloat16"]
LabelStudy = Literal["given", "random", "shuffled", "none"]
LabelKind = Literal["exact", "readings"]
Schedule = Literal["constant", "cosine"]

METHOD = "recall"
"""The method where none is given."""

CHANGEABLE = frozenset({"keep", "checkpoint_seconds"})
"""Fields that change no result, so that a run may go on with other values."""

RECIPE = (
    *("epochs", "batch_size", "learning_rate", "schedule", "warmup_steps", "clip", "weight_decay"),
    *("memory_weight", "attend_self", "labels"),
)
"""Fields that a method's recipe decides where nothing is said."""

NOT_NEGATIVE = (
    *("seed", "noise_p", "noise_q", "eval_every", "eval_episodes"),
    *("checkpoint_seconds", "warmup_steps", "clip", "weight_decay", "memory_weight"),
)


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Nothing here overwrites what it was given, so `dataclasses.replace` changes one thing only:
    what depends on several fields is decided where it is needed (`weight`, `network`, `to_json`).

    Attributes:
        task: name of the task.
        settings: its environment settings.
        model: the network.
        method: how it learns: attentiontuner, or recall (a head that counts), or with a memory that does not grow (gru,
            lru, slots); vanilla, recall-vanilla, gru-vanilla and so on are the same without pairs.
        seed: fixes first weights, batches, dropout and every drawn label.
        epochs: passes over the demonstrations. More than a finished run had make it longer where the schedule is
            constant; where it is cosine, as of recall heads, another number is another run.
        batch_size: demonstrations in a step, over all processes together.
        parts: parts that a batch is computed in, one after another, to need less memory; the gradient is the same. As
            many as it takes if not given.
        window: learn from windows of so many consecutive steps, one of each longer demonstration an epoch, with the
            earlier steps that it recalls; whole demonstrations if not given.
        learning_rate: of Adam (β 0.9 and 0.999, ε 1e-8).
        schedule: of the learning rate: constant, as in the paper, or cosine, down to a fiftieth over the whole run.
        warmup_steps: batches over which the learning rate rises from nothing.
        clip: the largest gradient norm; 0 for no limit.
        weight_decay: of matrices, as AdamW has it; 0 for none, as in the paper.
        memory_weight: weight λ of the memory loss.
        heads: supervised heads as layer:head from 1, such as 1:1 or 1:1,2:2 or 1:all or all or none.
        split_pairs: distribute each row's pairs over the supervised heads.
        attend_self: the expert's matrix has ones on the diagonal of the observations.
        annotator: whose memory pairs to use, such as anna, or anna,bob for those of either; the expert's, or those of
            the only annotator, if not given.
        labels: exact: pairs are where they are marked, and demonstrations without labels have none; readings: marks
            may be a few steps off or missing, and pairs are inferred from them and from where a memory is needed.
        annotated_fraction: share of the training demonstrations that keep their annotation.
        noise_p: standard deviation in steps of a perturbation of each recalled step.
        noise_q: the same for each recalling step.
        late: steps by which each p and q is moved, as by an annotator who is always late.
        pairs: the given ones, or as controls random ones, ones shuffled between demonstrations, or none at all, so
            that nothing is known but where a memory is needed.
        demos: train on this many demonstrations, drawn from the seed.
        include_failed: learn from demonstrations that did not solve the task, too.
        learn_padding: from the second epoch on learn from demonstrations that are all as long as the longest, filled up
            with steps that see nothing and do nothing (action 0); as a control.
        precision: of matrix products: bfloat16 on a GPU and float32 on a CPU, unless the method needs another; weights
            are always float32.
        test_fraction: share of --data kept for testing (at most 500 episodes) where --test-data is not given.
        memory_limit: bytes of frames held at once, such as 4GB; a larger data set is streamed.
        eval_every: epochs between evaluations in the environment; 0 for none. The best model is kept.
        eval_episodes: episodes of each evaluation.
        keep: how many full states are kept.
        checkpoint_seconds: seconds between two states.
        heatmap_epochs: draw the attention of all heads after these epochs (0: before the first).
    """

    task: str
    settings: Mapping[str, Any]
    model: NetworkConfig
    method: str = "attentiontuner"
    seed: int = 1
    epochs: int = 300
    batch_size: int = 64
    parts: int | None = None
    window: int | None = None
    learning_rate: float = 1e-4
    schedule: Schedule = "constant"
    warmup_steps: int = 0
    clip: float = 0.0
    weight_decay: float = 0.0
    memory_weight: float | None = None
    heads: str = "1:1"
    split_pairs: bool = False
    attend_self: bool = True
    annotator: str | None = None
    labels: LabelKind = "exact"
    annotated_fraction: float = 1.0
    noise_p: float = 0.0
    noise_q: float = 0.0
    late: int = 0
    pairs: LabelStudy = "given"
    demos: int | None = None
    include_failed: bool = False
    learn_padding: bool = False
    precision: Precision = "auto"
    test_fraction: float = 0.05
    memory_limit: int | None = None
    eval_every: int = 0
    eval_episodes: int = 100
    keep: int = 2
    checkpoint_seconds: float = 30.0
    heatmap_epochs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        method = self.way
        object.__setattr__(self, "settings", plain_settings(self.settings))
        object.__setattr__(self, "annotator", ",".join(named(self.annotator)) or None)
        object.__setattr__(self, "heatmap_epochs", tuple(sorted({int(epoch) for epoch in self.heatmap_epochs})))
        if not isinstance(self.model, method.network):
            raise UserError(f"method {self.method!r} does not train a {type(self.model).__name__}")
        check_values({item.name: getattr(self, item.name) for item in fields(self)})
        if self.memory_weight and not method.pairs:
            raise UserError(f"--method {self.method} has no memory loss: leave out --memory-weight")
        if method.precision is not None and self.precision not in ("auto", method.precision):
            raise UserError(f"--precision is {self.precision}: give {method.precision} with method {self.method!r}")
        if self.window is not None and not method.windows:
            able = " and ".join(name for name, other in all_methods().items() if other.windows)
            raise UserError(f"--window: method {self.method!r} learns from whole demonstrations; {able} can")
        if self.window is not None and self.learn_padding:
            raise UserError("--learn-padding fills up whole demonstrations: leave it out with --window")
        if self.window is not None and self.heatmap_epochs:
            raise UserError("--heatmap-epochs: heatmaps are of whole demonstrations: leave it out with --window")
        method.supervised(self)
        method.check(self)

    @property
    def way(self) -> Method:
        """The method itself."""
        return get_method(self.method)

    @property
    def weight(self) -> float:
        """λ: the weight of the memory loss; 0 for a method that is not told the pairs."""
        if not self.way.pairs:
            return 0.0
        return self.way.memory_weight if self.memory_weight is None else self.memory_weight

    def supervised(self) -> tuple[Head, ...]:
        """The heads the memory loss is applied to; none where its weight is 0."""
        return self.way.supervised(self) if self.weight > 0 else ()

    @property
    def needs_pairs(self) -> bool:
        """Whether the run reads annotations."""
        return bool(self.supervised()) and self.annotated_fraction > 0

    @property
    def network(self) -> NetworkConfig:
        """The network with everything decided."""
        return self.way.resolved(self)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value = {item.name: getattr(self, item.name) for item in fields(self)}
        episodes = self.eval_episodes if self.eval_every else 0
        decided = {"model": self.network.to_json(), "memory_weight": self.weight, "eval_episodes": episodes}
        return {**value, **decided, "heatmap_epochs": list(self.heatmap_epochs)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrainConfig":
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise UserError(f"unknown setting {unknown[0]!r} in a run's configuration: made by a newer version?")
        try:
            method = get_method(value.get("method", cls.method))
            given = {"include_failed": True, **value, "model": method.network.from_json(value["model"])}
            if not method.pairs:
                given["memory_weight"] = None
            return cls(**given)
        except (KeyError, TypeError) as error:
            raise UserError(f"a run's configuration is damaged: {error}") from error


@dataclass(frozen=True)
class NetworkOptions:
    """Sizes that most networks have, as options; what is not given is the network's own.

    Attributes:
        d_model: width of the network.
        layers: layers of the network.
        model_heads: attention heads per layer.
        feedforward: width of the feed-forward networks.
        dropout: share of dropped activations.
        embedder: of observations: the paper's, or lookup, a cheap one for symbol grids.
        positions: steps of a recall network do not know their number, so that it works in longer worlds than it saw.
        action_head: of actions that are numbers: gmm, a mixture of five modes, or l1, the nearest; what the method says
            if not given.
        chunk: how many coming actions are learned at a step, where they are numbers; what the method says if not given.
        encoders: encoders of one's own for parts of an observation, such as camera=dino,wrist=dino.
    """

    d_model: int | None = None
    layers: int | None = None
    model_heads: int | None = None
    feedforward: int | None = None
    dropout: float | None = None
    embedder: Literal["paper", "lookup"] | None = None
    positions: bool = True
    action_head: Literal["gmm", "l1"] | None = None
    chunk: int | None = None
    encoders: str | None = None

    def changes(self) -> dict[str, Any]:
        """The fields of a network that were given."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        given["heads"], given["positions"] = given.pop("model_heads"), None if self.positions else False
        return {name: value for name, value in given.items() if value is not None}


def recipe(
    task: Task | str,
    method: str = METHOD,
    model: Mapping[str, Any] | None = None,
    data: DemoStore | Path | str | DataFacts | None = None,
    **overrides: Any,
) -> TrainConfig:
    """The run that a method proposes for a task and its demonstrations; `train` is given it.

    Args:
        task: what is learned, or its name; where the demonstrations are of that task, it has their settings.
        method: how, as `--method` says it.
        model: fields of the network in place of the method's, such as `{"d_model": 128}`.
        data: the demonstrations, or their folder, for recipes that look at how many there are; a `DataFacts` where only
            that much is known.
        overrides: fields of `TrainConfig` in place of the method's, such as `epochs=50`.
    """
    if data is None or isinstance(data, DataFacts):
        facts, task = data, Task.of(task)
    else:
        store = DemoStore.of(data, overrides.get("annotator"))
        facts = facts_of(store, overrides.get("demos"))
        task = Task.from_data(store) if task == store.task else Task.of(task)
    way = get_method(method)
    fields_of_run = way.recipe(task, facts)
    if facts is not None and "epochs" in fields_of_run and overrides.get("window"):
        fields_of_run["epochs"] = round(facts.windows(overrides["window"]) * fields_of_run["epochs"])
    usual = fields_of_run.pop("model", {})
    network = way.network_for(task.observation, task.actions, **{**usual, **(model or {})})
    longest = max(facts.lengths, default=math.inf) if facts is not None else math.inf
    if network.chunk > max(longest, usual.get("chunk", 1)):
        most = counted(int(longest), "step")
        raise UserError(f"--chunk {network.chunk}: the longest demonstration has {most}: give no more")
    return TrainConfig(
        task=task.name,
        settings=task.settings,
        model=network,
        method=method,
        **{**fields_of_run, **overrides},
    )


def paper_config(
    task: Task,
    method: str = "attentiontuner",
    model: Mapping[str, Any] | None = None,
    data: DataFacts | None = None,
    **overrides: Any,
) -> TrainConfig:
    """The paper's run: `recipe` where no method means the paper's, `attentiontuner`."""
    return recipe(task, method, model, data, **overrides)


def check_values(given: Mapping[str, Any]) -> None:
    """Refuse values of `TrainConfig` that are wrong whatever the method."""
    for name, kind in (("precision", Precision), ("pairs", LabelStudy), ("labels", LabelKind), ("schedule", Schedule)):
        choices = get_args(kind)
        if given.get(name, choices[0]) not in choices:
            raise UserError(f"{_option(name)} {given[name]!r} is not one of {', '.join(choices)}")

    def check(name: str, good: Callable[[Any], bool], wanted: str) -> None:
        if given.get(name) is not None and not good(given[name]):
            raise UserError(f"{_option(name)} is {given[name]}: give {wanted}")

    for name in ("epochs", "batch_size", "parts", "keep", "demos"):
        check(name, lambda value: value >= 1, "at least 1")
    for name in NOT_NEGATIVE:
        check(name, lambda value: 0 <= value < math.inf, "0 or more")
    check("window", lambda value: value >= 2, "2 steps or more")
    check("late", lambda value: abs(value) < 1000, "a number of steps")
    if given.get("pairs") == "none" and given.get("labels") == "exact":
        raise UserError("--pairs none with --labels exact leaves nothing to learn from: use a method without pairs")
    check("learning_rate", lambda value: 0 < value < math.inf, "above 0")
    check("annotated_fraction", lambda value: 0 <= value <= 1, "between 0 and 1")
    check("test_fraction", lambda value: 0 <= value < 1, "0 or more and below 1")
    check("memory_limit", lambda value: value >= 1, "at least 1 byte")
    last = given.get("epochs") or math.inf
    wanted = f"epochs from 0 to {last}" if last < math.inf else "epochs, 0 or more"
    check("heatmap_epochs", lambda value: all(0 <= epoch <= last for epoch in value), wanted)
    if given.get("eval_every"):
        check("eval_episodes", lambda value: value >= 1, "at least 1 where --eval-every is set")


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
