"""What every head looks at on one demonstration: small maps for the record, so that figures need no weights."""

from typing import Any

from attentiontuner.data.attended import attended
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos import DemoStore
from attentiontuner.experiments.records import encode_map
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Network
from attentiontuner.runs.config import TrainConfig

MAP_SIDE = 80
"""Maps are pooled to at most this many pixels a side: 8 heads then take some 20 kB of a record."""


def attention_maps(model: Network, config: TrainConfig, store: DemoStore) -> dict[str, Any]:
    """Attention over the tokens of the first demonstration, for all heads, beside the expert's E.

    Returns a JSON value: `seed` and `steps` of the demonstration, `supervised` heads, `expert` and `heads` {"1:1": map}
    as `records.encode_map` makes them. Rows are tokens that attend, columns the tokens attended to.
    """
    device = next(model.parameters()).device
    data = DemoData(store.read_packed([0]), device)
    found = attended(model, data, 0, config.attend_self)
    assert found.expert is not None, "the scripted expert annotates every demonstration of a cell"
    return {
        "seed": int(data.packed.seeds[0]),
        "steps": int(data.lengths[0]),
        "supervised": [str(head) for head in config.supervised()],
        "expert": encode_map(found.expert, MAP_SIDE),
        "heads": {
            str(Head(layer, head)): encode_map(matrix, MAP_SIDE)
            for layer, row in enumerate(found.weights)
            for head, matrix in enumerate(row)
        },
    }
