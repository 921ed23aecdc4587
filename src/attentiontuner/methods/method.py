"""What a method is, and the table of them. Nothing outside a method's own file knows it by name.

A method is a way to learn from demonstrations: its network, its recipe, what its loss is made of, and what of it can be
watched. One of your own is a subclass, registered in a file named with `attentiontuner --import FILE`.

Ours import torch where they compute, so that a wrong choice is refused at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import meant
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.sizes import NetworkConfig
from attentiontuner.spaces import ActionSpec, ObservationSpec
from attentiontuner.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.data.batch import Batch
    from attentiontuner.data.blocks import Block
    from attentiontuner.losses import Loss
    from attentiontuner.models.network import Output
    from attentiontuner.runs.config import TrainConfig

PAPER_EPOCHS = 300


@dataclass(frozen=True)
class DataFacts:
    """What a recipe may depend on: the training set of a run.

    Attributes:
        demonstrations: how many there are.
        annotated: the share of them that have an annotation.
        lengths: their steps, where they are known.
    """

    demonstrations: int
    annotated: float = 1.0
    lengths: tuple[int, ...] = ()

    def windows(self, window: int) -> float:
        """How many windows of so many steps teach as much as a whole demonstration: as many as have room in one, but no
        more than `WINDOWS`."""
        seen = sum(min(length, window) for length in self.lengths)
        return min(WINDOWS, sum(self.lengths) / seen) if seen else 1.0


WINDOWS = 3.0
"""A third of the windows lies around steps that recall (`data.windows`)."""


def facts_of(data: DemoStore, demos: int | None = None) -> DataFacts:
    """What a method's recipe may look at, where `demos` of the demonstrations are trained on (all, unless said)."""
    annotated = 0.0 if data.annotator is None or not len(data) else float(data.read_pairs().annotated.mean())
    return DataFacts(min(len(data), demos or len(data)), annotated, tuple(data.lengths.tolist()))


class Method:
    """A way to learn from demonstrations.

    Attributes:
        name: what commands call it. title: what people call it, in tables and figures.
        network: the configuration of its network.
        pairs: whether it is told the memory pairs.
        without_pairs: the method that trains the same network without them, where there is one.
        precision: the only precision it computes in; None: any.
        memory_weight: λ, the weight of its memory loss, where nothing is said.
        terms: the names of its loss's terms.
        windows: whether it can learn from windows of episodes (`data.windows`).
        annotates: whether a run of it may annotate: it also tells where nothing is recalled.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    network: ClassVar[type[NetworkConfig]]
    pairs: ClassVar[bool] = True
    without_pairs: ClassVar[str | None] = None
    precision: ClassVar[str | None] = None
    memory_weight: ClassVar[float] = 1.0
    terms: ClassVar[tuple[str, ...]] = ("imitation", "memory")
    windows: ClassVar[bool] = False
    annotates: ClassVar[bool] = True

    def recipe(self, task: Task, data: DataFacts | None) -> dict[str, Any]:
        """Fields of `TrainConfig` where they differ from the usual, the network's under "model"; `data` is None where
        no data set is known yet."""
        return {"epochs": task.epochs.get(self.name, PAPER_EPOCHS)}

    def network_for(self, observation: ObservationSpec, actions: ActionSpec, **changes: Any) -> NetworkConfig:
        """The network for these observations and actions, some of its fields replaced."""
        known = self.network(observation, actions).chosen()
        if unknown := sorted(set(changes) - set(known)):
            raise UserError(
                f"the network of method {self.name!r} has no {', '.join(unknown)}: it has {', '.join(known)}"
            )
        return self.network(observation, actions, **changes)

    def resolved(self, config: "TrainConfig") -> NetworkConfig:
        """The network of a run with everything decided that depends on the rest of its configuration."""
        return config.model

    def check(self, config: "TrainConfig") -> None:
        """Refuse a configuration this method cannot train with."""

    def check_labels(self, labels: PairTable, name_of: Callable[[int], str]) -> None:
        """Refuse labels this method cannot learn from; `name_of(row)` is what messages call an episode's."""

    def terms_of(self, config: "TrainConfig") -> tuple[str, ...]:
        """The names of the terms that the loss of a run has."""
        return self.terms

    def supervised(self, config: "TrainConfig") -> tuple[Head, ...]:
        """The heads the memory loss is applied to, of the network's `layers` × `heads` (else 1 × 1)."""
        layers, heads = (getattr(config.model, name, 1) for name in ("layers", "heads"))
        return parse_heads(config.heads, layers, heads)

    def watchable(self, config: "TrainConfig") -> tuple[Head, ...]:
        """The heads whose weights are worth looking at."""
        return self.supervised(config)

    def counts(self, config: "TrainConfig") -> bool:
        """Whether a head's weights say how many things are recalled, and need not add up to 1."""
        return False

    def whole(self, config: "TrainConfig") -> bool:
        """Whether the network reads each of these weights as a whole number."""
        return False

    def recall_strength(self, output: "Output", block: "Block") -> "Tensor | None":
        """How strongly each step of a block (`data.blocks`) recalls each one up to its last, `[E, Q, P]`, from the
        supervised heads of `output`: the order within a row says how often it recalls what the expert did, and where it
        `annotates` exp of it is how much is recalled. None: it does not tell."""
        return None

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        """What the supervised heads of `output` are told by the pairs of `batch`: a scalar."""
        raise UserError(f"method {self.name!r} has no memory_loss: write one, or say that it is not told the pairs")

    def loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Loss":
        """L = L_IL + λ · L_memory. Sums are divided by the batch's totals over all processes."""
        from attentiontuner.losses import Loss, imitation_loss, measured

        imitation = imitation_loss(output, batch)
        memory = self.memory_loss(output, batch, config) if output.watched else imitation.new_zeros(())
        return Loss(
            total=imitation + config.weight * memory,
            terms={"imitation": imitation, "memory": memory},
            measures=measured(output, batch, batch.learned),
            steps=batch.learned.sum(),
        )


_METHODS: dict[str, Method] = {}


def register_method(method: type[Method]) -> type[Method]:
    """Add a method (or replace the one of the same name); every command then works with it. Usable as a decorator."""
    _METHODS[method.name] = method()
    return method


def all_methods() -> Mapping[str, Method]:
    """Every method by name, in the order of tables and figures."""
    return dict(_METHODS)


def get_method(name: str) -> Method:
    """The method called `name`."""
    if name not in _METHODS:
        raise UserError(
            f"unknown method {name!r}: {meant(name, _METHODS)}the methods are {', '.join(_METHODS)}; for one of your "
            "own write `attentiontuner --import FILE ...`"
        )
    return _METHODS[name]
