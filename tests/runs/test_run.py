"""Run folders: states appear whole or not at all, and what is damaged is named."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import write_bytes
from attentiontuner.runs import run as run_module
from attentiontuner.runs import states
from attentiontuner.runs.run import Run
from attentiontuner.runs.states import State
from tests.bad_input.limits import BOMB_BYTES, Grown
from tests.training.toys import toy_config


def state(epoch: int, batch: int = 0, fill: float = 0.0) -> State:
    tensors = {"sums": torch.full((3,), fill, dtype=torch.float64), "generator.cpu.0": torch.get_rng_state()}
    return State(epoch, batch, {"weight": torch.full((2, 2), fill)}, tensors, {"seconds": 1.5, "best": -1.0})


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    assert Run(tmp_path).load_state() is None
    Run(tmp_path).save_state(state(3, 17, 0.25), keep=2)
    found = Run(tmp_path).load_state()
    assert found is not None
    assert (found.epoch, found.batch, found.numbers) == (3, 17, {"seconds": 1.5, "best": -1.0})
    assert torch.equal(found.model["weight"], torch.full((2, 2), 0.25))
    assert found.tensors["sums"].dtype == torch.float64
    assert torch.equal(found.tensors["generator.cpu.0"], torch.get_rng_state())


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_are_kept(tmp_path: Path, keep: int) -> None:
    for epoch in range(5):
        Run(tmp_path).save_state(state(epoch), keep)
    folders = sorted(path.name for path in (tmp_path / "state").iterdir() if path.is_dir())
    assert folders == [f"{epoch:05d}-00000" for epoch in range(5 - keep, 5)]


def test_the_weights_beside_the_states_are_the_newest(tmp_path: Path) -> None:
    for epoch in (1, 2):
        Run(tmp_path).save_state(state(epoch, fill=epoch), 1)
    newest = tmp_path / "state" / "00002-00000" / "model.safetensors"
    assert (tmp_path / "model.safetensors").read_bytes() == newest.read_bytes()


@pytest.mark.parametrize("step", range(1, 7))
def test_dying_at_any_write_leaves_the_old_state_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    Run(tmp_path).save_state(state(1, fill=1.0), 1)
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

    for name in ("write_bytes", "write_json", "write_text", "sync_folder"):
        monkeypatch.setattr(states, name, dying(getattr(states, name)))
    monkeypatch.setattr(run_module, "link_file", dying(run_module.link_file))
    with pytest.raises(Died):
        Run(tmp_path).save_state(state(2, fill=2.0), 1)
    found = Run(tmp_path).load_state()
    assert found is not None
    assert found.model["weight"][0, 0] == found.epoch
    monkeypatch.undo()
    Run(tmp_path).save_state(state(2, fill=2.0), 1)
    again = Run(tmp_path).load_state()
    assert again is not None
    assert again.epoch == 2


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_state_is_named_with_the_way_out(tmp_path: Path, file: str, damage: str) -> None:
    Run(tmp_path).save_state(state(1), 2)
    Run(tmp_path).save_state(state(2), 2)
    path = tmp_path / "state" / "00002-00000" / file
    content = bytearray(path.read_bytes())
    os.unlink(path)
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-4] ^= 0xFF
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot go on: .*write 00001-00000 into"):
        Run(tmp_path).load_state()
    (tmp_path / "state" / "latest").write_text("00001-00000\n")
    found = Run(tmp_path).load_state()
    assert found is not None
    assert found.epoch == 1


def test_another_configuration_is_refused_with_the_first_difference(tmp_path: Path) -> None:
    data = {"demonstrations": 3, "labels": "ab"}
    Run(tmp_path).begin(toy_config(), data, {"torch": "1"})
    Run(tmp_path).save_state(state(1), 1)
    Run(tmp_path).begin(toy_config(keep=7), data, {"torch": "2"})
    with pytest.raises(UserError, match="was made with learning_rate = 0.001, now it is 0.1"):
        Run(tmp_path).begin(toy_config(learning_rate=0.1), data, {})
    with pytest.raises(UserError, match="data.labels = 'ab', now it is 'cd'"):
        Run(tmp_path).begin(toy_config(), {**data, "labels": "cd"}, {})


def test_a_run_that_was_stopped_before_it_had_learned_anything_may_become_another(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(toy_config(), {"labels": "ab"}, {})
    run.need.write_bytes(b"of these labels")
    run.begin(toy_config(), {"labels": "ab"}, {})
    assert run.need.exists()
    run.begin(toy_config(learning_rate=0.1), {"labels": "ab"}, {})
    assert run.config().learning_rate == 0.1
    assert not run.need.exists()


def test_damaged_configurations_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        Run(tmp_path).begin(toy_config(), {}, {})
    (tmp_path / "config.json").write_text(json.dumps({"schema": 9, "train": {}, "data": {}}))
    with pytest.raises(UserError, match="schema 9"):
        Run(tmp_path).begin(toy_config(), {}, {})
    (tmp_path / "config.json").unlink()
    (tmp_path / "state").mkdir()
    with pytest.raises(UserError, match="states but no config"):
        Run(tmp_path).begin(toy_config(), {}, {})


def test_load_model_gives_the_newest_or_the_best_weights(tmp_path: Path) -> None:
    config = toy_config()
    Run(tmp_path).begin(config, {}, {})
    model = config.model.build()
    weights = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    Run(tmp_path).save_state(State(1, 0, weights, {}, {}), 1)
    trained = Run(tmp_path).load_model()
    found = trained.model
    assert trained.config.to_json() == config.to_json()
    assert trained.sha256 == hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    assert not found.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in found.state_dict().items())
    with pytest.raises(UserError, match=r"no best\.safetensors"):
        Run(tmp_path).load_model(best=True)
    Run(tmp_path).save_best(model)
    best = Run(tmp_path).load_model(best=True).model
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in best.state_dict().items())
    with pytest.raises(UserError, match="does not exist"):
        Run(tmp_path / "nowhere").load_model()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty is not a run: it has no config\.json"):
        Run(tmp_path / "empty").load_model()
    Run(tmp_path).save_state(State(2, 0, {"other": torch.zeros(1)}, {}, {}), 1)
    with pytest.raises(UserError, match="do not fit"):
        Run(tmp_path).load_model()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def test_weights_with_a_flipped_bit_never_play(tmp_path: Path) -> None:
    """Newest and best, beside their states and in a copy that has none: refused, or the weights that were written."""
    config = toy_config()
    run = Run(tmp_path / "run")
    run.begin(config, {}, {})
    model = config.model.build()
    run.save_state(State(1, 0, model.state_dict(), {}, {"seconds": 1.0}), 1)
    run.save_best(model)
    write_bytes(run.path / "metrics.jsonl", b"")
    run.copy_to(tmp_path / "copy")
    remedies = {"run": "the same `train` command makes it again", "copy": "restore it from a copy, or train again"}
    for folder, remedy in remedies.items():
        for best, words in ((False, remedy), (True, "restore it from a copy, or take the newest weights")):
            path = Run(tmp_path / folder).weights(best)
            content = path.read_bytes()
            header = 8 + int.from_bytes(content[:8], "little")
            for place in (0, 9, 30, 60, header // 2, header - 9, header, len(content) // 2, len(content) - 1):
                write_bytes(path, flipped(content, place))
                said = ""
                try:
                    found = Run(tmp_path / folder).load_model(best).model.state_dict()
                except UserError as error:
                    said = str(error)
                if said:
                    assert path.name in said
                    assert words in said or "do not fit" in said
                else:
                    assert place < header
                    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in found.items())
            write_bytes(path, content)
            assert Run(tmp_path / folder).load_model(best)


def test_weights_of_before_are_compared_with_those_of_the_states(tmp_path: Path) -> None:
    config = toy_config()
    run = Run(tmp_path)
    run.begin(config, {}, {})
    model = config.model.build()
    content = save(model.state_dict())
    path = tmp_path / "model.safetensors"
    write_bytes(path, content)
    run.load_model()  # alone, as in a copy: nobody knows better
    folder = tmp_path / "state" / "00001-00000"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"sha256": {path.name: hashlib.sha256(content).hexdigest()}}))
    run.load_model()
    write_bytes(path, flipped(content, len(content) - 1))
    with pytest.raises(UserError, match="does not have its checksum"):
        run.load_model()


@pytest.mark.parametrize(
    ("file", "old", "new"), [("config.json", '"heads": 2', '"heads": 1'), ("state.json", "1.5", "2.5")]
)
def test_what_a_run_says_of_itself_is_checked(tmp_path: Path, file: str, old: str, new: str) -> None:
    run = Run(tmp_path)
    run.begin(toy_config(), {}, {})
    run.save_state(state(1), 1)
    path = tmp_path / file if file == "config.json" else tmp_path / "state" / "00001-00000" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=f"{file} is damaged: its content does not have its checksum"):
        run.load_model() if file == "config.json" else run.load_state()


@pytest.mark.parametrize(
    ("method", "sizes"),
    [("attentiontuner", {"d_model": 2**20}), ("recall", {"feedforward": 2**24}), ("gru", {"d_model": 2**20})],
)
def test_a_network_much_larger_than_its_weights_is_never_made(
    tmp_path: Path, method: str, sizes: dict[str, int]
) -> None:
    small, large = toy_config(method=method), toy_config(method=method, model=sizes)
    Run(tmp_path).begin(large, {}, {})
    Run(tmp_path).save_state(State(1, 0, small.network.build().state_dict(), {}, {}), 1)
    grown = Grown()
    with pytest.raises(UserError, match="its weights do not fit"):
        Run(tmp_path).load_model()
    assert grown.bytes() < BOMB_BYTES


def test_a_run_that_is_older_than_a_field_has_its_default(tmp_path: Path) -> None:
    Run(tmp_path).begin(toy_config(), {}, {})
    path = tmp_path / "config.json"
    value = json.loads(path.read_text())
    del value["train"]["noise_p"], value["train"]["model"]["dropout"], value["seal"]
    path.write_text(json.dumps(value))
    Run(tmp_path).save_state(state(1), 1)
    Run(tmp_path).begin(toy_config(), {}, {})
    with pytest.raises(UserError, match=r"made with noise_p = 0.0, now it is 2.0"):
        Run(tmp_path).begin(toy_config(noise_p=2.0), {}, {})


def test_what_a_killed_process_left_is_removed_when_the_run_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(toy_config(), {}, {})
    run.save_state(state(1, fill=1.0), 2)
    (tmp_path / ".lock").touch()
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "state" / ".00002-00000").mkdir()
    for left in ("state/.00002-00000/model.safetensors", "state/.latest.x1", ".best.safetensors.y2", ".config.json.z3"):
        (tmp_path / left).write_bytes(b"half")
    run.begin(toy_config(), {}, {})
    assert sorted(tmp_path.rglob("*")) == before


def test_killed_between_the_state_and_its_weights_the_weights_follow(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin(toy_config(), {}, {})
    run.save_state(state(1, fill=1.0), 2)
    states.save_state(tmp_path / "state", state(2, fill=2.0), 2)
    run.begin(toy_config(), {}, {})
    newest = tmp_path / "state" / "00002-00000" / "model.safetensors"
    assert (tmp_path / "model.safetensors").read_bytes() == newest.read_bytes()
    assert not list(tmp_path.glob(".model*"))


def test_sessions_with_other_software_are_kept_beside_the_first(tmp_path: Path) -> None:
    run, path = Run(tmp_path), tmp_path / "config.json"
    run.begin(toy_config(), {}, {"torch": "1"})
    first = path.read_bytes()
    run.begin(toy_config(), {}, {"torch": "1"})
    assert path.read_bytes() == first
    run.save_state(state(1, 3), 2)
    for _ in range(2):
        run.begin(toy_config(epochs=9), {}, {"torch": "2"})
    value = json.loads(path.read_text())
    assert value["versions"] == {"torch": "1"}
    assert value["sessions"] == [{"epoch": 1, "batch": 3, "versions": {"torch": "2"}}]
    run.save_state(state(9), 2)
    run.begin(toy_config(epochs=9), {}, {"torch": "3"})  # it is finished: nothing is computed
    assert json.loads(path.read_text()) == value


def test_how_far_a_run_is(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.progress() is None
    run.save_state(state(3, 17), 2)
    assert run.progress() == (3, 17, 1.5)
    (tmp_path / "state" / "00003-00017" / "state.json").write_text("{}")
    with pytest.raises(UserError, match=r"state\.json is damaged"):
        run.progress()


def finished_run(folder: Path) -> Run:
    run, config = Run(folder), toy_config()
    run.begin(config, {}, {})
    run.log(0).add({"epoch": 1})
    run.save_state(State(1, 0, config.model.build().state_dict(), {}, {"seconds": 1.0}), 1)
    return run


def test_a_copy_is_a_run_without_what_training_needs(tmp_path: Path) -> None:
    run, copy = finished_run(tmp_path / "run"), tmp_path / "kept" / "copy"
    run.copy_to(copy)
    assert sorted(path.name for path in copy.iterdir()) == ["config.json", "metrics.jsonl", "model.safetensors"]
    assert Run.open(copy).load_model().sha256 == run.load_model().sha256
    run.save_best(run.load_model().model)
    run.copy_to(copy)
    assert Run(copy).load_model(best=True).sha256 == run.load_model().sha256


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_copy_that_is_cut_off_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    run, copy = finished_run(tmp_path / "run"), tmp_path / "copy"
    writes = iter(range(1, 9))

    def dying(path: Path, content: bytes) -> None:
        if next(writes) == step:
            write_bytes(path, content[:7])
            raise KeyboardInterrupt
        write_bytes(path, content)

    monkeypatch.setattr(run_module, "write_bytes", dying)
    with pytest.raises(KeyboardInterrupt):
        run.copy_to(copy)
    assert not copy.exists()
    monkeypatch.undo()
    run.copy_to(copy)
    assert Run(copy).metrics() == [{"epoch": 1}]
    assert {path.name for path in tmp_path.iterdir()} == {"run", "copy"}


def test_what_is_no_run_is_refused_without_torch(tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text("[]")
    code = """
