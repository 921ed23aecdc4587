"""Where a run computes."""

import pytest
import torch

from attentiontuner.models.sizes import RecallConfig, TransformerConfig
from attentiontuner.runs.devices import threads_for
from attentiontuner.spaces.observation import ObservationSpec

GRID = ObservationSpec("grid", (3, 3, 1), (4,))
IMAGE = ObservationSpec("image", (84, 84, 3))
ACTIONS = 3


@pytest.mark.parametrize(
    ("network", "device", "threads"),
    [
        (RecallConfig(GRID, ACTIONS, d_model=64), "cpu", 1),
        (RecallConfig(GRID, ACTIONS, d_model=256), "cpu", 2),
        (RecallConfig(IMAGE, ACTIONS, d_model=64), "cpu", 2),
        (RecallConfig(GRID, ACTIONS, d_model=64), "cuda", 2),
        (TransformerConfig(GRID, ACTIONS), "cpu", 2),
    ],
)
def test_narrow_networks_compute_with_one_thread(network, device, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(network, torch.device(device)):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
