"""Training on windows: a run that is stopped goes on to the same bytes, short demonstrations are whole, and what cannot
be is refused."""

import hashlib
import importlib
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.source import Source
from attentiontuner.demos.annotations import read_annotations
from attentiontuner.demos.pairs import PairTable
from attentiontuner.evaluation import annotating
from attentiontuner.evaluation.opening import as_policy, bound_of
from attentiontuner.methods import DataFacts
from attentiontuner.models.bound import Bound
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run
from attentiontuner.tasks.task import get_task
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
    assert "in windows of 3 steps\n" in told
    assert f"windows: {far} step of one demonstration at most recalled from beyond\n" in told
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


def test_windows_take_more_epochs_than_whole_demonstrations():
    """They show a part of each: as many more as have room, but no more than three."""
    task = get_task("tmaze")
    usual = paper_config(task, "recall", data=DataFacts(100, 1.0, (90, 110)))
    assert usual.epochs == paper_config(task, "recall", data=DataFacts(100)).epochs == 120
    for window, times in ((8, 3), (50, 2), (100, 200 / 190), (200, 1)):
        config = paper_config(task, "recall", data=DataFacts(100, 1.0, (90, 110)), window=window)
        assert config.epochs == round(120 * times)
        assert replace(config, epochs=120, window=None).to_json() == usual.to_json()
    assert paper_config(task, "recall", data=DataFacts(100, 1.0, (90, 110)), window=8, epochs=7).epochs == 7


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


def test_a_run_that_goes_on_keeps_its_windows_where_it_is_not_told_any(tmp_path, capsys):
    """Its network knows what to keep, and a run without windows could not teach it."""
    store = toy_store(tmp_path / "data")
    command = ["train", "--data", str(store.path), "--out", str(tmp_path / "run"), "--device", "cpu"]
    small = ["--epochs", "1", "--labels", "exact", "--d-model", "8", "--layers", "1", "--model-heads", "2"]
    assert main([*command, *small, "--window", "3", "--budget", "0s"]) == 0
    assert main(command) == 0
    assert Run(tmp_path / "run").config().window == 3
    assert ": 1 epoch of recall in" in capsys.readouterr().out
    assert main([*command, "--window", "4"]) == 2
    assert "was made with window = 3, now it is 4" in capsys.readouterr().err


def test_what_is_recalled_from_beyond_is_counted_once_labels_are_settled(tmp_path, capsys, monkeypatch):
    """What people marked is not yet what has to be kept."""
    store = toy_store(tmp_path / "data")
    monkeypatch.setattr(importlib.import_module("attentiontuner.training.train"), "_inferred", nobody_recalls)
    train(toy_config(window=3, epochs=1, method="recall", labels="readings"), store, tmp_path / "run", device="cpu")
    assert "windows: 0 steps of one demonstration at most recalled from beyond" in capsys.readouterr().err


def nobody_recalls(config, data, episodes, labels, run, place):
    return PairTable.nothing(labels.lengths)


def test_a_run_annotates_with_the_memory_it_plays_with(tmp_path, monkeypatch):
    """Whole demonstrations have more places than its windows had."""
    store = toy_store(tmp_path / "data")
    train(config(epochs=4), store, tmp_path / "whole", device="cpu")
    batch, whole = DemoData(store.read_packed()).batch(np.arange(len(store))), Run(tmp_path / "whole").load_model()
    with torch.no_grad():
        wanted = annotating._recalled_at_once(whole, batch, 1e-3)
        roomy, narrow = (annotating._recalled_in_play(Bound(*of), whole, batch, 1e-3) for of in ((50, 0), (2, 0)))
    assert sum(pairs.shape[1] for pairs in wanted) > 100
    for one, other in zip(wanted, roomy, strict=True):
        np.testing.assert_allclose(one[:, np.lexsort(one[:2])], other[:, np.lexsort(other[:2])], rtol=1e-3)
    assert {int(q - p) for pairs in narrow for p, q, _ in pairs.T} == {1}
    train(config(window=3), store, tmp_path / "windows", device="cpu")
    monkeypatch.setattr(annotating, "_recalled_at_once", None)
    annotating.annotate_by_run(store.path, tmp_path / "windows", "machine", threshold=1e-3)
    said = read_annotations(store.path, "machine")
    assert len(said) == len(store)
    assert max(q - p for each in said.values() for p, q, _ in each.pairs) > 3
