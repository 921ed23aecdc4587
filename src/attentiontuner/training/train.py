"""`train`: check what is asked, open the run folder, and let the loop do the work."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import make_folder
from attentiontuner.core.versions import software
from attentiontuner.core.wording import counted
from attentiontuner.data.labels import label_generator
from attentiontuner.data.source import POOLS_AT_ONCE, Integers, Source, frame_bytes, reading_bytes
from attentiontuner.data.windows import far_recalled, longest_window
from attentiontuner.demos.annotations import LOST, lost_annotations, named
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.reader import EXPERT, DemoStore
from attentiontuner.insight.inference import Inferred, infer_pairs
from attentiontuner.insight.need import find_need
from attentiontuner.models.network import Network
from attentiontuner.runs.config import TrainConfig
from attentiontuner.runs.devices import (
    Processes,
    choose_device,
    choose_precision,
    frame_limit,
    processes,
    threads_for,
)
from attentiontuner.runs.log import checked_boards
from attentiontuner.runs.run import Run
from attentiontuner.training.demonstrations import demonstrations_of, shared_with_training
from attentiontuner.training.loop import Evaluate, TrainLoop
from attentiontuner.training.room import parts_for


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
    data: DemoStore | Path | str,
    out: Path | str,
    *,
    test_data: DemoStore | Path | str | None = None,
    evaluate: Evaluate | None = None,
    device: str | None = None,
    budget_seconds: float | None = None,
    log: Sequence[str] = (),
) -> TrainResult:
    """Train in the run folder `out`, or go on with the run there.

    Args:
        config: the run; see `recipe`.
        data: the demonstrations, or their folder; the last of them are the test set where `test_data` is not given.
        out: the run folder.
        test_data: demonstrations to test on.
        evaluate: model → success rate in [0, 1], called every `config.eval_every` epochs.
        device: `cpu`, `cuda`, `cuda:1`; by default a GPU where there is one.
        budget_seconds: save and return after this time.
        log: where the metrics are shown too: `tensorboard`, `wandb`.

    SIGINT and SIGTERM save the run and raise `Interrupted`.
    """
    started, run = time.monotonic(), Run(Path(out))
    data = DemoStore.of(data)
    test_data = None if test_data is None else DemoStore.of(test_data)
    checked_boards(log)
    place, config = choose_device(device), run.as_begun(config)
    episodes, (test_store, test_episodes) = demonstrations_of(config, data, test_data)
    limit = config.memory_limit or frame_limit(place)
    config = _resolve(config, data, episodes, place, limit)
    with ExitStack() as stack:
        team = stack.enter_context(processes(place))
        # CUDA graphs are recorded on the current device, and the precision of float32 products is the process's.
        stack.enter_context(torch.cuda.device(place) if place.type == "cuda" else nullcontext())
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        stack.callback(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
        stack.enter_context(threads_for(config.network, place))
        # First weights and dropout draw from PyTorch's own generators: the run borrows them and gives them back.
        stack.enter_context(torch.random.fork_rng([place] if place.type == "cuda" else []))
        torch.manual_seed(config.seed)
        model = config.network.build()  # on the CPU, so that every device starts from the same weights
        make_folder(run.path)
        if team.first:
            stack.enter_context(run.locked())
        labels = _labels(config, data, episodes)
        sizes = frame_bytes(data, episodes), frame_bytes(test_store, test_episodes)
        beside = min(sum(sizes), limit + reading_bytes(data))
        config = replace(config, parts=_parts(config, model, run, data, episodes, place, team, beside))
        told = (config.memory_limit, config.learn_padding, config.window)
        source = Source(data, episodes, labels, config.batch_size, config.seed, place, *told)
        if team.first:
            run.begin(config, source.fingerprint(), software(), longest=int(data.lengths.max()))
            for line in _what(data, config, labels, len(test_episodes)):
                print(line, file=sys.stderr, flush=True)
            if test_data is not None and (shared := shared_with_training(data, test_data)):
                new = "its tests say little of new episodes"
                print(f"attentiontuner: --test-data {test_data.path}: {shared}; {new}", file=sys.stderr, flush=True)
            if config.labels == "readings" and config.needs_pairs:
                source.labels = _inferred(config, data, episodes, labels, run, place)
            if config.window is not None and config.needs_pairs:
                far = counted(max(map(len, far_recalled(source.labels, config.window))), "step")
                print(f"windows: {far} of one demonstration at most recalled from beyond", file=sys.stderr, flush=True)
        team.wait()
        if not team.first and run.pairs.exists():
            source.labels = Inferred.load(run.pairs).pairs
        state = run.load_state()
        if state is not None and state.epoch == config.epochs:
            return TrainResult(run.path, run.metrics(), float(state.numbers["seconds"]), True, True)
        test = None
        if len(test_episodes):
            held = sizes[0] if config.memory_limit is None else limit // POOLS_AT_ONCE
            test = _test_source(test_store, test_episodes, config, place, limit - held)
            if team.first and test.memory_limit is None:
                next(test.pieces())  # so that damage is told before the first epoch
        loop = TrainLoop(config, model, run, source, test, place, team, state)
        deadline = None if budget_seconds is None else started + budget_seconds
        try:
            finished = loop.go(evaluate, deadline, log)
        except (MemoryError, RuntimeError) as error:
            raise _no_room(error, config) or error from error
        return TrainResult(run.path, loop.metrics, loop.seconds, finished)


def _parts(
    config: TrainConfig,
    model: Network,
    run: Run,
    data: DemoStore,
    episodes: Integers,
    place: torch.device,
    team: Processes,
    frames: int,
) -> int | None:
    """The parts of a batch: those asked for, those the run began with, or as many as it takes. None: it stays whole."""
    if config.parts is not None or place.type != "cpu":
        return config.parts
    if (begun := run.begun()) is not None and run.has_learned:
        return begun.parts
    one, lengths = data.annotated_by(None).read_packed(episodes[:1]), data.lengths[episodes]
    if config.learn_padding:
        lengths = np.full_like(lengths, lengths.max())
    if config.window is not None:
        lengths = lengths.clip(max=longest_window(config.window, int(lengths.max())))
    needed = team.agree(parts_for(config, model, one, lengths, frames))
    if needed == 1:
        return None
    if team.first:
        print(f"a batch needs more memory than is free: it is computed in {needed} parts", file=sys.stderr, flush=True)
    return needed


def _no_room(error: Exception, config: TrainConfig) -> UserError | None:
    """What to say of an allocation that failed; None where it was something else."""
    words = str(error).lower()
    if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in words:
        return None
    return UserError(
        f"there is not enough memory for a batch of {counted(config.batch_size, 'demonstration')} in "
        f"{counted(config.parts or 1, 'part')}: use another --out and more --parts, such as {2 * (config.parts or 1)}"
    )


def _labels(config: TrainConfig, data: DemoStore, episodes: Integers) -> PairTable:
    """The pairs the run learns from after everything it does to them; nobody's where its method is not told any."""
    if not config.needs_pairs:
        return PairTable.nothing(data.lengths[episodes])
    method, annotator, there = config.way, config.annotator, data.annotators()
    labels = data.annotated_by(annotator).read_pairs(episodes)
    missing = [name for name in named(annotator) if name not in there]
    if missing or not labels.annotated.any():
        demonstrations = counted(len(episodes), "training demonstration")
        lacking = f"annotator {annotator!r} has annotated none of the {demonstrations}"
        if missing:
            lacking = f"there is no annotator {missing[0]!r} (there: {', '.join(there) or 'nobody'})"
        otherwise = f", or train with --method {method.without_pairs}" if method.without_pairs else ""
        remedy = f"annotate some, choose --annotator{otherwise}"
        raise UserError(f"{data.path}: {lacking}, but the memory loss needs memory pairs: {remedy}")
    labels = labels.keep_annotations(config.annotated_fraction, label_generator(config.seed, "annotated"))
    if config.pairs == "random":
        labels = labels.random(label_generator(config.seed, "random"))
    elif config.pairs == "shuffled":
        labels = labels.shuffled(label_generator(config.seed, "shuffled"))
    elif config.pairs == "none":
        labels = PairTable.nothing(labels.lengths)
    labels = labels.perturb(config.noise_p, config.noise_q, label_generator(config.seed, "noise"))
    labels = labels.shift(config.late, config.late) if config.late else labels
    method.check_labels(labels, lambda row: f"{data.path}, episode {episodes[row]}, annotator {annotator!r}")
    return labels


