"""Training states: everything a run needs to go on, complete on the disk or not there.

    STATES/latest           the name of the newest state
    STATES/00012-00034/     a state: 12 epochs and 34 batches done
        model.safetensors  training.safetensors  state.json (with the checksums of the other two)

A state is complete before `latest` names it, so a kill at any moment leaves the old one or the new one.
Torch is imported when weights are read or written.
"""

import hashlib
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import (
    WRONG_CONTENT,
    read_bytes,
    read_json,
    reading,
    shortened,
    sync_folder,
    write_bytes,
    write_json,
    write_text,
)
from attentiontuner.core.seals import check_tensors, not_its_checksum, read_tensors, seal_tensors, sealed, unsealed

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from attentiontuner.models.sizes import NetworkConfig

LATEST, STATE_FILE, MODEL_FILE, TRAINING_FILE = "latest", "state.json", "model.safetensors", "training.safetensors"


NAME = re.compile(r"\d{5,}-\d{5,}")


class Progress(NamedTuple):
    """How far a run is: epochs, batches of the next one, and seconds of training in all."""

    epoch: int
    batch: int
    seconds: float


@dataclass(frozen=True)
class State:
    """`epoch` epochs and `batch` batches of the next one are done.

    `tensors` holds the optimiser, generators and running sums by name; `numbers` what is not a tensor.
    """

    epoch: int
    batch: int
    model: "Mapping[str, Tensor]"
    tensors: "Mapping[str, Tensor]"
    numbers: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.epoch:05d}-{self.batch:05d}"


