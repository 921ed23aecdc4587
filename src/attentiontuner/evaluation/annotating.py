"""What a trained run recalls along demonstrations, written as the annotations of an annotator of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked
from attentiontuner.core.progress import progress
from attentiontuner.data.batch import Batch
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.annotations import (
    Annotation,
    check_annotator,
    read_annotations,
    write_shard_annotations,
)
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.manifest import LOCK
from attentiontuner.demos.store.reader import EXPERT, DemoStore
from attentiontuner.evaluation.opening import bound_of
from attentiontuner.models.bound import Bound
from attentiontuner.runs.run import Run, Trained

AT_ONCE = 16
"""Demonstrations that are looked at together, where they were trained on whole batches of them."""

IN_A_BLOCK = 2**20
"""Weights of steps on steps that are looked at together."""

BY_RUN = "inferred by "
"""How the note of an annotation begins that a run made."""


SURE = 0.8
"""A pair of less weight is one that the run is unsure of."""

NAMED = 5
"""Unsure pairs that a note names, at most."""


@dataclass(frozen=True)
class Annotated:
    """What `annotate_by_run` wrote: demonstrations and their pairs."""

    episodes: int
    pairs: int


def annotate_by_run(root: Path | str, run: Path | str, name: str, threshold: float = 0.5) -> Annotated:
    """Annotate every demonstration of the data set in `root` as `name` with what the run recalls.

    A pair is where a supervised head recalls at least `threshold`; its weight is how sure that is. The note says which
    run it was, how much it recalls, and of which pairs it is unsure. What `name` has said otherwise than by a run, or
    somebody has changed since, is a `UserError` before anything is written. Done again, it replaces what a run has
    said.
    """
    root, trained = Path(root), Run.open(run).load_model()
    if check_annotator(name) == EXPERT:
        raise UserError(f"the labels of {EXPERT!r} belong to the scripted expert: give the run's another name")
    if not trained.config.supervised():
        raise UserError(f"{run} was trained without pairs, with method {trained.config.method!r}: it knows of none")
    if not trained.config.way.annotates:
        what = f"a probe of method {trained.config.method!r} says where to look, not whether there is something"
        raise UserError(f"{run} cannot annotate: {what}; give a run of recall, slots or attentiontuner")
    if not 0 < threshold <= 1:
        raise UserError(f"--threshold is {threshold}: give one above 0, up to 1")
    store = DemoStore.open(root).annotated_by(None)
    model = trained.config.model
    if (store.observation, store.actions.unnamed()) != (model.observation, model.actions):
        raise UserError(f"{root} holds {store.observation} and {store.actions}: {run} was trained on something else")
    if store.task != trained.config.task:
        raise UserError(f"{root} holds demonstrations of {store.task!r}: {run} was trained on {trained.config.task!r}")
    with locked(root / LOCK):
        for episode, said in read_annotations(root, name).items():
            if not _untouched(said):
                raise UserError(f"{root}: {name!r} has annotated episode {episode}: give the run another name")
        written, at_once = 0, AT_ONCE
        if trained.config.parts is not None:
            at_once = min(AT_ONCE, -(-trained.config.batch_size // trained.config.parts))
        with progress(f"annotate as {name}", len(store)) as bar:
            for shard in store.manifest.readable_shards():
                lines = {}
                data = DemoData(store.read_packed(range(shard.first, shard.end)))
                for start in range(0, shard.episodes, at_once):
                    rows = np.arange(start, min(start + at_once, shard.episodes))
                    for episode, table in _recalled(trained, data, rows, threshold):
                        lines[episode] = _annotation(table, Path(run).name, threshold)
                        written += len(table)
                    bar.advance(len(rows))
                write_shard_annotations(root, name, shard.index, lines)
    return Annotated(len(store), written)


Found = NDArray[np.float64]
"""Pairs of an episode and how much was recalled: `[3, k]`, the steps p, the steps q, and the amounts."""


@torch.no_grad()
def _recalled(
    trained: Trained, data: DemoData, rows: NDArray[np.int64], threshold: float
) -> Iterator[tuple[int, PairTable]]:
    """The episode of each of some rows of `data`, and its pairs."""
    config, lengths = trained.config, data.lengths[rows]
    bound = bound_of(trained.model, config.window)
    recalled = _recalled_at_once if bound is None else partial(_recalled_in_play, bound)
    for row, found in enumerate(recalled(trained, data.batch(rows), threshold)):
        p, q, amount = found
        times = np.maximum(1, np.rint(amount)) if config.way.counts(config) else np.ones_like(amount)
        one, nowhere = lengths[row : row + 1], np.zeros(len(p), np.int32)
        weight = np.minimum(1, amount / times).round(2).astype(np.float32)
        p, q, times = (column.astype(np.int32) for column in (p, q, times))
        table = PairTable(one, np.array([True]), nowhere, p, q, times, weight=weight)
        yield int(data.packed.episodes[rows[row]]), table


def _recalled_at_once(trained: Trained, batch: Batch, threshold: float) -> list[Found]:
    """What the run recalls in each episode of a batch, every step of the whole past."""
    config = trained.config
    output = trained.model(batch, config.supervised())
    found: list[list[Found]] = [[] for _ in range(batch.rows)]
    for block in batch.blocks(IN_A_BLOCK):
        strength = config.way.recall_strength(output, block)
        if strength is None:
            raise UserError(f"method {config.method!r} does not tell how strongly it recalls a step")
        past = torch.ones(strength.shape[-2:], dtype=torch.bool).tril(block.start - 1)
        amounts = strength.exp() * past
        for row in range(block.first, block.last):
            own = amounts[row - block.first, : max(0, int(batch.lengths[row]) - block.start)]
            q, p = (index.numpy() for index in (own >= threshold).nonzero(as_tuple=True))
            found[row].append(np.stack([p, q + block.start, own[q, p].numpy()]))
    return [np.concatenate(own, 1) for own in found]


def _recalled_in_play(bound: Bound, trained: Trained, batch: Batch, threshold: float) -> list[Found]:
    """The same step by step, with a memory as large as that of the windows which the run was trained on."""
    network, heads = trained.model.eval().bounded(bound), trained.config.supervised()
    cache = network.start(batch.rows, bound.places)
    frame = torch.arange(len(batch.time)) if batch.frame is None else batch.frame
    found: list[list[Found]] = [[np.empty((3, 0))] for _ in range(batch.rows)]
    for time in range(batch.longest):
        step = (batch.bounds[: batch.rows] + time).clamp(max=len(frame) - 1)  # an episode that is over plays on, unseen
        begins = torch.full((batch.rows,), time == 0)
        told = batch.observations[frame[step]], batch.last_actions[step], begins
        _, weights = network.step(cache, *told, heads)
        amounts = torch.stack(list(weights.values())).amax(0) * (time < batch.lengths)[:, None]
        row, place = (amounts >= threshold).nonzero(as_tuple=True)
        for own, p, amount in zip(row.tolist(), cache.steps[row, place], amounts[row, place], strict=True):
            found[own].append(np.array([[p], [time], [amount]]))
    return [np.concatenate(own, 1) for own in found]


def _annotation(table: PairTable, run: str, threshold: float) -> Annotation:
    pairs = frozenset((p, q) for p, q, _ in table)
    return Annotation(table, {run: pairs} if pairs else {}, note=f"{BY_RUN}{run}: {_why(table, threshold)}")


def _why(table: PairTable, threshold: float) -> str:
    """What these pairs rest on."""
    if not len(table):
        return f"it recalls no step by {threshold:.0%} or more"
    unsure = np.flatnonzero(table.weight < SURE)
    weakest = unsure[np.argsort(table.weight[unsure], kind="stable")]
    named = [f"{table.p[row]} → {table.q[row]} ({table.weight[row]:.0%})" for row in weakest[:NAMED]]
    more = f" and {len(unsure) - NAMED} more" if len(unsure) > NAMED else ""
    doubt = f"unsure of {', '.join(named)}{more}" if named else "sure of everything"
    return f"it recalls them by {table.weight.mean():.0%} on average; {doubt}"


def _untouched(said: Annotation) -> bool:
    """Whether an annotation is as a run made it: a person who corrects some is an annotator."""
    return said.revision == 0 and said.note.startswith(BY_RUN) and said.as_proposed
