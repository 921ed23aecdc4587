"""It learns: the same network, demonstrations and time, with and without memory pairs, on a short Hallway.

Without pairs the network sits on the plateau of Hallway (it walks well and enters doors at random); with them it learns
to compare each object with the one it saw in the start room. Minutes on two cores.

The setting is not settled. Success of 100 episodes at epochs 4, 5, 7, 8, 9: with pairs, seed 1: 20, 49, 66, 82, 97 %;
seed 2: 14, 59, 67, 63 % (stopped at 8); without, seed 1: 20, 20, 20, 28, 73 %. Without pairs it leaves the plateau four
epochs later, so that a fixed number of epochs does not separate every seed: expected to fail until a setting does.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from attentiontuner.demos import DemoStore
from attentiontuner.evaluation.policy import success_during_training
from attentiontuner.experts.collect import collect
from attentiontuner.tasks import get_task
from attentiontuner.training.checkpoint import load_model
from attentiontuner.training.config import paper_config
from attentiontuner.training.trainer import train

SETTINGS = {"length": 3}
DEMONSTRATIONS = 12_000
NETWORK = {"d_model": 64, "layers": 2, "feedforward": 256, "dropout": 0.0, "embedder": "lookup"}
CHOICES = {"epochs": 14, "batch_size": 32, "learning_rate": 1e-3, "test_fraction": 0.02}
SEEDS = (1, 2, 3)
EPISODES = 300


def success(folder: Path, method: str, seed: int) -> float:
    """Train one model on one thread and play `EPISODES` unseen episodes."""
    torch.set_num_threads(1)
    task = get_task("hallway", SETTINGS)
    config = paper_config(task, method, NETWORK, seed=seed, **CHOICES)
    run = train(config, DemoStore.open(folder / "data"), folder / f"{method}-{seed}", device="cpu").run
    return success_during_training(task, EPISODES, workers=0)(load_model(run)[0])


@pytest.mark.slow
@pytest.mark.xfail(reason="no setting found yet that separates the methods on every seed", strict=False)
@pytest.mark.timeout(1500)
def test_memory_pairs_make_the_difference(tmp_path: Path) -> None:
    collect(get_task("hallway", SETTINGS), DEMONSTRATIONS, 1, tmp_path / "data")
    cells = [(method, seed) for seed in SEEDS for method in ("attentiontuner", "vanilla")]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = list(pool.map(success, [tmp_path] * len(cells), *zip(*cells, strict=True)))
    rates = dict(zip(cells, found, strict=True))
    with_pairs = [rates["attentiontuner", seed] for seed in SEEDS]
    without = [rates["vanilla", seed] for seed in SEEDS]
    assert min(with_pairs) >= 0.95, rates
    assert max(without) <= 0.5, rates
