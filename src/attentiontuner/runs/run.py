"""The run folder as a type. This file alone knows what lies where in it:

    RUN/config.json            what the run is, on which data, and with which software each session computed
    RUN/metrics.jsonl          one line per epoch;  RUN/tensorboard/, RUN/wandb/ the same for these
    RUN/model.safetensors      the weights of the newest state;  RUN/best.safetensors the best evaluated ones
    RUN/need.safetensors       how much each step of its demonstrations needs a memory, where labels are readings, and
    RUN/pairs.safetensors      the pairs inferred from them
    RUN/state/                 full training states to go on from, see `states`
    RUN/heatmaps/00300.png     what the heads attended to after an epoch, and its numbers
    RUN/evaluation/            what `evaluate` found

Torch is imported when weights are read or written, so that a mistyped path is refused at once.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import (
    link_file,
    locked,
    read_bytes,
    read_json,
    reading,
    sync_folder,
    write_bytes,
    write_json,
)
from attentiontuner.core.seals import check_tensors, not_its_checksum, read_tensors, sealed, unsealed
from attentiontuner.runs import states
from attentiontuner.runs.log import MetricsLog, read_metrics
from attentiontuner.runs.states import Progress, State

if TYPE_CHECKING:
    from torch import Tensor

    from attentiontuner.models.network import Network
    from attentiontuner.runs.config import TrainConfig

SCHEMA = 1
CONFIG, METRICS, MODEL, BEST = "config.json", "metrics.jsonl", "model.safetensors", "best.safetensors"
NEED, PAIRS = "need.safetensors", "pairs.safetensors"
STATES, HEATMAPS, EVALUATION, LOCK = "state", "heatmaps", "evaluation", ".lock"


class Trained(NamedTuple):
    """A network (on the CPU, in evaluation mode), its run's configuration, and the checksum of these very weights."""

    run: "Run"
    model: "Network"
    config: "TrainConfig"
    sha256: str