def _inferred(
    config: TrainConfig, data: DemoStore, episodes: Integers, labels: PairTable, run: Run, device: torch.device
) -> PairTable:
    """The pairs that labels are readings of; found once, and kept with the run together with the need of its steps."""
    if run.pairs.exists():
        return Inferred.load(run.pairs).pairs
    names = named(config.annotator)
    said = [data.annotated_by(name).read_pairs(episodes) for name in names] if len(names) > 1 else [labels]
    if len(said) > 1 and reduce(PairTable.merge, said) != labels:  # a study has changed them
        names, said = (config.annotator or "",), [labels]
    need = find_need(data, episodes, seed=config.seed, device=device)
    need.save(run.need)
    found = infer_pairs(data, episodes, said, need, seed=config.seed, device=device)
    config.way.check_labels(found.pairs, lambda row: f"{data.path}, episode {episodes[row]}, inferred")
    found.save(run.pairs)
    if words := found.words(names):
        print(f"labels: {words}", file=sys.stderr, flush=True)
    return found.pairs


def _what(data: DemoStore, config: TrainConfig, labels: PairTable, tested: int) -> list[str]:
    """What a run learns from, in one line, and one for each file of its annotators that is lost."""
    demonstrations = len(labels.lengths)
    failed = sum(shard.episodes - shard.successes for shard in data.manifest.readable_shards())
    parts = [f"train {config.task}: {counted(demonstrations, 'demonstration', form=',')}"]
    if config.needs_pairs:
        annotated, pairs = int(labels.annotated.sum()), counted(len(labels), "pair", form=",")
        parts.append(f"{annotated:,} annotated by {config.annotator} with {pairs}")
    if tested:
        parts.append(f"{tested:,} to test on")
    if config.window is not None:
        parts.append(f"in windows of {counted(config.window, 'step', form=',')}")
    if failed:
        others = "learned from too" if config.include_failed else "left out (--include-failed learns from them too)"
        parts.append(f"{failed:,} of {len(data):,} failed and are {others}")
    lost = [path for path in lost_annotations(data.path) if path.parent.name in named(config.annotator)]
    return [", ".join(parts), *(f"attentiontuner: {path} is {LOST}" for path in lost if config.needs_pairs)]


