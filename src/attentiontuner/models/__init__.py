"""Networks. Each model file reads top to bottom; they share `forward`, `start` and `step`."""

from typing import Any

from torch import nn

from attentiontuner.errors import UserError
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.recall import RecallConfig, RecallTransformer
from attentiontuner.models.transformer import Output, Transformer, TransformerConfig
from attentiontuner.observations import ObservationSpec

__all__ = [
    "Head",
    "Output",
    "RecallConfig",
    "RecallTransformer",
    "Transformer",
    "TransformerConfig",
    "build_model",
    "model_config_from_json",
    "parse_heads",
]

ARCHITECTURES: dict[str, tuple[type, type]] = {
    "transformer": (TransformerConfig, Transformer),
    "recall": (RecallConfig, RecallTransformer),
}
"""architecture name → (its config, its network)"""


def build_model(config: Any) -> nn.Module:
    """The network of a config."""
    for config_type, network in ARCHITECTURES.values():
        if isinstance(config, config_type):
            model: nn.Module = network(config)
            return model
    raise TypeError(f"no network for {type(config).__name__}")


def model_config_from_json(value: dict[str, Any]) -> Any:
    """The config that `config.to_json()` wrote."""
    fields = dict(value)
    architecture = fields.pop("architecture", None)
    if architecture not in ARCHITECTURES:
        raise UserError(f"model architecture {architecture!r} is not one of {', '.join(ARCHITECTURES)}")
    fields["observation"] = ObservationSpec.from_json(fields["observation"])
    try:
        return ARCHITECTURES[architecture][0](**fields)
    except TypeError as error:
        raise UserError(f"model configuration: {error}") from error