@dataclass(frozen=True)
class Run:
    """The run in the folder `path`, which need not be there yet; `Run.open` takes only one that is."""

    path: Path

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """A run that somebody has trained; anything else is refused in one line."""
        run = cls(Path(path))
        if not run.path.is_dir():
            raise UserError(f"{path} does not exist: give the folder of a run, made with `attentiontuner train`")
        if not (run.path / CONFIG).exists():
            raise UserError(f"{path} is not a run: it has no {CONFIG}; give a folder made with `attentiontuner train`")
        run._read_config()
        return run

    # --- what it is --------------------------------------------------------------------------------------------------

    def config(self) -> "TrainConfig":
        """The configuration it was made with."""
        from attentiontuner.runs.config import TrainConfig

        value = self._read_config()["train"]
        with reading(self.path / CONFIG):
            return TrainConfig.from_json(value)

    def task(self) -> tuple[str, dict[str, Any]]:
        """The name and the settings of the task it was trained on; unlike `config` it needs no torch."""
        config = self._read_config()["train"]
        with reading(self.path / CONFIG):
            return str(config["task"]), dict(config["settings"])

    def longest(self) -> int | None:
        """Steps of the longest demonstration it was trained on; None where it does not know, as before 0.2."""
        longest = self._read_config().get("longest")
        return longest if isinstance(longest, int) else None

    def facts(self) -> dict[str, Any]:
        """All that `config.json` says: `train`, `data` (how many demonstrations, their fingerprints), `versions`."""
        return {"versions": {}, **self._read_config()}

    def weights(self, best: bool = False) -> Path:
        """The file with the newest weights, or with the best evaluated ones."""
        path = self.path / (BEST if best else MODEL)
        if best and not path.exists():
            raise UserError(f"{self.path} has no {BEST}: it is kept where training evaluates (--eval-every)")
        return path

    def begun(self) -> "TrainConfig | None":
        """The configuration it was made with; None where it has not begun."""
        return self.config() if (self.path / CONFIG).exists() else None

    def _read_config(self) -> dict[str, Any]:
        path = self.path / CONFIG
        value = read_json(path)
        if not isinstance(value, dict) or not all(isinstance(value.get(part), dict) for part in ("train", "data")):
            raise UserError(f"{path} is damaged: it holds no configuration")
        if value.get("schema") != SCHEMA:
            raise UserError(f"{path} has schema {value.get('schema')!r}, this attentiontuner reads {SCHEMA}")
        with reading(path):
            json.dumps(value, allow_nan=False)  # numbers that nobody can have written
        return unsealed(value, path)

    def metrics(self) -> list[dict[str, Any]]:
        """The epochs so far."""
        return read_metrics(self.path / METRICS)

    def progress(self) -> Progress | None:
        """How far the newest state is; None where there is none yet."""
        return states.read_progress(self.path / STATES)

    @property
    def has_learned(self) -> bool:
        """Whether there is anything of it to lose: a state, or weights."""
        return self.progress() is not None or (self.path / MODEL).exists()

    @property
    def evaluation(self) -> Path:
        """The folder of its evaluations."""
        return self.path / EVALUATION

    @property
    def need(self) -> Path:
        """The file of how much the steps of its demonstrations need a memory."""
        return self.path / NEED

    @property
    def pairs(self) -> Path:
        """The file of the pairs inferred from its labels."""
        return self.path / PAIRS

    def heatmap_path(self, epoch: int) -> Path:
        """The picture of what its heads attended to after that epoch."""
        return self.path / HEATMAPS / f"{epoch:05d}.png"

    def state_path(self, name: str) -> Path:
        """The folder of the state called `name`, for messages."""
        return self.path / STATES / name

    # --- training ----------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here meanwhile; where one does, that is a `UserError`."""
        with locked(self.path / LOCK, wait=False):
            yield

    def as_begun(self, config: "TrainConfig") -> "TrainConfig":
        """`config`, with what a run that is older than a field did before there was a choice."""
        if not (self.path / CONFIG).exists() or "include_failed" in self._read_config()["train"]:
            return config
        return replace(config, include_failed=True)

    def begin(
        self,
        config: "TrainConfig",
        data: Mapping[str, Any],
        versions: Mapping[str, str],
        longest: int | None = None,
    ) -> None:
        """Get ready to train: write `config.json`, or check that the one there says the same; the first difference is a
        `UserError`. What a killed process left unfinished is removed.

        A run may become longer, unless its learning rate was planned for so many epochs; one that was stopped before it
        had learned anything may become another. `versions` are those of this
        session; `config.json` keeps the first session's, and under `sessions` each that came with others. `longest` are
        the steps of the longest demonstration, for who plays what was learned.
        """
        if not (self.path / CONFIG).exists():
            if (self.path / STATES).exists():
                lost = f"it has training states but no {CONFIG}"
                raise UserError(f"{self.path} is damaged: {lost}; delete it to start again")
            self._remove_leftovers(config.keep)
            run = {"train": config.to_json(), "data": dict(data), "longest": longest, "versions": dict(versions)}
            write_json(self.path / CONFIG, sealed({"schema": SCHEMA, **run}))
            return
        before = self._read_config()
        try:
            now = self._grown(before, config, data)
        except UserError:
            if self.has_learned:
                raise
            for name in (NEED, PAIRS, CONFIG):
                (self.path / name).unlink(missing_ok=True)
            self.begin(config, data, versions, longest)
            return
        self._remove_leftovers(config.keep)
        done = self.progress() or Progress(0, 0, 0.0)
        sessions = before.get("sessions", [])
        latest = sessions[-1]["versions"] if sessions else before.get("versions")
        if latest != dict(versions) and done.epoch < config.epochs:
            session = {"epoch": done.epoch, "batch": done.batch, "versions": dict(versions)}
            now = {**now, "sessions": [*sessions, session]}
        if now != before:
            write_json(self.path / CONFIG, sealed(now))

    def _grown(self, before: dict[str, Any], config: "TrainConfig", data: Mapping[str, Any]) -> dict[str, Any]:
        """`before`, with more epochs where the run becomes longer; refused where anything else differs."""
        from attentiontuner.runs.config import TrainConfig, first_difference

        known = TrainConfig.from_json(before["train"]).to_json()  # older than a field: it had the default
        longer = config.schedule == "constant" and config.epochs > known["epochs"]
        grown = {**known, "epochs": config.epochs} if longer else known
        for part, old, new in (("", grown, config.to_json()), ("data.", before["data"], data)):
            difference = first_difference(old, new)
            if difference is not None:
                name, was, now = difference
                planned = name == "epochs" and config.schedule == "cosine"
                why = ", over which its learning rate falls" if planned else ""
                made = f"{self.path} was made with {part}{name} = {was!r}{why}"
                raise UserError(f"{made}, now it is {now!r}: use the same, or another --out")
        return {**before, "train": grown} if longer else before

    def _remove_leftovers(self, keep: int) -> None:
        """Of a process that was killed while it wrote; the weights beside the states are again the newest state's."""
        for name in (CONFIG, METRICS, MODEL, BEST, NEED, PAIRS):
            for path in self.path.glob(f".{name}*"):
                path.unlink(missing_ok=True)
        for path in (self.path / HEATMAPS).glob(".*"):
            path.unlink(missing_ok=True)
        states.remove_leftovers(self.path / STATES, keep)
        newest = states.newest(self.path / STATES)
        if newest is not None and (newest / states.MODEL_FILE).exists():
            link_file(newest / states.MODEL_FILE, self.path / MODEL)

    def log(self, epoch: int, boards: Iterable[str] = ()) -> MetricsLog:
        """The log of a session that goes on after `epoch`; `boards` as in `runs.log`."""
        return MetricsLog(self.path / METRICS, epoch, boards)

    def save_state(self, state: State, keep: int) -> None:
        """Make `state` the newest one, and delete all but the `keep` newest."""
        states.save_state(self.path / STATES, state, keep)
        link_file(self.path / STATES / state.name / states.MODEL_FILE, self.path / MODEL)

    def load_state(self) -> State | None:
        """The newest state, or None where there is none yet. A damaged one is a `UserError` with the way out."""
        return states.load_state(self.path / STATES)

    def save_best(self, model: "Network") -> None:
        """Keep the present weights as the best ones."""
        write_bytes(self.path / BEST, states.weight_bytes(model.state_dict()))

    # --- afterwards --------------------------------------------------------------------------------------------------

    def load_model(self, best: bool = False) -> Trained:
        """The trained network: with the newest weights, or the best evaluated ones. The file is read once."""
        config, path = self.open(self.path).config(), self.weights(best)
        content = read_tensors(path)
        sha256 = hashlib.sha256(content).hexdigest()
        weights = self._checked(content, path, sha256)
        unfit = UserError(
            f"{path}: its weights do not fit {CONFIG}; it is damaged, or another version of attentiontuner made it"
        )
        if states.much_larger(config.network, weights):
            raise unfit
        with reading(self.path / CONFIG):
            model = config.network.build()
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise unfit from error
        return Trained(self, model.eval(), config, sha256)

    def _checked(self, content: bytes, path: Path, sha256: str) -> "dict[str, Tensor]":
        """The weights in `content`, which is that of `path`; others than were written are a `UserError`."""
        try:
            weights = states.parse_weights(content, path)
            if not check_tensors(content, path) and path.name == MODEL:  # of an older version: its states may know it
                known = states.checksums(self.path / STATES)
                if known and sha256 not in known:
                    raise UserError(f"{path} is damaged: {not_its_checksum(path)}")
        except UserError as error:
            remedy = "restore it from a copy, or train again"
            if path.name == MODEL and (self.path / STATES).is_dir():
                remedy = "the same `train` command makes it again from the newest state"
            elif path.name == BEST:
                remedy = "restore it from a copy, or take the newest weights"
            raise UserError(f"{error}; {remedy}") from error
        return weights

    def publish_to(self, folder: Path, weights: bytes) -> "Run":
        """The run in `folder` that has this one's configuration and, as safetensors, these weights; nothing else."""
        write_json(folder / CONFIG, sealed(self._read_config()))
        write_bytes(folder / MODEL, weights)
        return Run(folder)

    def copy_to(self, target: Path) -> None:
        """Copy configuration, metrics and weights; killed at any moment, `target` holds them all or is not there."""
        fresh = target.with_name(f".{target.name}.copy")
        shutil.rmtree(fresh, ignore_errors=True)
        for name in (CONFIG, METRICS, MODEL, BEST):
            if name != BEST or (self.path / BEST).exists():
                write_bytes(fresh / name, read_bytes(self.path / name))
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
        sync_folder(target.parent)