def _test_source(store: DemoStore, episodes: Integers, config: TrainConfig, device: torch.device, room: int) -> Source:
    """The test demonstrations, with the pairs of those the run learns from, as far as they annotated them; streamed
    where they need more than the `room` in bytes that training leaves, and where training is streamed itself."""
    there = ",".join(name for name in named(config.annotator) if name in store.annotators())
    labels = store.annotated_by(there or None).read_pairs(episodes)  # None: nobody else's either
    streams = config.memory_limit is not None or frame_bytes(store, episodes) > room
    longer = config.window is not None and store.lengths[episodes].max() > config.window
    return Source(
        store,
        episodes,
        labels,
        config.batch_size,
        config.seed,
        device,
        memory_limit=room if streams else None,
        window=config.window if longer else None,
    )


def _resolve(config: TrainConfig, data: DemoStore, episodes: Integers, device: torch.device, limit: int) -> TrainConfig:
    """The configuration with everything decided that depends on the data set and the machine."""
    streams = frame_bytes(data, episodes) > limit
    wanted: Any = config.way.precision or config.precision
    cuts = config.window is not None and data.lengths[episodes].max() > config.window
    return replace(
        config,
        annotator=config.annotator or data.annotator or EXPERT,
        precision=choose_precision(wanted, device),
        memory_limit=limit if streams else None,
        window=config.window if cuts else None,
    )
