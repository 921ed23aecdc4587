"""What benchmarks count, and that they still fit the package."""

import importlib
import pkgutil

import benchmarks
import numpy as np
import pytest
import torch
from benchmarks.__main__ import APART
from benchmarks.evaluation import Driven, forward_seconds
from benchmarks.training import operation_counter, our_step, textbook_speed

from attentiontuner.collecting.collection import collect
from attentiontuner.evaluation.rollout import rollout
from attentiontuner.experts.hallway import HallwayExpert
from attentiontuner.runs.config import paper_config
from attentiontuner.tasks.task import get_task

SMALL = {"d_model": 16, "layers": 1, "heads": 2, "feedforward": 32}


@pytest.mark.parametrize("room", [module.name for module in pkgutil.iter_modules(benchmarks.__path__)])
def test_every_benchmark_is_there(room):
    if room not in APART:
        assert callable(importlib.import_module(f"benchmarks.{room}").bench)


def test_both_trainers_take_the_same_demonstrations(tmp_path):
    task = get_task("hallway", {"length": 3})
    store, config = collect(task, 4, 1, tmp_path / "data", workers=1), paper_config(task, model=SMALL)
    packed, batches = store.read_packed(), [np.array([0, 1]), np.array([2, 3])]
    assert textbook_speed(config, packed, batches, torch.device("cpu")) > 0
    step = our_step(config, packed, torch.device("cpu"))
    for rows in batches:
        step(rows)
    assert step.collect()["memory_loss"] > 0


def test_a_network_driven_by_the_expert_solves_every_episode(tmp_path):
    task = get_task("hallway", {"length": 3})
    model = paper_config(task, model=SMALL).network.build()
    policy = Driven(model, task.max_steps)
    policy.expert_of = HallwayExpert
    assert all(result.success for result in rollout(policy, task, [2**30 + n for n in range(5)], batch=2, workers=0))
    store = collect(task, 1, 1, tmp_path / "data", workers=1)
    assert forward_seconds(model, task, store[0], 3) > 0


def test_matrix_products_are_counted_with_an_activation_too():
    inputs, layer = torch.randn(5, 3), torch.nn.Linear(3, 7)
    with operation_counter() as counter:
        torch._addmm_activation(layer.bias, inputs, layer.weight.T)
        layer(inputs).sum().backward()
    product = 2 * 5 * 3 * 7
    assert counter.get_total_flops() == 3 * product  # that of the activation, that of the layer, that of its gradient
