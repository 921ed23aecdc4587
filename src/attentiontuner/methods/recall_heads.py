"""Recall heads: one head learns how many things a step recalls from each earlier one; and its network without pairs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.demos.pairs import PairTable
from attentiontuner.methods.method import DataFacts, Method
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import MOST, RECALL_HEAD, NetworkConfig, RecallConfig
from attentiontuner.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.data.batch import Batch
    from attentiontuner.data.blocks import Block
    from attentiontuner.losses import Loss
    from attentiontuner.models.network import Output
    from attentiontuner.models.recall_head import Recalled
    from attentiontuner.runs.config import TrainConfig

FEW = 2_000
"""So many demonstrations or fewer are few: a smaller network, and smaller batches of them."""

FEWEST = 50
"""Of so many or fewer, symbols that is, queries would learn by heart what the numbers that all scores share can say."""


@dataclass(frozen=True)
class Often:
    """How many demonstrations a network sees in all: each so many times, within bounds."""

    times: int
    least: int
    most: int

    def epochs(self, demonstrations: int) -> int:
        seen = min(max(self.times * demonstrations, self.least), self.most)
        return max(1, round(seen / max(1, demonstrations)))


SYMBOLS, IMAGES = Often(60, 12_000, 24_000), Often(160, 32_000, 100_000)
"""Of few demonstrations; images take longer to be seen than symbols."""

MANY = Often(10, 120_000, 1_000_000)


def usual_recipe(task: Task, data: DataFacts | None) -> dict[str, Any]:
    """What all our own networks are trained with, by the number of demonstrations and by what is seen."""
    demonstrations = task.demonstrations if data is None else data.demonstrations
    few, images = demonstrations <= FEW, "image" in task.observation.kinds
    model: dict[str, Any] = {"action_head": "l1", "chunk": 8} if task.actions.kind == "box" else {}
    if few:
        model |= {"d_model": 64, "feedforward": 256} | ({"dropout": 0.3} if images else {})
    often = MANY if not few else IMAGES if images else SYMBOLS
    return {
        "model": model,
        "epochs": often.epochs(demonstrations),
        "batch_size": 8 if few else 32,
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "warmup_steps": 100,
        "clip": 1.0,
        "weight_decay": 0.1,
        "attend_self": False,
    }


class RecallWithoutPairs(Method):
    """The recall network by behavioural cloning alone."""

    name = "recall-vanilla"
    title = "Recall network, no pairs"
    network = RecallConfig
    pairs = False
    windows = True
    precision = "float32"  # exp of a score counts things: eight bits are too few to count with

    def recipe(self, task: Task, data: DataFacts | None) -> dict[str, Any]:
        """By the number of demonstrations and by what is seen. Cells of grids are found exactly; of images and vectors
        what the head recalls is less exact than what the expert does, so that half of the episodes read its own. A few
        images are soon learned by heart. Where actions are numbers weights are needed that a strong decay would not
        leave, and coming actions are learned too: the next one alone is too easily guessed from how the body moves;
        what is read of recalled vectors there is where things are, which amounts that are a little off do not change.
        """
        usual = usual_recipe(task, data)
        demonstrations = task.demonstrations if data is None else data.demonstrations
        few = demonstrations <= FEW
        kinds, numbers = task.observation.kinds, task.actions.kind == "box"
        images = "image" in kinds
        inexact = images or ("vector" in kinds and not numbers)
        model: dict[str, Any] = {**usual["model"], "teacher": 0.5 if inexact else 1.0}
        if numbers or (few and images):
            model["alone"] = 0.5
        if demonstrations <= FEWEST and "grid" in kinds:
            model["haste"] = 30.0
        epochs = usual["epochs"] if few else task.epochs.get(self.name, usual["epochs"])
        return {**usual, "model": model, "epochs": epochs, "weight_decay": 0.1 if images or numbers else 1.0}

    def resolved(self, config: "TrainConfig") -> NetworkConfig:
        """Without pairs nothing makes the amounts whole, so they are read as they are, and nothing tells what to
        keep."""
        model = config.model
        assert isinstance(model, RecallConfig)
        whole = config.needs_pairs if model.whole is None else model.whole
        keeps = config.needs_pairs and config.window is not None if model.keeps is None else model.keeps
        return replace(model, whole=whole, keeps=keeps)

    def _keeps(self, config: "TrainConfig") -> bool:
        model = self.resolved(config)
        return isinstance(model, RecallConfig) and bool(model.keeps)

    def check(self, config: "TrainConfig") -> None:
        if set(self.supervised(config)) - {RECALL_HEAD}:
            raise UserError(f"--heads {config.heads!r}: method {self.name!r} supervises head {RECALL_HEAD}, no other")
        if self._keeps(config) and (config.window is None or not config.needs_pairs):
            raise UserError("model keeps: what to keep is learned with --window, from pairs")

    def watchable(self, config: "TrainConfig") -> tuple[Head, ...]:
        return (RECALL_HEAD,)

    def counts(self, config: "TrainConfig") -> bool:
        return True

    def whole(self, config: "TrainConfig") -> bool:
        model = self.resolved(config)
        assert isinstance(model, RecallConfig)
        return model.reads_whole


class RecallHeads(RecallWithoutPairs):
    """The recall head is led to the pairs and their multiplicities."""

    name = "recall"
    title = "Recall heads"
    pairs = True
    without_pairs = "recall-vanilla"

    def recipe(self, task: Task, data: DataFacts | None) -> dict[str, Any]:
        """As without pairs; what people mark is taken for what it is."""
        return {**super().recipe(task, data), "labels": "readings"}

    def check_labels(self, labels: PairTable, name_of: Callable[[int], str]) -> None:
        """A recall head counts up to exp(`MOST`) things at one step."""
        too_often = np.flatnonzero(labels.multiplicity > math.exp(MOST))
        if len(too_often):
            first = too_often[0]
            pair = f"pair ({labels.p[first]}, {labels.q[first]}) counts {labels.multiplicity[first]} times"
            most = f"method {self.name!r} counts up to {int(math.exp(MOST))}"
            raise UserError(f"{name_of(int(labels.episode[first]))}: {pair}, but {most}")

    def recall_strength(self, output: "Output", block: "Block") -> "Tensor":
        recalled: Recalled = output.watched[RECALL_HEAD]
        return recalled.settle(block).scores

    def terms_of(self, config: "TrainConfig") -> tuple[str, ...]:
        return (*self.terms, "keep") if self._keeps(config) else self.terms

    def loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Loss":
        """Where the network keeps, it learns what beside the rest: nothing else of it learns from that."""
        from attentiontuner.losses import keep_loss

        loss = super().loss(output, batch, config)
        if output.keep is None:
            return loss
        keep = keep_loss(output.keep, batch)
        return replace(loss, total=loss.total + keep, terms={**loss.terms, "keep": keep})

    def memory_loss(self, output: "Output", batch: "Batch", config: "TrainConfig") -> "Tensor":
        """The counting loss of the annotated episodes, divided by the number of things that as many annotated episodes
        recall on average: a task whose steps recall much would otherwise drown the imitation loss."""
        from attentiontuner.losses import counting_loss

        recalled: Recalled = output.watched[RECALL_HEAD]
        rows = counting_loss(recalled.mass, recalled.told, recalled.cut)
        return (rows * batch.counted()).sum() / batch.totals.things
