"""Networks. Each reads top to bottom in a file of its own; `network` says what all of them offer.

What networks are made of, for one of your own:
"""

from attentiontuner.data.batch import Batch, Layout
from attentiontuner.models.actions import ActionHead, action_head
from attentiontuner.models.attention import causal_attention, causal_log_attention
from attentiontuner.models.embedders import observation_embedding
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Network, NetworkConfig, Output

__all__ = [
    "ActionHead",
    "Batch",
    "Head",
    "Layout",
    "Network",
    "NetworkConfig",
    "Output",
    "action_head",
    "causal_attention",
    "causal_log_attention",
    "observation_embedding",
]
