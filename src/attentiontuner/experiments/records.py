"""Records: what a finished cell leaves behind, one JSON file each. Written once, atomically, by the run itself.

    RECORDS/<recipe>/<task>--<method>--<condition>--seed<k>.json       (at other scales: <recipe>-<scale>/)

Folders of several machines are merged by copying files. A damaged record is set aside under another name, with a line
that says so, and its cell runs again; a record of another schema or of another experiment is never touched.
"""

import base64
import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import WRONG_CONTENT, read_bytes, reading, shortened, write_parts
from attentiontuner.core.seals import sealed, unsealed
from attentiontuner.core.wording import counted
from attentiontuner.evaluation.evaluate import summarise
from attentiontuner.evaluation.rollout import EpisodeResult
from attentiontuner.experiments.planning.cells import Cell, cell_config, longer_length
from attentiontuner.runs.config import CHANGEABLE, TrainConfig, first_difference
from attentiontuner.spaces.observation import ObservationSpec

SCHEMA = 1
KIND = "attentiontuner record"
MAP_LIMIT = 128
"""The largest side of a stored attention map, in pixels."""

NO_CURVES = ("epoch", "seconds", "demonstrations_per_second")
"""What a run's lines say that is no learning curve."""

MOST_POINTS = 600
"""The most epochs of which a record has the learning curves."""

CURVE_DIGITS = 5

RESULT_NEUTRAL = frozenset({"test_demos", "heatmap_epochs", "precision", "memory_limit"}) | CHANGEABLE
"""Parts of a cell and its configuration that change what is drawn of it, or where and how fast it is computed, not what
is: it is the same experiment with others."""


class RecordError(UserError):
    """A file that is not a record this version can read."""


