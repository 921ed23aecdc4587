"""AttentionTuner: imitation learning that is shown what the expert remembered.

The public names below are loaded when first used, so `import attentiontuner` is quick and needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    # demonstrations
    "Demonstration": "attentiontuner.demos",
    "MemoryPair": "attentiontuner.demos",
    "DemoStore": "attentiontuner.demos",
    "DemoWriter": "attentiontuner.demos",
    "to_minari": "attentiontuner.demos.minari",
    "from_minari": "attentiontuner.demos.minari",
    # tasks and experts
    "ObservationSpec": "attentiontuner.observations",
    "Task": "attentiontuner.tasks",
    "register_task": "attentiontuner.tasks",
    "get_task": "attentiontuner.tasks",
    "Decision": "attentiontuner.experts",
    "Expert": "attentiontuner.experts",
    "collect": "attentiontuner.experts.collect",
    # training and playing
    "memory_loss": "attentiontuner.losses",
    "expert_matrix": "attentiontuner.data.tokens",
    "TrainConfig": "attentiontuner.training.config",
    "paper_config": "attentiontuner.training.config",
    "train": "attentiontuner.training.trainer",
    "load_policy": "attentiontuner.evaluation.policy",
    "rollout": "attentiontuner.evaluation.rollout",
    # errors
    "UserError": "attentiontuner.errors",
}

__all__ = [*_HOMES, "__version__"]

if TYPE_CHECKING:
    from attentiontuner.data.tokens import expert_matrix as expert_matrix
    from attentiontuner.demos import Demonstration as Demonstration
    from attentiontuner.demos import DemoStore as DemoStore
    from attentiontuner.demos import DemoWriter as DemoWriter
    from attentiontuner.demos import MemoryPair as MemoryPair
    from attentiontuner.demos.minari import from_minari as from_minari
    from attentiontuner.demos.minari import to_minari as to_minari
    from attentiontuner.errors import UserError as UserError
    from attentiontuner.evaluation.policy import load_policy as load_policy
    from attentiontuner.evaluation.rollout import rollout as rollout
    from attentiontuner.experts import Decision as Decision
    from attentiontuner.experts import Expert as Expert
    from attentiontuner.experts.collect import collect as collect
    from attentiontuner.losses import memory_loss as memory_loss
    from attentiontuner.observations import ObservationSpec as ObservationSpec
    from attentiontuner.tasks import Task as Task
    from attentiontuner.tasks import get_task as get_task
    from attentiontuner.tasks import register_task as register_task
    from attentiontuner.training.config import TrainConfig as TrainConfig
    from attentiontuner.training.config import paper_config as paper_config
    from attentiontuner.training.trainer import train as train


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attentiontuner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
