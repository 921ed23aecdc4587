"""Memories that do not grow, with pairs and without: a GRU, a gated linear recurrence, and slots."""

from typing import TYPE_CHECKING, Any

from attentiontuner.core.errors import UserError
from attentiontuner.methods.method import DataFacts, Method
from attentiontuner.methods.recall_heads import usual_recipe
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import RECALL_HEAD, GruConfig, LruConfig, SlotsConfig
from attentiontuner.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.data.batch import Batch
    from attentiontuner.data.blocks import Block
    from attentiontuner.models.network import Output
    from attentiontuner.models.recurrent import Probed
    from attentiontuner.models.slots import Read
    from attentiontuner.runs.config import TrainConfig


class BoundedMemory(Method):
    """What they have in common: the recipe, which looks at the data as that of recall heads does."""

    precision = "float32"  # what is kept for a thousand steps loses less than a thousandth at each

    def recipe(self, task: Task, data: DataFacts | None) -> dict[str, Any]:
        return usual_recipe(task, data) | ({"labels": "readings"} if self.pairs else {})

    def check(self, config: "TrainConfig") -> None:
        if set(self.supervised(config)) - {RECALL_HEAD}:
            raise UserError(f"--heads {config.heads!r}: method {self.name!r} supervises head {RECALL_HEAD}, no other")

    def watchable(self, config: "TrainConfig") -> tuple[Head, ...]:
        """The probe, where pairs taught it to ask."""
        return self.supervised(config) if self.pairs else ()

    def recall_strength(self, output: "Output", block: "Block") -> "Tensor":
        told: Probed | Read = output.watched[RECALL_HEAD]
        return told.of(block)


class GruWithoutPairs(BoundedMemory):
    """A GRU by behavioural cloning alone."""

    name = "gru-vanilla"
    title = "GRU, no pairs"
    network = GruConfig
    pairs = False


class Gru(GruWithoutPairs):
    """A probe of the state is led to the pairs: what is recalled must be in the state."""

    name = "gru"
    title = "GRU"
    pairs = True
    without_pairs = "gru-vanilla"
    annotates = False  # a probe says where to look, not whether

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        from attentiontuner.losses import retrieval_loss

        probed: Probed = output.watched[RECALL_HEAD]
        return retrieval_loss(probed.query, probed.key, batch)


class LruWithoutPairs(BoundedMemory):
    """Gated linear recurrences by behavioural cloning alone."""

    name = "lru-vanilla"
    title = "Linear recurrence, no pairs"
    network = LruConfig
    pairs = False


class Lru(LruWithoutPairs):
    """The probe as with a GRU; and what will be recalled is written to the kept lanes, nothing else is, and it does not
    fade before it is recalled."""

    name = "lru"
    title = "Linear recurrence"
    pairs = True
    without_pairs = "lru-vanilla"
    annotates = False  # a probe says where to look, not whether

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        from attentiontuner.losses import fading_loss, retrieval_loss, write_loss

        probed: Probed = output.watched[RECALL_HEAD]
        loss = retrieval_loss(probed.query, probed.key, batch)
        if probed.gates is None:
            return loss
        return loss + write_loss(probed.gates.write, batch) + fading_loss(probed.gates.faded, batch)


class SlotsWithoutPairs(BoundedMemory):
    """A GRU and slots by behavioural cloning alone."""

    name = "slots-vanilla"
    title = "Slots, no pairs"
    network = SlotsConfig
    pairs = False

    def watchable(self, config: "TrainConfig") -> tuple[Head, ...]:
        return (RECALL_HEAD,)


class Slots(SlotsWithoutPairs):
    """What will be recalled is written, nothing else is, and what is read of the slots is led to the pairs."""

    name = "slots"
    title = "Slots"
    pairs = True
    without_pairs = "slots-vanilla"

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        from attentiontuner.losses import read_loss, write_loss

        read: Read = output.watched[RECALL_HEAD]
        return read_loss(read.steps, read.scores, batch) + write_loss(read.write, batch)