import sys
from pathlib import Path
from attentiontuner.cli import main
for name in ("nowhere", ".", "damaged"):
    assert main(["evaluate", str(Path(sys.argv[1]) / name)]) == 2
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [
        text in line
        for text, line in zip(
            ("nowhere does not exist", "is not a run", "config.json is damaged"), done.stderr.splitlines(), strict=True
        )
    ] == [True] * 3


TABLES = {
    "table": torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 3.0]]).repeat_interleave(4, 1),
    "mostly": torch.eye(40)[7].half(), "full": torch.ones(3, 2), "none": torch.zeros(2, 50), "one": torch.tensor(2.0),
    "empty": torch.zeros(0, 4),
}  # fmt: skip


def test_rows_of_zeros_are_left_out_and_filled_in_again(tmp_path: Path) -> None:
    shorter = states.without_empty_rows(TABLES)
    assert {name: len(tensor) for name, tensor in shorter.items() if tensor.dim()} == {
        "table": 2, "rows of table": 3, "mostly": 1, "rows of mostly": 2, "full": 3, "none": 0, "rows of none": 1,
        "empty": 0,
    }  # fmt: skip
    found = states.parse_weights(states.weight_bytes(shorter), tmp_path)
    assert found.keys() == TABLES.keys()
    for name, tensor in TABLES.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("places", [[1, 4, 4], [1, 4], [-1, 2, 4], [1, 2, 2**40]])
def test_rows_that_stand_nowhere_are_refused(tmp_path: Path, places: list[int]) -> None:
    content = save({"table": torch.ones(2, 8), "rows of table": torch.tensor(places)})
    with pytest.raises(UserError, match="it says wrongly where the rows of table stand"):
        states.parse_weights(content, tmp_path / "model.safetensors")