class SchemaError(RecordError):
    """A record that another version wrote: sound, but not for us."""


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes:
        cell: what was asked for. config: the resolved training configuration.
        revision: git revision of the code, None outside a repository; `+` at the end: with uncommitted changes.
        versions, device: of what it ran on.
        seconds: `collect`, `train`, `evaluate`.
        curves: one list per metric, one number (or None) per epoch, or per epoch that `epoch` lists.
        evaluation: see `evaluation_part`.
        attention: see `attention_maps`; empty where none were made.
        longer: evaluations like `evaluation` by the other values of `length` the cell asks for, as text.
        jobs: how many cells ran side by side meanwhile, which its seconds depend on; None in older records.
    """

    cell: Cell
    config: Mapping[str, Any]
    revision: str | None
    versions: Mapping[str, str]
    device: str
    seconds: Mapping[str, float]
    curves: Mapping[str, list[float | None]]
    evaluation: Mapping[str, Any]
    attention: Mapping[str, Any]
    longer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    jobs: int | None = None

    @property
    def success(self) -> float:
        """Success rate in percent."""
        return _percent(self.evaluation)

    def success_at(self, times: float) -> float | None:
        """Success rate in percent in worlds this many times as long; None where it was not evaluated there."""
        if times == 1:
            return self.success
        there = self.longer.get(str(longer_length(self.cell.task, self.cell.settings, times)))
        return None if there is None else _percent(there)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "cell": self.cell.to_json(),
            "config": dict(self.config),
            "revision": self.revision,
            "versions": dict(self.versions),
            "device": self.device,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "curves": dict(self.curves),
            "evaluation": dict(self.evaluation),
            "attention": dict(self.attention),
            **({"longer": dict(self.longer)} if self.longer else {}),
            **({} if self.jobs is None else {"jobs": self.jobs}),
        }

    @classmethod
    def from_json(cls, value: Any) -> "Record":
        """Read and check. What is missing, of a wrong type or inconsistent is a `RecordError` (no file name in it)."""
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise RecordError("it is not an attentiontuner record")
        if value.get("schema") != SCHEMA:
            raise SchemaError(f"it has schema {value.get('schema')}, this version reads {SCHEMA}")
        if isinstance(cell := value.get("cell"), dict) and (newer := cell.keys() - Cell.__dataclass_fields__.keys()):
            raise SchemaError(f"its cell has {min(newer)!r}, which this version does not know")
        try:
            record = cls(
                Cell.from_json(value["cell"]),
                **{name: value[name] for name in cls.__dataclass_fields__ if name not in ("cell", "longer", "jobs")},
                longer=value.get("longer", {}),
                jobs=value.get("jobs"),
            )
            record._check()
        except RecordError:
            raise
        except WRONG_CONTENT as error:
            raise RecordError(f"{type(error).__name__}: {shortened(str(error))}") from error
        return record

    @property
    def curve_epochs(self) -> list[int]:
        """The epochs that its curves have numbers of."""
        listed = self.curves.get("epoch")
        return list(range(1, self.cell.epochs + 1)) if listed is None else [int(epoch or 0) for epoch in listed]

    @property
    def observation(self) -> ObservationSpec:
        """What the network reads."""
        return ObservationSpec.from_json(self.config["model"]["observation"])

    def _check(self) -> None:
        _ = self.observation
        for result in (self.evaluation, *self.longer.values()):
            outcome, lengths = result["success"], result["lengths"]
            if len(outcome) != result["episodes"] or set(outcome) - {"0", "1"} or len(lengths) != len(outcome):
                episodes, known = counted(result["episodes"], "episode"), counted(len(outcome), "outcome")
                raise RecordError(f"{episodes}, but {known} and {counted(len(lengths), 'length')}")
            if outcome.count("1") != result["successes"] or not outcome:
                solved = counted(result["successes"], "success", "successes")
                raise RecordError(f"{solved}, but {outcome.count('1')} in the list of episodes")
        if set(self.longer) != {str(length) for length in self.cell.lengths}:
            raise RecordError(f"evaluations at lengths {', '.join(self.longer)}, not {self.cell.lengths}")
        if any(len(curve) != len(self.curve_epochs) for curve in self.curves.values()):
            raise RecordError(f"a learning curve does not have {counted(len(self.curve_epochs), 'epoch')}")
        if any(
            value is not None and not isinstance(value, int | float)
            for curve in self.curves.values()
            for value in curve
        ):
            raise RecordError("a learning curve holds something else than numbers")
        for name in ("collect", "train", "evaluate"):
            if not isinstance(self.seconds[name], int | float) or not math.isfinite(self.seconds[name]):
                raise RecordError("a timing is not a number")
        for drawn in [*self.attention.get("heads", {}).values(), *filter(None, [self.attention.get("expert")])]:
            decode_map(drawn)


# --- files -----------------------------------------------------------------------------------------------------------


def record_path(records: Path, cell: Cell) -> Path:
    """Where the record of `cell` is or will be."""
    return records / cell.folder / f"{cell.name}.json"


def write_record(records: Path, record: Record) -> Path:
    """Write a new record."""
    value = sealed(record.to_json())
    Record.from_json(json.loads(json.dumps(value)))
    path = record_path(records, record.cell)
    write_parts(path, value)
    return path


def read_record(path: Path) -> Record:
    """The record in `path`; anything wrong with it is a `RecordError` that names it. That it may not be read is another
    `UserError`: nothing is known to be wrong."""
    content = read_bytes(path)
    try:
        with reading(path):
            value = json.loads(content)
        record = Record.from_json(value)
        unsealed(value, path)
    except RecordError as error:
        raise type(error)(f"{path} cannot be used: {error}") from error
    except UserError as error:
        raise RecordError(str(error)) from error
    return record


def finished(records: Path, cell: Cell) -> Record | None:
    """The valid record of `cell`, or None where it has to run.

    A damaged one is set aside as `<name>.json.damaged-1` with a line on stderr. One of another schema, or one of
    another experiment under the same name, is a `RecordError`: it is somebody's result, so nothing is overwritten.
    """
    path = record_path(records, cell)
    if not path.exists():
        return None
    try:
        record = read_record(path)
    except SchemaError as error:
        raise SchemaError(f"{error}; move it away to run this cell again") from error
    except RecordError as error:
        aside = set_aside(path)
        print(f"attentiontuner: {error}; set aside as {aside.name}, the cell runs again", file=sys.stderr)
        return None
    if difference := difference_from(record, cell):
        raise RecordError(
            f"{path} is of another experiment ({difference}): use another --records folder or move it away"
        )
    return record


def difference_from(record: Record, cell: Cell) -> str:
    """Where a record is not one of `cell`, as text such as "model.layers 3, not 2"; "" where it is. What a run was made
    with decides, not how much of that the cell said and how much was usual then."""
    config = cell_config(cell)
    now = {"cell": cell.to_json(), **config.to_json()}
    try:
        model = type(config.model).from_json(record.config["model"]).to_json()  # as it is written now
    except UserError as error:
        return str(error)
    before = {"cell": record.cell.to_json(), **_DEFAULTS, **record.config, "model": model}
    difference = first_difference(_decisive(before), _decisive(now))
    return "" if difference is None else "{} {}, not {}".format(*difference)


def _decisive(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without what changes no result."""
    kept = {name: part for name, part in value.items() if name not in RESULT_NEUTRAL}
    if "cell" in kept:
        kept["cell"] = {name: part for name, part in _decisive(kept["cell"]).items() if name != "config"}
    return kept


