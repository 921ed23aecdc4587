"""Batches that do not fit into memory are computed in parts; steps that take long are thrown away to stop in time."""

import gc
import os
import signal
import time
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.signals import Interrupted
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.source import frame_bytes
from attentiontuner.demos.store.packed import PackedDemos
from attentiontuner.models.network import Network
from attentiontuner.models.optimiser import make_optimiser
from attentiontuner.runs.config import TrainConfig
from attentiontuner.runs.run import Run
from attentiontuner.training import abandoning, room
from attentiontuner.training import train as train_module
from attentiontuner.training.abandoning import Abandoned, Attentive
from attentiontuner.training.step import TrainStep
from attentiontuner.training.train import train
from tests.training.toys import toy_config, toy_store, without_times

SURE = {"dropout": 0.0}
"""Nothing is drawn, so that parts draw nothing else."""


@pytest.mark.parametrize("method", ["attentiontuner", "recall"])
def test_parts_have_the_gradient_of_the_whole(tmp_path: Path, method: str) -> None:
    drawn = {"teacher": 1.0, "dropped_cells": 0.0} if method == "recall" else {}
    config = toy_config(method=method, model={**SURE, **drawn}, batch_size=5)
    data, rows, found = DemoData(toy_store(tmp_path, annotate="odd").read_packed()), np.array([3, 8, 1, 4, 7]), []
    for parts in (None, 2, 5, 7):
        torch.manual_seed(0)
        model = config.network.build().train()
        step = TrainStep(model, make_optimiser(model, 1e-3), data, replace(config, parts=parts))
        step(rows)
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        found.append([torch.tensor(list(step.collect().values())), *gradients])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("version", "place"), [(1, "/job"), (2, "/job"), (2, "/"), (1, "/elsewhere")])
def test_a_groups_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, place: str) -> None:
    """Files that were read are forgotten when memory is needed; the group of a container may be the root."""
    process, root = tmp_path / "self", tmp_path / "groups" / ("memory" if version == 1 else "")
    folder = root if place == "/elsewhere" else root / place.lstrip("/")
    process.mkdir()
    folder.mkdir(parents=True)
    (process / "cgroup").write_text(f"3:cpu:/\n{'4:memory' if version == 1 else '0:'}:{place}\n")
    first = {"memory.limit_in_bytes": 9000, "memory.usage_in_bytes": 5000}
    for name, number in (first if version == 1 else {"memory.max": 9000, "memory.current": 5000}).items():
        (folder / name).write_text(f"{number}\n")
    total = "total_" if version == 1 else ""
    (folder / "memory.stat").write_text(f"cache 4000\n{total}inactive_file 3000\nslab 1\n")
    monkeypatch.setattr(room, "PROCESS", process)
    monkeypatch.setattr(room, "GROUPS", tmp_path / "groups")
    assert room.free_bytes() == 7000


