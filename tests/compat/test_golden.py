"""Training computes what it computed at revision 2b3d0ce: losses of steps and of epochs, and the weights of the paper's
network to the bit."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from tests.compat.golden import CASES, FILE, LENGTHS, arithmetic, golden_run

GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))
TOLERANCE = {"steps": 2e-5, "epochs": 1e-4}
"""Other processors round otherwise, which grows from step to step."""

Runs = Callable[[str, str], dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each run is trained once."""
    folder = tmp_path_factory.mktemp("golden")

    @cache
    def run(name: str, length: str) -> dict[str, Any]:
        if CASES[name].task == "mystery-path":
            pytest.importorskip("memory_gym")
        return golden_run(name, length, folder)

    return run


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", CASES)
def test_losses(runs: Runs, name: str, length: str) -> None:
    found, wanted = runs(name, length)["epochs"], GOLDEN["runs"][f"{name} {length}"]["epochs"]
    known = [{key: epoch.get(key) for key in then} for epoch, then in zip(found, wanted, strict=True)]
    assert known == [pytest.approx(epoch, rel=TOLERANCE[length]) for epoch in wanted]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", [name for name in CASES if "recall" not in name])  # they are computed in another order
def test_weights_to_the_bit(runs: Runs, name: str, length: str) -> None:
    if arithmetic() != GOLDEN["arithmetic"]:
        pytest.skip("this processor or PyTorch rounds otherwise than where the weights were written down")
    assert runs(name, length)["weights"] == GOLDEN["runs"][f"{name} {length}"]["weights"]
