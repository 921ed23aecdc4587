"""Training as a whole: golden losses, going on, stopping, and what it writes."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from attentiontuner.core.errors import UserError
from attentiontuner.core.signals import Interrupted
from attentiontuner.demos.annotations import Annotation, write_annotation
from attentiontuner.methods import get_method
from attentiontuner.runs.devices import choose_device
from attentiontuner.runs.run import Run
from attentiontuner.training.train import _test_source, train
from tests.training.toys import toy_config, toy_store, without_times

pytestmark = pytest.mark.usefixtures("one_thread")


GOLDEN = {
    "grid": [
        (1.547504, 0.1944969, 1.709947, 1.400467),
        (1.453412, 0.1893166, 1.581439, 1.384574),
    ],
    "image": [
        (1.579172, 0.1937131, 2.613693, 1.367558),
        (1.418079, 0.1866588, 1.733989, 1.266941),
    ],
    "vector": [
        (1.347235, 0.177046, 1.649834, 1.446733),
        (1.365311, 0.1769167, 1.517137, 1.458023),
    ],
}
"""kind → (imitation loss, memory loss, gradient norm, test imitation loss) of each epoch, float32 on one thread."""


@pytest.mark.parametrize("kind", ["grid", "image", "vector"])
def test_golden_losses(tmp_path: Path, kind: str) -> None:
    plain = {"standard": False} if kind == "vector" else {}
    config = toy_config(kind, model={"dropout": 0.0, **plain})  # a refactor may draw dropout in another order
    result = train(config, toy_store(tmp_path / "data", kind), tmp_path / "run", device="cpu")
    names = ("imitation_loss", "memory_loss", "gradient_norm", "test_imitation_loss")
    found = [tuple(epoch[name] for name in names) for epoch in result.metrics]
    assert found == [pytest.approx(epoch, rel=2e-5) for epoch in GOLDEN[kind]], found


def test_a_narrow_network_trains_on_one_thread(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    seen: list[int] = []

    def threads(_: nn.Module) -> float:
        seen.append(torch.get_num_threads())
        return 0.0

    config = replace(toy_config(), eval_every=2)
    train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu", evaluate=threads)
    assert seen == [1]
    assert torch.get_num_threads() == 2


def test_a_run_writes_what_it_promises(tmp_path: Path) -> None:
    config = toy_config(heatmap_epochs=(0, 2))
    result = train(config, toy_store(tmp_path / "data"), str(tmp_path / "run"), device="cpu")
    assert result.finished
    assert not result.already_finished
    assert Run(result.run).metrics() == result.metrics
    assert set(result.metrics[0]) == {
        "epoch", "imitation_loss", "memory_loss", "train_accuracy", "test_accuracy", "test_imitation_loss",
        "test_accuracy_at_pairs", "test_recall",
        "gradient_norm", "demonstrations_per_second", "seconds",
    }  # fmt: skip
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["train"]["precision"] == "float32"
    assert saved["data"]["demonstrations"] == 19
    assert "torch" in saved["versions"]
    model = Run(result.run).load_model().model
    state = Run(result.run).load_state()
    assert state is not None
    assert all(torch.equal(tensor, state.model[name]) for name, tensor in model.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "run" / "heatmaps").iterdir()) == [
        "00000.png", "00000.safetensors", "00002.png", "00002.safetensors",
    ]  # fmt: skip


def test_the_seed_decides_everything_and_global_generators_are_left_alone(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    given = ((1, store), (1, str(store.path)), (2, store))  # a folder is as good as what is in it
    runs = [train(toy_config(seed=seed), data, tmp_path / str(i), device="cpu") for i, (seed, data) in enumerate(given)]
    assert torch.equal(torch.get_rng_state(), before)
    first, second, other = (without_times(run.metrics) for run in runs)
    assert first == second
    assert first != other


def test_stopped_by_a_budget_it_goes_on_to_the_same_end(tmp_path: Path) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(epochs=3)
    whole = train(config, store, tmp_path / "whole", device="cpu")
    sessions = 0
    while True:
        result = train(config, store, tmp_path / "parts", device="cpu", budget_seconds=0.0)  # a batch at a time
        sessions += 1
        if result.finished:
            break
    assert sessions >= 9
    assert without_times(result.metrics) == without_times(whole.metrics)
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")


def test_a_finished_run_is_made_longer(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    whole = train(toy_config(epochs=4), store, tmp_path / "whole", device="cpu")
    assert train(toy_config(epochs=2), store, tmp_path / "grown", device="cpu").finished
    grown = train(toy_config(epochs=4), store, tmp_path / "grown", device="cpu")
    assert without_times(grown.metrics) == without_times(whole.metrics)
    assert _weights(tmp_path / "grown") == _weights(tmp_path / "whole")
    assert Run(tmp_path / "grown").config() == Run(tmp_path / "whole").config()
    with pytest.raises(UserError, match="was made with epochs = 4, now it is 3"):
        train(toy_config(epochs=3), store, tmp_path / "grown", device="cpu")
    planned = {"schedule": "cosine"}
    assert train(toy_config(epochs=2, **planned), store, tmp_path / "planned", device="cpu").finished
    with pytest.raises(UserError, match="was made with epochs = 2, over which its learning rate falls, now it is 4"):
        train(toy_config(epochs=4, **planned), store, tmp_path / "planned", device="cpu")


def test_a_streamed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    store, config = toy_store(tmp_path / "data"), toy_config(memory_limit=5000)
    whole = train(config, store, tmp_path / "whole", device="cpu")
    for _ in range(7):
        train(config, store, tmp_path / "parts", device="cpu", budget_seconds=0.0)
    result = train(config, store, tmp_path / "parts", device="cpu")
    assert json.loads((tmp_path / "parts" / "config.json").read_text())["train"]["memory_limit"] == 5000
    assert without_times(result.metrics) == without_times(whole.metrics)
    assert _weights(tmp_path / "parts") == _weights(tmp_path / "whole")


def test_a_finished_run_has_nothing_to_do(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    first = train(toy_config(), store, tmp_path / "run", device="cpu")
    again = train(toy_config(), store, tmp_path / "run", device="cpu")
    assert again.already_finished
    assert again.metrics == first.metrics


def test_evaluation_is_logged_and_the_best_model_kept(tmp_path: Path) -> None:
    scores = iter([0.25, 0.75, 0.5])
    seen: list[dict[str, torch.Tensor]] = []

    def evaluate(model: nn.Module) -> float:
        assert not model.training
        torch.rand(7)  # an evaluation that draws must not move the run
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return next(scores)

    store = toy_store(tmp_path / "data")
    choices = {"epochs": 6, "eval_every": 2, "eval_episodes": 4}
    result = train(toy_config(**choices), store, tmp_path / "run", evaluate=evaluate, device="cpu")
    assert [epoch.get("success_rate") for epoch in result.metrics] == [None, 0.25, None, 0.75, None, 0.5]
    best = Run(tmp_path / "run").load_model(best=True).model
    assert all(torch.equal(tensor, seen[1][name]) for name, tensor in best.state_dict().items())
    plain = train(toy_config(**choices), store, tmp_path / "plain", device="cpu")
    assert _weights(tmp_path / "plain") == _weights(tmp_path / "run")
    assert plain.metrics[-1]["imitation_loss"] == result.metrics[-1]["imitation_loss"]


def test_vanilla_is_the_same_run_with_weight_zero(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    vanilla = train(toy_config(method="vanilla"), store, tmp_path / "a", device="cpu")
    zero = train(toy_config(memory_weight=0.0), store, tmp_path / "b", device="cpu")
    assert without_times(vanilla.metrics) == without_times(zero.metrics)
    assert all(epoch["memory_loss"] == 0 for epoch in vanilla.metrics)


def test_the_memory_loss_teaches_the_head(tmp_path: Path) -> None:
    config = toy_config(epochs=40, learning_rate=3e-3)
    result = train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")
    assert result.metrics[-1]["memory_loss"] < 0.75 * result.metrics[0]["memory_loss"]
    assert result.metrics[-1]["train_accuracy"] > 0.8


def test_a_loss_that_is_not_finite_stops_with_step_episodes_and_state(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data", "vector", episodes=24)
    config = toy_config("vector", epochs=50, learning_rate=1e18, checkpoint_seconds=0.0)
    with pytest.raises(
        UserError, match=r"not finite at epoch \d+, batch \d+; .*--learning-rate; the batch's episodes: \d"
    ):
        train(config, store, tmp_path / "run", device="cpu")
    state = Run(tmp_path / "run").load_state()
    if state is not None:
        assert all(torch.isfinite(tensor).all() for tensor in state.model.values())


def test_a_loss_of_other_terms_than_its_method_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(get_method("attentiontuner")), "terms", ("imitation", "entropy"))
    with pytest.raises(UserError, match="terms imitation, memory, its `terms` are imitation, entropy"):
        train(toy_config(), toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    store = toy_store(tmp_path / "data")
    run = tmp_path / "run"
    with pytest.raises(UserError, match="holds demonstrations of 'toy-grid', not of 'toy-vector'"):
        train(toy_config("vector"), store, run)
    with pytest.raises(UserError, match="recorded with settings"):
        train(replace(toy_config(), settings={"size": 2}), store, run)
    with pytest.raises(UserError, match="bfloat16 is for GPUs"):
        train(toy_config(precision="bfloat16"), store, run, device="cpu")
    with pytest.raises(UserError, match="no such device"):
        train(toy_config(), store, run, device="abacus")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot make the folder"):
        train(toy_config(), store, tmp_path / "file" / "run", device="cpu")


def _weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def test_where_the_test_demonstrations_lack_the_annotator_nobody_elses_pairs_are_drawn(tmp_path: Path) -> None:
    store, test = toy_store(tmp_path / "data"), toy_store(tmp_path / "test", episodes=6)
    for episode in range(len(store)):
        write_annotation(store.path, "alice", episode, Annotation([(0, 2)]))
    config = toy_config(epochs=1, annotator="alice", heatmap_epochs=(1,))
    train(config, store, tmp_path / "run", test_data=test, device="cpu")
    drawn = next(_test_source(test, np.arange(6), config, torch.device("cpu"), 10**6).pieces())
    assert len(drawn.packed.pairs) == 0
    assert not drawn.annotated.any()
    own = next(_test_source(store, np.arange(6), config, torch.device("cpu"), 10**6).pieces())
    assert own.packed.pairs.rows()[:, 1:].tolist() == [[0, 2, 1]] * 6


def test_a_signal_during_the_last_evaluation_is_heard(tmp_path: Path) -> None:
    def evaluate(model: nn.Module) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0.5

    config, store = toy_config(epochs=1, eval_every=1, eval_episodes=1), toy_store(tmp_path / "data")
    with pytest.raises(Interrupted):
        train(config, store, tmp_path / "run", evaluate=evaluate, device="cpu")
    assert train(config, store, tmp_path / "run", evaluate=evaluate, device="cpu").already_finished


def test_nothing_to_draw_is_told(tmp_path: Path) -> None:
    config = toy_config(heatmap_epochs=(1,), test_fraction=0.0)
    with pytest.raises(UserError, match="--heatmap-epochs: there is no test demonstration to draw"):
        train(config, toy_store(tmp_path / "data"), tmp_path / "run", device="cpu")


@pytest.mark.parametrize(("name", "device"), [(None, "cuda:1"), ("cuda", "cuda:1"), ("cuda:0", "cuda:0")])
def test_each_process_of_torchrun_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch, name: str, device: str) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert str(choose_device(name)) == device