@pytest.mark.parametrize("method", ["attentiontuner", "recall", "slots"])
def test_trained_networks_are_forgotten(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that trains one after another does not grow."""
    made: list[weakref.ref[torch.Tensor]] = []
    config, whole = toy_config(method=method, epochs=1, labels="exact"), room.kept_bytes

    def noted(config: TrainConfig, model: Network, one: PackedDemos) -> float:
        made.extend(map(weakref.ref, model.parameters()))
        return whole(config, model, one)

    monkeypatch.setattr(room, "kept_bytes", noted)
    train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")
    gc.collect()
    assert made
    assert [parameter() for parameter in made if parameter() is not None] == []


def test_a_batch_is_cut_where_it_does_not_fit_and_stays_so(tmp_path: Path, monkeypatch, capsys) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(epochs=2, batch_size=8)
    model = config.network.build()
    one = store.read_packed([0])
    each = room.BESIDE * room.kept_bytes(config, model, one) + room.EMBEDDING * store.observation.nbytes
    weights = sum(parameter.nbytes for parameter in model.parameters())
    longest = np.sort(store.lengths)[::-1]

    def free_for(episodes: int, frames: int) -> float:
        return frames + (each * longest[:episodes].sum() + 3 * weights + room.WORKSPACE) / room.USED + 1

    for episodes, parts in ((8, 1), (4, 2), (3, 3), (1, 8)):
        for frames in (0, 10**9):
            free = free_for(episodes, frames)
            monkeypatch.setattr(room, "free_bytes", lambda free=free: free)
            assert room.parts_for(config, model, one, store.lengths, frames) == parts
    monkeypatch.setattr(room, "free_bytes", lambda: free_for(1, frame_bytes(store, np.arange(24))))
    whole = train(config, store, tmp_path / "cut", device="cpu")
    assert "it is computed in 8 parts" in capsys.readouterr().err
    assert Run(tmp_path / "cut").config().parts == 8
    monkeypatch.setattr(room, "free_bytes", lambda: 2**40)
    again = train(replace(config, epochs=3), store, tmp_path / "cut", device="cpu")
    assert again.metrics[:2] == whole.metrics
    assert Run(tmp_path / "cut").config().parts == 8
    monkeypatch.setattr(room, "free_bytes", lambda: 2**20)
    few = (
        r"an episode of 8 steps needs about 0\.\d GB to train on, 0\.0 GB are free beside 0\.0 GB of frames: .*--memory"
    )
    with pytest.raises(UserError, match=few):
        train(config, store, tmp_path / "none", device="cpu")
    assert train(replace(config, parts=1), store, tmp_path / "asked", device="cpu").finished


def test_what_is_kept_is_what_a_longer_episode_keeps(tmp_path: Path, monkeypatch) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config()
    model, one = config.network.build(), store.read_packed([int(store.lengths.argmax())])
    whole = room.kept_bytes(config, model, one)
    monkeypatch.setattr(room, "TRIED", 4)
    assert room.kept_bytes(config, model, one) == pytest.approx(whole, rel=0.25)
    assert whole > 4 * 4 * config.model.d_model  # type: ignore[attr-defined]


def test_an_allocation_that_fails_is_told_in_a_line(tmp_path: Path, monkeypatch) -> None:
    def no_room(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(train_module.TrainLoop, "go", no_room)
    with pytest.raises(UserError, match="not enough memory for a batch of 6 demonstrations in 1 part: .* such as 2"):
        train(toy_config(batch_size=6), toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")


def slowly(monkeypatch, at: int, what: object) -> None:
    """Every step takes long from now on; in the backward pass of step number `at` something happens."""
    calls = [0]
    learn = TrainStep._learn_from

    def learn_slowly(step: TrainStep, batch: object) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == at:
            next(step.working.parameters()).register_hook(lambda _: what())  # type: ignore[operator]
        return learn(step, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainStep, "_learn_from", learn_slowly)
    monkeypatch.setattr(abandoning, "SLOW", 0.0)
    monkeypatch.setattr(abandoning, "GRACE", 0.0)


@pytest.mark.parametrize("at", [1, 2, 6])
def test_a_step_that_is_thrown_away_leaves_no_trace(tmp_path: Path, monkeypatch, at: int) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(epochs=3, batch_size=6, test_fraction=0.2)
    whole = train(config, store, tmp_path / "whole", device="cpu")
    with monkeypatch.context() as patched:
        slowly(patched, at, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted, match="SIGTERM: saved after"):
            train(config, store, tmp_path / "stopped", device="cpu")
    state = Run(tmp_path / "stopped").load_state()
    assert state is not None
    assert state.epoch * 4 + state.batch == at - 1
    assert without_times(train(config, store, tmp_path / "stopped", device="cpu").metrics) == without_times(
        whole.metrics
    )
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("stopped", "whole")]
    assert weights[0] == weights[1]


def test_a_test_that_takes_long_is_thrown_away_too(tmp_path: Path, monkeypatch) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(epochs=2, batch_size=6, test_fraction=0.2)
    whole = train(config, store, tmp_path / "whole", device="cpu")
    real = train_module.TrainLoop._test
    with monkeypatch.context() as patched:
        patched.setattr(abandoning, "GRACE", 0.0)
        patched.setattr(abandoning, "SLOW", 0.0)
        patched.setattr(train_module.TrainLoop, "_test", lambda loop, wish: real(loop, lambda: True))
        result = train(config, store, tmp_path / "stopped", device="cpu")
        assert not result.finished
        assert not train(config, store, tmp_path / "stopped", device="cpu").finished  # it has nothing to save anew
    result = train(config, store, tmp_path / "stopped", device="cpu")
    assert without_times(result.metrics) == without_times(whole.metrics)


def draw_after_a_while(attentive: Attentive) -> None:
    with attentive.to(lambda: True):
        time.sleep(0.02)
        torch.rand(2)


def test_only_what_takes_long_is_stopped(monkeypatch) -> None:
    attentive, generator = Attentive(), torch.get_rng_state()
    draw_after_a_while(attentive)  # everything has its grace
    assert not torch.equal(torch.get_rng_state(), generator)
    monkeypatch.setattr(abandoning, "GRACE", 0.01)
    draw_after_a_while(attentive)  # it was short the last time
    generator = torch.get_rng_state()
    with pytest.raises(Abandoned):
        draw_after_a_while(Attentive())
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("limit", [None, 1000])
def test_a_batch_has_the_room_that_frames_leave(tmp_path: Path, monkeypatch, limit: int | None) -> None:
    """All frames where they are held, else as many as the limit allows, and what it takes to read a shard."""
    store, asked = toy_store(tmp_path / "data"), []
    monkeypatch.setattr(train_module, "parts_for", lambda *given: asked.append(given[-1]) or 1)
    train(toy_config(epochs=1, memory_limit=limit), store, tmp_path / "run", device="cpu")
    largest = max(shard.distinct_frames for shard in store.manifest.shards) * store.observation.nbytes
    whole = frame_bytes(store, np.arange(19)) + frame_bytes(store, np.arange(19, 24))
    assert asked == [whole if limit is None else limit + 3 * largest]