def save_state(states: Path, state: State, keep: int) -> None:
    """Write `state`, make it the newest one, and delete all but the `keep` newest."""
    folder = states / state.name
    fresh = folder.with_name(f".{state.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    contents = {MODEL_FILE: weight_bytes(state.model), TRAINING_FILE: weight_bytes(state.tensors)}
    for name, content in contents.items():
        write_bytes(fresh / name, content)
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    value = {"epoch": state.epoch, "batch": state.batch, "numbers": dict(state.numbers), "sha256": checksums}
    write_json(fresh / STATE_FILE, sealed(value))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    sync_folder(states)
    write_text(states / LATEST, state.name + "\n")
    _forget(states, state.name, keep)


def _forget(states: Path, name: str, keep: int) -> None:
    """Delete all states but the one called `name` and the `keep - 1` before it."""
    for old in [path for path in _complete(states) if path.name < name][: -(keep - 1) or None]:
        shutil.rmtree(old, ignore_errors=True)
    for later in [path for path in _complete(states) if path.name > name]:
        shutil.rmtree(later, ignore_errors=True)


def newest(states: Path) -> Path | None:
    """The folder of the newest state; None where there is none yet."""
    pointer = states / LATEST
    if not pointer.exists():
        return None
    name = read_bytes(pointer).decode(errors="replace").strip()
    if not NAME.fullmatch(name):
        raise UserError(f"{pointer} is damaged: {shortened(name)!r} is no state; {_way_out(states, '')}")
    return states / name


def load_state(states: Path) -> State | None:
    """The newest state, or None where there is none yet. A damaged one is a `UserError` with the way out."""
    folder = newest(states)
    if folder is None:
        return None
    try:
        value = _read(folder)
        model, training = (
            parse_weights(read_tensors(folder / file), folder / file, value["sha256"][file])
            for file in (MODEL_FILE, TRAINING_FILE)
        )
        return State(int(value["epoch"]), int(value["batch"]), model, training, value["numbers"])
    except WRONG_CONTENT as error:
        problem = str(error) if isinstance(error, UserError) else f"its newest state is damaged ({error!r})"
        raise UserError(f"{states.parent} cannot go on: {problem}; {_way_out(states, folder.name)}") from error


def read_progress(states: Path) -> Progress | None:
    """How far the newest state is; None where there is none yet."""
    folder = newest(states)
    if folder is None:
        return None
    value = _read(folder)
    with reading(folder / STATE_FILE):
        return Progress(int(value["epoch"]), int(value["batch"]), float(value["numbers"]["seconds"]))


def checksums(states: Path) -> set[str]:
    """Those of the weights of all states that are there."""
    known = {}
    for folder in _complete(states):
        with reading(folder / STATE_FILE):
            known[folder] = str(_read(folder)["sha256"][MODEL_FILE])
    return set(known.values())


def _read(folder: Path) -> dict[str, Any]:
    """What `state.json` of a state says."""
    value = read_json(folder / STATE_FILE)
    if not isinstance(value, dict):
        raise UserError(f"{folder / STATE_FILE} is damaged: it holds no state")
    return unsealed(value, folder / STATE_FILE)


def remove_leftovers(states: Path, keep: int) -> None:
    """Delete what a killed process left unfinished, and the states but the `keep` newest."""
    for path in states.glob(".*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if (folder := newest(states)) is not None and (folder / STATE_FILE).exists():
        _forget(states, folder.name, keep)


def _way_out(states: Path, name: str) -> str:
    older = [path.name for path in _complete(states) if path.name != name]
    if older:
        return f"to go on from the state before, write {older[-1]} into {states / LATEST}"
    return "delete the folder to start again"


def _complete(states: Path) -> list[Path]:
    return sorted(path for path in states.glob("[0-9]*-[0-9]*") if path.is_dir())


# --- tensors as bytes ------------------------------------------------------------------------------------------------


def weight_bytes(tensors: "Mapping[str, Tensor]") -> bytes:
    """Named tensors as the content of a safetensors file, with its seal."""
    from safetensors.torch import save

    return seal_tensors(save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))


def parse_weights(content: bytes, path: Path, sha256: str | None = None) -> "dict[str, Tensor]":
    """The inverse of `weight_bytes`; `path` is where they are from, `sha256` the checksum they must have."""
    from safetensors.torch import load

    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{path} is damaged: {not_its_checksum(path)}")
    check_tensors(content, path)
    try:
        return with_empty_rows(load(content))
    except (SafetensorError, ValueError, IndexError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


ROWS_OF = "rows of "
"""Before a tensor's name: where the rows it has stood, int64 `[rows + 1]`, last of all how many there were."""

LARGEST_TABLES = 2**30
"""Bytes that the tensors of a file may be filled up to, together."""

BESIDE_WEIGHTS = 2**24
"""Numbers that a network may hold beside its weights."""


def without_empty_rows(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Named tensors; those whose rows are mostly zeros have only the others. Whoever parses weights fills them up."""
    shorter = {}
    for name, tensor in tensors.items():
        shorter[name] = tensor
        if tensor.dim() and tensor.numel():
            rows = tensor.flatten(1).any(1).nonzero()[:, 0] if tensor.dim() > 1 else tensor.nonzero()[:, 0]
            places = rows.new_tensor([*rows.tolist(), len(tensor)])
            if tensor[rows].nbytes + places.nbytes < tensor.nbytes:
                shorter |= {name: tensor[rows], ROWS_OF + name: places}
    return shorter


def with_empty_rows(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """The inverse of `without_empty_rows`."""
    whole = {name: tensor for name, tensor in tensors.items() if not name.startswith(ROWS_OF)}
    room = LARGEST_TABLES
    for name, tensor in whole.items():
        if (places := tensors.get(ROWS_OF + name)) is not None:
            listed = str(places.dtype) == "torch.int64" and places.dim() == 1 and tensor.dim() > 0
            *rows, count = places.tolist() if listed else [-1]
            row_bytes = max(1, tensor.element_size() * math.prod(tensor.shape[1:]))
            fits = 0 <= count * row_bytes <= room
            room -= count * row_bytes
            if not fits or len(rows) != len(tensor) or not all(0 <= row < count for row in rows):
                raise ValueError(f"it says wrongly where the rows of {name} stand")
            whole[name] = tensor.new_zeros(count, *tensor.shape[1:])
            whole[name][rows] = tensor
    return whole


def much_larger(network: "NetworkConfig", weights: "Mapping[str, Tensor]") -> bool:
    """Whether a network needs far more memory than weights fill, as one that a spoiled configuration asks for: it is
    laid out without any numbers first."""
    import torch

    try:
        with torch.device("meta"):
            plan = network.build()
    except Exception:  # an encoder of one's own that looks at its numbers; what else is wrong shows in earnest
        return False
    needed = sum(tensor.numel() for tensor in (*plan.parameters(), *plan.buffers()))
    return needed > BESIDE_WEIGHTS + sum(tensor.numel() for tensor in weights.values())


def optimiser_tensors(optimiser: "Optimizer") -> "dict[str, Tensor]":
    """The optimiser's state as named tensors: `optimiser.<parameter number>.<name>`."""
    state = optimiser.state_dict()["state"]
    return {f"optimiser.{number}.{name}": tensor for number, entry in state.items() for name, tensor in entry.items()}


def restore_optimiser(optimiser: "Optimizer", tensors: "Mapping[str, Tensor]") -> None:
    """The inverse of `optimiser_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimiser":
            number, _, name = rest.partition(".")
            state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
