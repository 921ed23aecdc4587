"""Where a run computes."""

import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.models.sizes import RecallConfig, TransformerConfig
from attentiontuner.runs.devices import processes, threads_for
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


@pytest.mark.parametrize("said", ["x", "0", "-1", "1.5", "", "9" * 30, "2"])
def test_processes_that_nobody_started_are_one_line(monkeypatch, said):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", said)
    with pytest.raises(UserError, match="^WORLD_SIZE=.*unset"), processes(torch.device("cpu")):
        pass
