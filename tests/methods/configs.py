"""Configurations of runs that exist only in these tests."""

from attentiontuner.data.batch import Batch
from attentiontuner.losses import Loss
from attentiontuner.models.network import Output
from attentiontuner.models.sizes import NetworkConfig, TransformerConfig
from attentiontuner.runs.config import TrainConfig
from tests.models.test_transformer import GRID

PAPERS = TransformerConfig(GRID, 4)


def run_of(model: NetworkConfig = PAPERS, method: str = "attentiontuner", **choices: object) -> TrainConfig:
    return TrainConfig(task="some", settings={}, model=model, method=method, **choices)  # type: ignore[arg-type]


def loss_of(
    output: Output, batch: Batch, model: NetworkConfig = PAPERS, method: str = "attentiontuner", **choices: object
) -> Loss:
    """The loss as a run of that method computes it; by default the paper's, λ = 10."""
    config = run_of(model, method, **choices)
    return config.way.loss(output, batch, config)
