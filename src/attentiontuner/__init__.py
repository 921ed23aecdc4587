"""AttentionTuner: imitation learning that is shown what the expert remembered.

The public names below are loaded when first used, so `import attentiontuner` is quick and needs no torch. It registers
the LTMB environments and the robots with Gymnasium.
"""

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

with contextlib.suppress(ImportError):  # without Gymnasium `attentiontuner doctor` shall still say so
    importlib.import_module("attentiontuner.envs")

_HOMES = {
    # demonstrations
    "Demonstration": "attentiontuner.demos",
    "MemoryPair": "attentiontuner.demos",
    "PairTable": "attentiontuner.demos.pairs",
    "DemoStore": "attentiontuner.demos",
    "DemoWriter": "attentiontuner.demos",
    "merge_annotators": "attentiontuner.demos",
    "to_minari": "attentiontuner.demos.exchange.minari",
    "from_minari": "attentiontuner.demos.exchange.minari",
    "to_lerobot": "attentiontuner.demos.exchange.lerobot.exporting",
    "from_lerobot": "attentiontuner.demos.exchange.lerobot.importing",
    # tasks and experts
    "ObservationSpec": "attentiontuner.spaces",
    "Part": "attentiontuner.spaces",
    "ActionSpec": "attentiontuner.spaces",
    "Task": "attentiontuner.tasks",
    "Instructions": "attentiontuner.tasks",
    "register_task": "attentiontuner.tasks",
    "get_task": "attentiontuner.tasks",
    "list_tasks": "attentiontuner.tasks",
    "ReturnAtLeast": "attentiontuner.core.success",
    "LengthAtLeast": "attentiontuner.core.success",
    "Decision": "attentiontuner.experts",
    "Expert": "attentiontuner.experts",
    "collect": "attentiontuner.collecting.collection",
    # training and playing
    "memory_loss": "attentiontuner.losses",
    "memory_loss_from_scores": "attentiontuner.losses",
    "expert_matrix": "attentiontuner.data.tokens",
    "expert_matrices": "attentiontuner.data.tokens",
    "Method": "attentiontuner.methods",
    "register_method": "attentiontuner.methods",
    "register_encoder": "attentiontuner.spaces.encoders",
    "TrainConfig": "attentiontuner.runs.config",
    "recipe": "attentiontuner.runs.config",
    "paper_config": "attentiontuner.runs.config",
    "facts_of": "attentiontuner.methods",
    "train": "attentiontuner.training.train",
    "load_policy": "attentiontuner.evaluation.opening",
    "ModelPolicy": "attentiontuner.evaluation.policy",
    "Policy": "attentiontuner.evaluation.rollout",
    "evaluate": "attentiontuner.evaluation.evaluate",
    "rollout": "attentiontuner.evaluation.rollout",
    # errors
    "UserError": "attentiontuner.core.errors",
}

__all__ = [*_HOMES, "__version__"]

if TYPE_CHECKING:
    from attentiontuner.collecting.collection import collect as collect
    from attentiontuner.core.errors import UserError as UserError
    from attentiontuner.core.success import LengthAtLeast as LengthAtLeast
    from attentiontuner.core.success import ReturnAtLeast as ReturnAtLeast
    from attentiontuner.data.tokens import expert_matrices as expert_matrices
    from attentiontuner.data.tokens import expert_matrix as expert_matrix
    from attentiontuner.demos import Demonstration as Demonstration
    from attentiontuner.demos import DemoStore as DemoStore
    from attentiontuner.demos import DemoWriter as DemoWriter
    from attentiontuner.demos import MemoryPair as MemoryPair
    from attentiontuner.demos import merge_annotators as merge_annotators
    from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot as to_lerobot
    from attentiontuner.demos.exchange.lerobot.importing import from_lerobot as from_lerobot
    from attentiontuner.demos.exchange.minari import from_minari as from_minari
    from attentiontuner.demos.exchange.minari import to_minari as to_minari
    from attentiontuner.demos.pairs import PairTable as PairTable
    from attentiontuner.evaluation.evaluate import evaluate as evaluate
    from attentiontuner.evaluation.opening import load_policy as load_policy
    from attentiontuner.evaluation.policy import ModelPolicy as ModelPolicy
    from attentiontuner.evaluation.rollout import Policy as Policy
    from attentiontuner.evaluation.rollout import rollout as rollout
    from attentiontuner.experts import Decision as Decision
    from attentiontuner.experts import Expert as Expert
    from attentiontuner.losses import memory_loss as memory_loss
    from attentiontuner.losses import memory_loss_from_scores as memory_loss_from_scores
    from attentiontuner.methods import Method as Method
    from attentiontuner.methods import facts_of as facts_of
    from attentiontuner.methods import register_method as register_method
    from attentiontuner.runs.config import TrainConfig as TrainConfig
    from attentiontuner.runs.config import paper_config as paper_config
    from attentiontuner.runs.config import recipe as recipe
    from attentiontuner.spaces import ActionSpec as ActionSpec
    from attentiontuner.spaces import ObservationSpec as ObservationSpec
    from attentiontuner.spaces import Part as Part
    from attentiontuner.spaces.encoders import register_encoder as register_encoder
    from attentiontuner.tasks import Instructions as Instructions
    from attentiontuner.tasks import Task as Task
    from attentiontuner.tasks import get_task as get_task
    from attentiontuner.tasks import list_tasks as list_tasks
    from attentiontuner.tasks import register_task as register_task
    from attentiontuner.training.train import train as train


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attentiontuner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
