"""Run folders: states appear whole or not at all, and what is damaged is named."""

import json
import os
from pathlib import Path

import pytest
import torch

from attentiontuner.errors import UserError
from attentiontuner.models import build_model
from attentiontuner.training import checkpoint
from attentiontuner.training.checkpoint import State, load_model, load_state, open_run, save_best, save_state
from tests.training.toys import toy_config


def state(epoch: int, batch: int = 0, fill: float = 0.0) -> State:
    tensors = {"sums": torch.full((3,), fill, dtype=torch.float64), "generator.cpu.0": torch.get_rng_state()}
    return State(epoch, batch, {"weight": torch.full((2, 2), fill)}, tensors, {"seconds": 1.5, "best": -1.0})


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    save_state(tmp_path, state(3, 17, 0.25), keep=2)
    found = load_state(tmp_path)
    assert found is not None
    assert (found.epoch, found.batch, found.numbers) == (3, 17, {"seconds": 1.5, "best": -1.0})
    assert torch.equal(found.model["weight"], torch.full((2, 2), 0.25))
    assert found.tensors["sums"].dtype == torch.float64
    assert torch.equal(found.tensors["generator.cpu.0"], torch.get_rng_state())


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_are_kept(tmp_path: Path, keep: int) -> None:
    for epoch in range(5):
        save_state(tmp_path, state(epoch), keep)
    folders = sorted(path.name for path in (tmp_path / "state").iterdir() if path.is_dir())
    assert folders == [f"{epoch:05d}-00000" for epoch in range(5 - keep, 5)]


def test_the_weights_beside_the_states_are_the_newest(tmp_path: Path) -> None:
    for epoch in (1, 2):
        save_state(tmp_path, state(epoch, fill=epoch), 1)
    newest = tmp_path / "state" / "00002-00000" / "model.safetensors"
    assert (tmp_path / "model.safetensors").read_bytes() == newest.read_bytes()


@pytest.mark.parametrize("step", range(1, 7))
def test_dying_at_any_write_leaves_the_old_state_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    save_state(tmp_path, state(1, fill=1.0), 1)
    calls = 0

    class Died(Exception):
        pass

    def dying(function):
        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Died
            return function(*arguments)

        return call

    for name in ("write_bytes", "write_json", "write_text", "_sync_folder", "_link"):
        monkeypatch.setattr(checkpoint, name, dying(getattr(checkpoint, name)))
    with pytest.raises(Died):
        save_state(tmp_path, state(2, fill=2.0), 1)
    found = load_state(tmp_path)
    assert found is not None
    assert found.model["weight"][0, 0] == found.epoch
    monkeypatch.undo()
    save_state(tmp_path, state(2, fill=2.0), 1)
    again = load_state(tmp_path)
    assert again is not None
    assert again.epoch == 2


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_state_is_named_with_the_way_out(tmp_path: Path, file: str, damage: str) -> None:
    save_state(tmp_path, state(1), 2)
    save_state(tmp_path, state(2), 2)
    path = tmp_path / "state" / "00002-00000" / file
    content = bytearray(path.read_bytes())
    os.unlink(path)
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-4] ^= 0xFF
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot go on: .*write 00001-00000 into"):
        load_state(tmp_path)
    (tmp_path / "state" / "latest").write_text("00001-00000\n")
    found = load_state(tmp_path)
    assert found is not None
    assert found.epoch == 1


def test_another_configuration_is_refused_with_the_first_difference(tmp_path: Path) -> None:
    data = {"demonstrations": 3, "labels": "ab"}
    open_run(tmp_path, toy_config(), data, {"torch": "1"})
    open_run(tmp_path, toy_config(keep=7), data, {"torch": "2"})
    with pytest.raises(UserError, match="was made with learning_rate = 0.001, now it is 0.1"):
        open_run(tmp_path, toy_config(learning_rate=0.1), data, {})
    with pytest.raises(UserError, match="data.labels = 'ab', now it is 'cd'"):
        open_run(tmp_path, toy_config(), {**data, "labels": "cd"}, {})


def test_damaged_configurations_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        open_run(tmp_path, toy_config(), {}, {})
    (tmp_path / "config.json").write_text(json.dumps({"schema": 9, "train": {}, "data": {}}))
    with pytest.raises(UserError, match="schema 9"):
        open_run(tmp_path, toy_config(), {}, {})
    (tmp_path / "config.json").unlink()
    (tmp_path / "state").mkdir()
    with pytest.raises(UserError, match="states but no config"):
        open_run(tmp_path, toy_config(), {}, {})


def test_load_model_gives_the_newest_or_the_best_weights(tmp_path: Path) -> None:
    config = toy_config()
    open_run(tmp_path, config, {}, {})
    model = build_model(config.model)
    weights = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    save_state(tmp_path, State(1, 0, weights, {}, {}), 1)
    found, found_config = load_model(tmp_path)
    assert found_config == config
    assert not found.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in found.state_dict().items())
    with pytest.raises(UserError, match=r"no best\.safetensors"):
        load_model(tmp_path, best=True)
    save_best(tmp_path, model)
    best, _ = load_model(tmp_path, best=True)
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in best.state_dict().items())
    with pytest.raises(UserError, match="does not exist"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty is not a run: it has no config\.json"):
        load_model(tmp_path / "empty")
    save_state(tmp_path, State(2, 0, {"other": torch.zeros(1)}, {}, {}), 1)
    with pytest.raises(UserError, match="do not fit"):
        load_model(tmp_path)


def test_a_run_that_is_older_than_a_field_has_its_default(tmp_path: Path) -> None:
    open_run(tmp_path, toy_config(), {}, {})
    path = tmp_path / "config.json"
    value = json.loads(path.read_text())
    del value["train"]["noise_p"], value["train"]["model"]["dropout"]
    path.write_text(json.dumps(value))
    open_run(tmp_path, toy_config(), {}, {})
    with pytest.raises(UserError, match=r"made with noise_p = 0.0, now it is 2.0"):
        open_run(tmp_path, toy_config(noise_p=2.0), {}, {})
