"""What every head looks at on one demonstration: small maps for the record, so that figures need no weights."""

from typing import Any

from torch import nn

from attentiontuner.data.batches import DemoData
from attentiontuner.demos import DemoStore
from attentiontuner.experiments.records import encode_map
from attentiontuner.models.heads import Head
from attentiontuner.training.config import TrainConfig
from attentiontuner.training.heatmaps import all_attention, expert_beside

MAP_SIDE = 80
"""Maps are pooled to at most this many pixels a side: 8 heads then take some 20 kB of a record."""


def attention_maps(model: nn.Module, config: TrainConfig, store: DemoStore, episode: int = 0) -> dict[str, Any]:
    """Attention over the tokens of one demonstration, for all heads, beside the expert's E.

    Returns a JSON value: `seed` and `steps` of the demonstration, `supervised` heads, `expert` and `heads` {"1:1": map}
    as `records.encode_map` makes them. Rows are tokens that attend, columns the tokens attended to.
    """
    device = next(model.parameters()).device
    data = DemoData(store.read_packed([episode]), device, attend_self=config.attend_self)
    weights = all_attention(model, data, 0)  # [layers, heads, n, n]
    steps = int(data.lengths[0])
    return {
        "seed": int(data.packed.seeds[0]),
        "steps": steps,
        "supervised": [str(head) for head in config.supervised()],
        "expert": encode_map(expert_beside(weights, data.packed.pairs[:, 1:], steps, config.attend_self), MAP_SIDE),
        "heads": {
            str(Head(layer, head)): encode_map(matrix, MAP_SIDE)
            for layer, row in enumerate(weights)
            for head, matrix in enumerate(row)
        },
    }