def state_of(records: Path, cell: Cell) -> str:
    """In a word or two what there is of `cell`; nothing is moved or changed."""
    path = record_path(records, cell)
    if not path.exists():
        return "to do"
    try:
        return "of another experiment" if difference_from(read_record(path), cell) else "there"
    except SchemaError:
        return "of another version"
    except RecordError:
        return "damaged"


def set_aside(path: Path) -> Path:
    """Rename a damaged record to the first free `<name>.damaged-<n>`."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return path.rename(aside)


def read_records(folder: Path) -> list[Record]:
    """Every record under `folder`, sorted by path; unreadable ones are named on stderr and left where they are."""
    found = []
    for path in sorted(folder.glob("*/*--seed*.json")):
        try:
            record = read_record(path)
            if record_path(folder, record.cell) != path:
                raise RecordError(f"{path} is the record of {record.cell.folder}/{record.cell.name}: give it that name")
            found.append(record)
        except UserError as error:
            print(f"attentiontuner: left out: {error}", file=sys.stderr)
    return found


_DEFAULTS = {item.name: item.default for item in fields(TrainConfig) if item.default is not MISSING}
"""What a record means that is older than a field of the configuration."""


def _percent(evaluation: Mapping[str, Any]) -> float:
    return 100.0 * float(evaluation["successes"]) / float(evaluation["episodes"])


# --- parts of a record -----------------------------------------------------------------------------------------------


def evaluation_part(results: Sequence[EpisodeResult], seed: int) -> dict[str, Any]:
    """The evaluation part: counts, interval, and every episode in order of its environment seed (the first, + 1, …)."""
    figures = summarise(results)
    return {
        "episodes": figures["episodes"],
        "seed": seed,
        "first_environment_seed": results[0].seed,
        "successes": figures["successes"],
        "success_rate": figures["success_rate"],
        "interval_95": [round(end, 5) for end in figures["interval"]],
        "mean_return": round(figures["mean_return"], 5),
        "mean_length": round(figures["mean_length"], 3),
        "success": "".join("1" if result.success else "0" for result in results),
        "lengths": [result.length for result in results],
    }


def compact_curves(metrics: Iterable[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Learning curves from a run's lines, with five significant digits, None where an epoch does not have one. Where
    not every epoch was tested, or there are very many, of some epochs only: then `epoch` says which."""
    every = list(metrics)
    tested = [line for line in every if any(name.startswith("test_") for name in line)] or every
    step = -(-len(tested) // MOST_POINTS)
    chosen = tested[(len(tested) - 1) % step :: step] if tested else []
    names = dict.fromkeys(name for line in chosen for name in line if name not in NO_CURVES)
    curves = {name: [_digits(line.get(name)) for line in chosen] for name in names}
    return curves if len(chosen) == len(every) else {"epoch": [line["epoch"] for line in chosen], **curves}


def encode_map(weights: NDArray[Any], limit: int = MAP_LIMIT) -> dict[str, Any]:
    """A square map of weights in [0, 1], pooled to at most `limit` pixels a side (the largest of each block, so that a
    single one stays visible), as zlib-compressed bytes in base64."""
    block = math.ceil(len(weights) / limit)
    side = math.ceil(len(weights) / block)
    padded = np.zeros((side * block, side * block))
    padded[: len(weights), : len(weights)] = weights
    pooled = padded.reshape(side, block, side, block).max((1, 3))
    content = np.round(pooled.clip(0, 1) * 255).astype(np.uint8).tobytes()
    return {"side": side, "block": block, "data": base64.b64encode(zlib.compress(content, 9)).decode()}


def decode_map(value: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The `[side, side]` pixels of an encoded map."""
    try:
        side = int(value["side"])
        if not 0 < side <= MAP_LIMIT:
            raise RecordError(f"an attention map of {side} pixels a side")
        content = zlib.decompressobj().decompress(base64.b64decode(value["data"]), side * side + 1)
        return np.frombuffer(content, np.uint8).reshape(side, side)
    except RecordError:
        raise
    except (*WRONG_CONTENT, zlib.error) as error:
        raise RecordError(f"an attention map is damaged: {shortened(repr(error))}") from error


def _digits(value: Any) -> float | None:
    if value is None or not math.isfinite(float(value)):
        return None
    return float(f"{float(value):.{CURVE_DIGITS}g}")
