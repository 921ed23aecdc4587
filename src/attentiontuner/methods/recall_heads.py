"""Recall heads: one head learns how many things a step recalls from each earlier one; and its network without pairs."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch
from attentiontuner.demos.pairs import PairTable
from attentiontuner.losses import binary_cross_entropy, counting_loss, row_cross_entropy
from attentiontuner.methods.method import DataFacts, Method
from attentiontuner.models.heads import Head
from attentiontuner.models.network import NetworkConfig, Output
from attentiontuner.models.recall import MOST, RECALL_HEAD, RecallConfig, Recalled
from attentiontuner.tasks.task import Task

if TYPE_CHECKING:
    from attentiontuner.runs.config import TrainConfig

DEMONSTRATIONS = 120_000
"""How many demonstrations the network sees on a task, each of the data set's as often as that takes…"""

EPOCHS = 10
"""… and at least this often."""


class RecallWithoutPairs(Method):
    """The recall network by behavioural cloning alone."""

    name = "recall-vanilla"
    title = "Recall network, no pairs"
    network = RecallConfig
    pairs = False
    precision = "float32"  # exp of a score counts things: eight bits are too few to count with

    def recipe(self, task: Task, data: DataFacts | None) -> dict[str, Any]:
        epochs = task.epochs.get(self.name, max(EPOCHS, round(DEMONSTRATIONS / task.demonstrations)))
        return {
            "epochs": epochs,
            "batch_size": 32,
            "learning_rate": 1e-3,
            "schedule": "cosine",
            "warmup_steps": 100,
            "clip": 1.0,
            "attend_self": False,
        }

    def resolved(self, config: "TrainConfig") -> NetworkConfig:
        """Without pairs nothing makes the amounts whole, so they are read as they are."""
        model = config.model
        assert isinstance(model, RecallConfig)
        return replace(model, whole=config.needs_pairs) if model.whole is None else model

    def check(self, config: "TrainConfig") -> None:
        if set(self.supervised(config)) - {RECALL_HEAD}:
            raise UserError(f"--heads {config.heads!r}: method {self.name!r} supervises head {RECALL_HEAD}, no other")

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

    def check_labels(self, labels: PairTable, name_of: Callable[[int], str]) -> None:
        """A recall head counts up to exp(`MOST`) things at one step."""
        too_often = np.flatnonzero(labels.multiplicity > math.exp(MOST))
        if len(too_often):
            first = too_often[0]
            pair = f"pair ({labels.p[first]}, {labels.q[first]}) counts {labels.multiplicity[first]} times"
            most = f"method {self.name!r} counts up to {int(math.exp(MOST))}"
            raise UserError(f"{name_of(int(labels.episode[first]))}: {pair}, but {most}")

    def recall_strength(self, output: Output) -> Tensor:
        recalled: Recalled = output.watched[RECALL_HEAD]
        return recalled.scores

    def memory_loss(self, output: Output, batch: Batch, config: "TrainConfig") -> Tensor:
        """The loss of the kind the network names, over the annotated episodes, with what scores were cut off by added,
        divided by the number of things that as many annotated episodes recall on average: a task whose steps recall
        much would otherwise drown the imitation loss."""
        recalled: Recalled = output.watched[RECALL_HEAD]
        wanted, model = batch.recalled(), config.model
        assert isinstance(model, RecallConfig)
        if model.loss == "count":
            rows = counting_loss(recalled.scores, recalled.mass, wanted)
        else:
            kind = row_cross_entropy if model.loss == "rows" else binary_cross_entropy
            rows = kind(recalled.scores, wanted)
        return ((rows + recalled.cut) * batch.counted()).sum() / batch.totals.things
