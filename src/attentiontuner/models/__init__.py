"""Networks. Each reads top to bottom in a file of its own; `network` says what all of them offer, `sizes` what they are
configured with, which needs no torch: the names below are loaded when first used.

What networks are made of, for one of your own:
"""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ActionHead": "attentiontuner.models.actions",
    "Batch": "attentiontuner.data.batch",
    "Head": "attentiontuner.models.heads",
    "Layout": "attentiontuner.data.batch",
    "Network": "attentiontuner.models.network",
    "NetworkConfig": "attentiontuner.models.sizes",
    "Output": "attentiontuner.models.network",
    "action_head": "attentiontuner.models.actions",
    "causal_attention": "attentiontuner.models.attention",
    "causal_log_attention": "attentiontuner.models.attention",
    "observation_embedding": "attentiontuner.models.embedders",
}

__all__ = list(_HOMES)

if TYPE_CHECKING:
    from attentiontuner.data.batch import Batch as Batch
    from attentiontuner.data.batch import Layout as Layout
    from attentiontuner.models.actions import ActionHead as ActionHead
    from attentiontuner.models.actions import action_head as action_head
    from attentiontuner.models.attention import causal_attention as causal_attention
    from attentiontuner.models.attention import causal_log_attention as causal_log_attention
    from attentiontuner.models.embedders import observation_embedding as observation_embedding
    from attentiontuner.models.heads import Head as Head
    from attentiontuner.models.network import Network as Network
    from attentiontuner.models.network import Output as Output
    from attentiontuner.models.sizes import NetworkConfig as NetworkConfig


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attentiontuner.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
