"""Run folders: the configuration, the weights, and full training states to go on from.

    RUN/config.json            what the run is
    RUN/model.safetensors      the weights of the newest state;  RUN/best.safetensors the best evaluated ones
    RUN/state/latest           the name of the newest state
    RUN/state/00012-00034/     a state: 12 epochs and 34 batches done
        model.safetensors  training.safetensors  state.json (with the checksums of the other two)

A state is complete before `latest` names it, so a kill at any moment leaves the old one or the new one.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from attentiontuner.errors import UserError
from attentiontuner.files import read_json, write_bytes, write_json, write_text
from attentiontuner.models import build_model
from attentiontuner.training.config import TrainConfig, first_difference

SCHEMA = 1
CONFIG_FILE, MODEL_FILE, BEST_FILE, STATE_FOLDER = "config.json", "model.safetensors", "best.safetensors", "state"


@dataclass(frozen=True)
class State:
    """Everything a run needs to go on: `epoch` epochs and `batch` batches of the next one are done.

    `tensors` holds the optimiser, generators and running sums by name; `numbers` what is not a tensor.
    """

    epoch: int
    batch: int
    model: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.epoch:05d}-{self.batch:05d}"


def save_state(run: Path, state: State, keep: int) -> None:
    """Write `state`, make it the newest one, and delete all but the `keep` newest."""
    folder = run / STATE_FOLDER / state.name
    fresh = folder.with_name(f".{state.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    contents = {MODEL_FILE: _bytes(state.model), "training.safetensors": _bytes(state.tensors)}
    for name, content in contents.items():
        write_bytes(fresh / name, content)
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    value = {"epoch": state.epoch, "batch": state.batch, "numbers": dict(state.numbers), "sha256": checksums}
    write_json(fresh / "state.json", value)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    _sync_folder(folder.parent)
    write_text(run / STATE_FOLDER / "latest", state.name + "\n")
    _link(folder / MODEL_FILE, run / MODEL_FILE)
    for old in [path for path in _states(run) if path.name < state.name][: -(keep - 1) or None]:
        shutil.rmtree(old, ignore_errors=True)
    for later in [path for path in _states(run) if path.name > state.name]:
        shutil.rmtree(later, ignore_errors=True)


def load_state(run: Path) -> State | None:
    """The newest state of a run, or None where there is none yet. A damaged one is a `UserError` with the way out."""
    pointer = run / STATE_FOLDER / "latest"
    if not pointer.exists():
        return None
    name = pointer.read_text(encoding="utf-8", errors="replace").strip()
    folder = run / STATE_FOLDER / name
    try:
        value = read_json(folder / "state.json")
        tensors = {file: _read(folder / file, value["sha256"][file]) for file in (MODEL_FILE, "training.safetensors")}
        return State(
            int(value["epoch"]),
            int(value["batch"]),
            tensors[MODEL_FILE],
            tensors["training.safetensors"],
            value["numbers"],
        )
    except (UserError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{run} cannot go on: {_problem(error)}; {_way_out(run, name)}") from error


def _problem(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"its newest state is damaged ({error!r})"


def _way_out(run: Path, name: str) -> str:
    older = [path.name for path in _states(run) if path.name != name]
    if older:
        return f"to go on from the state before, write {older[-1]} into {run / STATE_FOLDER / 'latest'}"
    return "delete the folder to start again"


def _states(run: Path) -> list[Path]:
    return sorted(path for path in (run / STATE_FOLDER).glob("[0-9]*-[0-9]*") if path.is_dir())


def save_best(run: Path, model: nn.Module) -> None:
    """Keep the present weights as the best ones."""
    write_bytes(run / BEST_FILE, _bytes(model.state_dict()))


def open_run(run: Path, config: TrainConfig, data: Mapping[str, Any], versions: Mapping[str, Any]) -> None:
    """Write `config.json`, or check that the one there says the same; the first difference is a `UserError`.

    A run may become longer, unless its learning rate was planned for so many epochs.
    """
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "train": config.to_json(),
        "data": dict(data),
        "versions": dict(versions),
    }
    path = run / CONFIG_FILE
    if not path.exists():
        if (run / STATE_FOLDER).exists():
            raise UserError(f"{run} is damaged: it has training states but no {CONFIG_FILE}; delete it to start again")
        write_json(path, value)
        return
    before = _read_config(run)
    before["train"] = TrainConfig.from_json(before["train"]).to_json()  # older than a field: it had the default
    longer = config.schedule == "constant" and config.epochs > before["train"]["epochs"]
    grown = {**before, "train": {**before["train"], "epochs": config.epochs}} if longer else before
    for part in ("train", "data"):
        difference = first_difference(grown[part], value[part])
        if difference is not None:
            name, old, new = difference
            where = name if part == "train" else f"data.{name}"
            raise UserError(f"{run} was made with {where} = {old!r}, now it is {new!r}: use the same, or another --out")
    if longer:
        write_json(path, grown)


def read_config(run: Path) -> TrainConfig:
    """The configuration of a run."""
    if not run.is_dir():
        raise UserError(f"{run} does not exist: give the folder of a run, made with `attentiontuner train`")
    if not (run / CONFIG_FILE).exists():
        raise UserError(f"{run} is not a run: it has no {CONFIG_FILE}; give a folder made with `attentiontuner train`")
    return TrainConfig.from_json(_read_config(run)["train"])


def _read_config(run: Path) -> dict[str, Any]:
    value = read_json(run / CONFIG_FILE)
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("train"), dict)
        or not isinstance(value.get("data"), dict)
    ):
        raise UserError(f"{run / CONFIG_FILE} is damaged: it holds no configuration")
    if value.get("schema") != SCHEMA:
        raise UserError(f"{run / CONFIG_FILE} has schema {value.get('schema')!r}, this attentiontuner reads {SCHEMA}")
    return value


def load_model(run: Path, best: bool = False) -> tuple[nn.Module, TrainConfig]:
    """The trained model of a run (on the CPU, in evaluation mode) and its configuration."""
    config = read_config(run)
    path = run / (BEST_FILE if best else MODEL_FILE)
    if best and not path.exists():
        raise UserError(f"{run} has no {BEST_FILE}: it is kept where training evaluates (--eval-every)")
    model = build_model(config.model)
    try:
        model.load_state_dict(_read(path))
    except RuntimeError as error:
        raise UserError(
            f"{path}: its weights do not fit {CONFIG_FILE}; it is damaged, or another version of attentiontuner made it"
        ) from error
    return model.eval(), config


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    content: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content


def _read(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{path} is damaged: its content does not have its checksum")
    try:
        tensors: dict[str, Tensor] = load(content)
    except (SafetensorError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    return tensors


def _link(source: Path, target: Path) -> None:
    """Give `source` the second name `target`, atomically; a copy where the disk has no links."""
    fresh = target.with_name(f".{target.name}")
    fresh.unlink(missing_ok=True)
    try:
        os.link(source, fresh)
    except OSError:
        write_bytes(target, source.read_bytes())
        return
    os.replace(fresh, target)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: `optimiser.<parameter number>.<name>`."""
    state = optimiser.state_dict()["state"]
    return {f"optimiser.{number}.{name}": tensor for number, entry in state.items() for name, tensor in entry.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimiser_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimiser":
            number, _, name = rest.partition(".")
            state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
