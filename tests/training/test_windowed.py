"""Training on windows: a run that is stopped goes on to the same bytes, short demonstrations are whole, and what cannot
be is refused."""

import hashlib
import re

import numpy as np
import pytest
import torch

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.data.source import Source
from attentiontuner.evaluation.policy import as_policy, bound_of
from attentiontuner.models.bound import Bound
from attentiontuner.runs.run import Run
from attentiontuner.training.train import train
from tests.training.toys import toy_config, toy_store, without_times


def config(method="recall", **choices):
    return toy_config(method=method, labels="exact", **choices)


def weights(run):
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("memory_limit", [None, 4_000])
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(tmp_path, memory_limit):
    store = toy_store(tmp_path / "data", episodes=14)
    choices = {"window": 3, "epochs": 2, "memory_limit": memory_limit}
    whole = train(config(**choices), store, tmp_path / "whole", device="cpu")
    stops = 0
    while not train(config(**choices), store, tmp_path / "stopped", device="cpu", budget_seconds=0).finished:
        stops += 1
    assert stops > 2
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    assert without_times(Run(tmp_path / "stopped").metrics()) == without_times(whole.metrics)
    assert whole.metrics[-1]["keep_loss"] > 0


def test_every_epoch_has_other_windows(tmp_path):
    store = toy_store(tmp_path / "data")
    labels = store.read_pairs()
    source = Source(store, np.arange(len(store)), labels, 8, seed=1, device=torch.device("cpu"), window=3)
    data = next(source.chunks(0)).data
    first = [data.cut(row).steps.tolist() for row in range(len(data))]
    assert next(source.chunks(1)).data is data
    second = [data.cut(row).steps.tolist() for row in range(len(data))]
    assert first != second
    next(source.chunks(0))
    assert [data.cut(row).steps.tolist() for row in range(len(data))] == first


def test_demonstrations_that_are_no_longer_than_a_window_are_whole(tmp_path):
    store = toy_store(tmp_path / "data")
    for name, window in (("usual", None), ("windows", 8)):
        train(config(window=window), store, tmp_path / name, device="cpu")
    assert weights(tmp_path / "usual") == weights(tmp_path / "windows")
    assert Run(tmp_path / "windows").config().window is None
    assert "keep_loss" not in Run(tmp_path / "windows").metrics()[0]
    train(config(window=3), store, tmp_path / "shorter", device="cpu")
    assert weights(tmp_path / "usual") != weights(tmp_path / "shorter")


def test_what_was_trained_on_windows_plays_with_as_large_a_memory(tmp_path, capsys):
    store = toy_store(tmp_path / "data")
    train(config(window=3), store, tmp_path / "run", device="cpu")
    told = capsys.readouterr().err
    far = max(len({p for p, q, _ in demo.pairs if q - p >= 3}) for demo in store)
    assert f"in windows of 3 steps ({far} step of one at most recalled from beyond)" in told
    trained = Run(tmp_path / "run").load_model()
    assert bound_of(trained.model, trained.config.window) == Bound(3, 3, "score")
    policy = as_policy(trained)
    policy.reset(2)
    assert policy._cache.steps.shape == (2, 6)
    without = train(config("recall-vanilla", window=3), store, tmp_path / "without", device="cpu")
    assert set(without.metrics[0]) >= {"imitation_loss", "memory_loss"}
    assert "keep_loss" not in without.metrics[0]
    trained = Run(tmp_path / "without").load_model()
    assert bound_of(trained.model, trained.config.window) == Bound(3, 3, "recent")


REFUSED = {
    ("--window", "5", "--learn-padding"): "--learn-padding fills up whole demonstrations: leave it out with --window",
    ("--method", "vanilla", "--window", "5"): "--window: method 'vanilla' learns from whole demonstrations; "
    "recall-vanilla and recall can",
    ("--window", "1"): "--window is 1: give 2 steps or more",
    ("--window", "5", "--heatmap-epochs", "1"): "--heatmap-epochs: heatmaps are of whole demonstrations: leave it out",
    ("--model", "keeps=True"): "model keeps: what to keep is learned with --window, from pairs",
}


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_what_cannot_be_is_refused_in_one_line(options, tmp_path, capsys):
    toy_store(tmp_path / "data")
    command = ["train", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "run"), *options]
    assert main(command) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.search(re.escape(REFUSED[options]), line)


def test_a_run_keeps_its_windows(tmp_path):
    store = toy_store(tmp_path / "data")
    train(config(window=3), store, tmp_path / "run", device="cpu", budget_seconds=0)
    with pytest.raises(UserError, match="was made with window = 3, now it is 4"):
        train(config(window=4), store, tmp_path / "run", device="cpu")


def test_a_run_goes_on_with_its_windows_where_nothing_is_said(tmp_path, capsys):
    toy_store(tmp_path / "data")
    small = ["--labels", "exact", "--batch-size", "8", "--d-model", "16", "--layers", "2", "--feedforward", "32"]
    command = ["train", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "run"), "--epochs", "1", *small]
    assert main([*command, "--window", "3"]) == 0
    assert main(command) == 0
    assert "in windows of 3 steps" in capsys.readouterr().err.splitlines()[-1]
    assert main([*command, "--window", "4"]) == 2
    assert "was made with window = 3, now it is 4" in capsys.readouterr().err.splitlines()[-1]
