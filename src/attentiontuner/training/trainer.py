"""`train`: check what is asked, open the run folder, and let a `Session` do the work."""

import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attentiontuner.data.batches import DemoData
from attentiontuner.demos.manifest import read_manifest
from attentiontuner.demos.store import DemoStore
from attentiontuner.errors import UserError
from attentiontuner.files import locked, make_folder
from attentiontuner.training.checkpoint import load_state, open_run
from attentiontuner.training.config import TrainConfig
from attentiontuner.training.devices import choose_device, choose_precision, frame_limit, processes
from attentiontuner.training.log import read_metrics
from attentiontuner.training.session import Evaluate, Session
from attentiontuner.training.source import Integers, Source, frame_bytes, on_device, split_episodes
from attentiontuner.training.versions import software
from attentiontuner.wording import counted


@dataclass(frozen=True)
class TrainResult:
    """A run folder and its epochs so far.

    Attributes:
        run: the folder.
        metrics: one entry per epoch, as in `metrics.jsonl`.
        seconds: spent training, in all sessions together; testing, evaluating and saving aside.
        finished: False where a budget ended the run early.
        already_finished: there was nothing left to do.
    """

    run: Path
    metrics: list[dict[str, Any]]
    seconds: float
    finished: bool
    already_finished: bool = False


def train(
    config: TrainConfig,
    data: DemoStore,
    out: Path | str,
    *,
    test_data: DemoStore | None = None,
    evaluate: Evaluate | None = None,
    device: str | None = None,
    budget_seconds: float | None = None,
    tensorboard: bool = False,
) -> TrainResult:
    """Train in the run folder `out`, or go on with the run there.

    Args:
        config: the run; see `paper_config` for the paper's.
        data: the demonstrations; the last of them are the test set where `test_data` is not given.
        out: the run folder.
        test_data: demonstrations to test on.
        evaluate: model → success rate in [0, 1], called every `config.eval_every` epochs.
        device: `cpu`, `cuda`, `cuda:1`; by default a GPU where there is one.
        budget_seconds: save and return after this time.
        tensorboard: also write TensorBoard's files.

    SIGINT and SIGTERM save the run and raise `Interrupted`.
    """
    started, out = time.monotonic(), Path(out)
    place = choose_device(device)
    _check_data(config, data, "--data")
    if test_data is not None:
        _check_data(config, test_data, "--test-data")
    episodes, (test_store, test_episodes) = split_episodes(data, test_data, config)
    if config.heatmap_epochs and not len(test_episodes):
        raise UserError("--heatmap-epochs: there is no test demonstration to draw; give --test-data or more --data")
    config = _resolve(config, data, episodes, place)
    with ExitStack() as stack:
        team = stack.enter_context(processes(place))
        make_folder(out)
        if team.first:
            stack.enter_context(locked(out / ".lock", wait=False))
        # CUDA graphs are recorded on the current device, and the precision of float32 products is the process's.
        stack.enter_context(torch.cuda.device(place) if place.type == "cuda" else nullcontext())
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        stack.callback(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
        # First weights and dropout draw from PyTorch's own generators: the run borrows them and gives them back.
        stack.enter_context(torch.random.fork_rng([place] if place.type == "cuda" else []))
        source = Source(data, episodes, config, place)
        if team.first:
            open_run(out, config, source.fingerprint(), software())
        team.wait()
        state = load_state(out)
        if state is not None and state.epoch == config.epochs:
            return TrainResult(out, read_metrics(out), float(state.numbers["seconds"]), True, True)
        test = _test_data(test_store, test_episodes, config, place) if len(test_episodes) else None
        session = Session(config, out, source, test, place, team, state)
        deadline = None if budget_seconds is None else started + budget_seconds
        finished = session.go(evaluate, deadline, tensorboard)
        return TrainResult(out, session.metrics, session.seconds, finished)


def _check_data(config: TrainConfig, data: DemoStore, option: str) -> None:
    if data.task != config.task:
        raise UserError(f"{option} {data.path} holds demonstrations of {data.task!r}, not of {config.task!r}")
    if data.settings != dict(config.settings):
        raise UserError(
            f"{option} {data.path} was recorded with settings {data.settings}, the run has {dict(config.settings)}"
        )
    model = config.model
    if data.observation != model.observation:
        raise UserError(
            f"{option} {data.path} holds observations {data.observation.to_json()}, the model reads "
            f"{model.observation.to_json()}"
        )
    if len(data.action_names) != model.actions:
        there = counted(len(data.action_names), "action")
        raise UserError(f"{option} {data.path} has {there}, the model {model.actions}")
    if len(data) == 0:
        raise UserError(f"{option} {data.path} holds no episodes yet: finish `attentiontuner collect`")


def _test_data(store: DemoStore, episodes: Integers, config: TrainConfig, device: torch.device) -> DemoData:
    """The test demonstrations, with the pairs of the annotator the run learns from where they have them."""
    annotator = config.annotator if config.annotator in store.annotators() else None
    own = DemoStore(store.path, read_manifest(store.path), annotator)  # None: nobody else's either
    return on_device(own.read_packed(episodes), config, device)


def _resolve(config: TrainConfig, data: DemoStore, episodes: Integers, device: torch.device) -> TrainConfig:
    """The configuration with everything decided that depends on the machine."""
    limit = config.memory_limit or frame_limit(device)
    streams = frame_bytes(data, episodes) > limit
    precision = choose_precision(config.precision, device)
    return replace(config, precision=precision, memory_limit=limit if streams else None)
