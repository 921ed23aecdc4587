"""Where the pairs of demonstrations are, from labels that are a few steps off, or of a few of the demonstrations.

Labels that have enough in common with those of other demonstrations are right and stay as they are. Of others a head
learns what they have in common, and every demonstration's pairs are what a head finds that did not learn from its
labels. So are those of demonstrations without labels.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import WRONG_CONTENT, write_bytes
from attentiontuner.core.progress import Bar, progress
from attentiontuner.core.seals import check_tensors, read_tensors, seal_tensors
from attentiontuner.core.wording import counted
from attentiontuner.data.dataset import DemoData
from attentiontuner.demos.pairs import PairTable
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight.need import Need
from attentiontuner.insight.pair_finder import BATCH, STEPS, PairFinder, Sort, sorts_for
from attentiontuner.insight.readings import (
    EXACT,
    Floats,
    Integers,
    Readings,
    read_labels,
    recalled_by_need,
    squashed,
)
from attentiontuner.insight.steps import blocks, learned_from

FEWEST = 8
"""With fewer annotated demonstrations none can be spared to judge labels by: they are taken for right."""

FEW = 30
"""With fewer annotated demonstrations both heads learn from all of them, if they are plain: half of a few labels that
are off hardly tell the right step from the one beside it, and plain heads do not learn them by heart."""

LONGEST = 2048
"""Steps: in longer episodes labels are taken for right, for a head would look at every step from every other."""

CHECKED = 150
"""Steps after which a head knows whether labels have something in common."""

IN_COMMON = 0.5
"""The share of labels that a head finds which has not seen them, if they are right. Of labels that are off by one step
in p and in q it can find a seventh, of those off in p alone up to four tenths."""

AGREED = 0.5
"""The share of what one of two heads finds that both find, where they have found what labels have in common."""

A_PAIR = 0.5
"""So much is recalled where there is a pair."""

SCALE = (0.8, 1.5)
"""Between these amounts may be scaled, to be as near to whole numbers as they can."""


@dataclass(frozen=True)
class Inferred:
    """What training is told.

    Attributes:
        pairs: of the episodes, in their order.
        exact: whether the labels were right, but for lateness. If not, and nothing was moved, they are as marked.
        late: of each annotator, steps marked too late.
        spreads: of each annotator how far off recalled and deciding steps are, in steps.
        moved: demonstrations whose labels were replaced by what was found.
        added: demonstrations without labels that were given pairs.
    """

    pairs: PairTable
    exact: bool
    late: tuple[int, ...]
    spreads: tuple[tuple[float, float], ...]
    moved: int = 0
    added: int = 0

    def save(self, path: Path) -> None:
        """Write it as a safetensors file, atomically."""
        columns = {item.name: np.ascontiguousarray(getattr(self.pairs, item.name)) for item in fields(PairTable)}
        said = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "pairs"}
        write_bytes(path, seal_tensors(save(columns, {"inferred": json.dumps(said)})))

    @classmethod
    def load(cls, path: Path) -> "Inferred":
        """What `save` wrote; a missing or damaged file is a `UserError`."""
        content = read_tensors(path)
        try:
            check_tensors(content, path)
            columns = {name: column.copy() for name, column in load(content).items()}
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            said = json.loads(header["__metadata__"]["inferred"])
            late, spreads = tuple(said.pop("late")), tuple((p, q) for p, q in said.pop("spreads"))
            return cls(PairTable(**columns), late=late, spreads=spreads, **said)
        except (SafetensorError, *WRONG_CONTENT) as error:
            raise UserError(f"{path} holds no inferred pairs: {error}; delete it to infer them again") from error

    def words(self, names: Sequence[str]) -> str:
        """In one line; empty where labels are complete and right."""
        said = []
        for name, late, (p, q) in zip(names, self.late, self.spreads, strict=True):
            if late:
                side = "late" if late > 0 else "early"
                said.append(f"{name} marks {counted(abs(late), 'step')} too {side}")
            if self.moved:
                said.append(f"{name} is off by about {p:g} in p and {q:g} in q")
        if not self.exact and not self.moved:
            said.append("labels have too little in common to be moved, and stay as they are marked")
        if self.moved:
            said.append(f"pairs of {counted(self.moved, 'demonstration', form=',')} moved where they belong")
        if self.added:
            said.append(f"pairs found in {counted(self.added, 'demonstration', form=',')} without labels")
        if self.moved or any(self.late):
            said.append("--labels exact takes labels at their word")
        return "; ".join(said)


def infer_pairs(
    store: DemoStore,
    episodes: Integers,
    labels: Sequence[PairTable],
    need: Need,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Inferred:
    """The pairs of these episodes.

    Args:
        store: the data set.
        episodes: numbers of the episodes.
        labels: of each annotator a table of these episodes, in their order.
        need: of their steps.
        seed: fixes everything drawn.
        device: where heads learn.
    """
    if not np.array_equal(need.lengths, store.lengths[episodes]):
        raise UserError(f"the need of other episodes than these of {store.path}: compute it again")
    needed = squashed(need.entropy)
    readings = [read_labels(table, needed) for table in labels]
    annotated = np.any([table.annotated for table in labels], axis=0)
    as_marked, in_time = reduce(PairTable.merge, labels), tuple(0 for _ in labels)
    late, given = tuple(each.late for each in readings), reduce(PairTable.merge, (each.labels for each in readings))
    right = tuple((EXACT, EXACT) for _ in readings)
    if need.lengths.max(initial=0) > LONGEST:
        return Inferred(given, True, late, right)
    told = (store, np.asarray(episodes))
    work = _Work(*told, readings, annotated, needed, seed, torch.device(device))
    with progress(f"labels of {store.task}", len(work.sorts) * 2 * CHECKED + (1 + len(work.sorts)) * STEPS) as bar:
        exact = work.right(bar)
        if not exact and any(late):  # what seems late may be right as it is
            unmoved = [Readings(table, 0, each.spread) for table, each in zip(labels, readings, strict=True)]
            other = _Work(*told, unmoved, annotated, needed, seed, torch.device(device))
            if other.right(bar):
                work, exact, late, given = other, True, in_time, as_marked
        if not (exact and annotated.all()):
            finders = work.finders(exact, bar)
        bar.advance(bar.total - bar.done)
    if exact and annotated.all():
        return Inferred(given, True, late, right)
    found, agreement = work.found(finders, annotated if annotated.all() else ~annotated)
    of_p = np.mean([finder.spreads_p for finder in finders], axis=0)
    spreads = tuple((float(p), EXACT if exact else each.spread) for p, each in zip(of_p, readings, strict=True))
    if agreement < AGREED:  # what each of two heads finds is its own affair
        return Inferred(given, True, late, spreads) if exact else Inferred(as_marked, False, in_time, spreads)
    if exact:  # what was said stays
        said, unsaid = np.flatnonzero(annotated), np.flatnonzero(~annotated)
        found = PairTable.join([given.select(said), found.select(unsaid)]).select(np.argsort(np.append(said, unsaid)))
    return Inferred(found, exact, late, spreads, 0 if exact else int(annotated.sum()), int((~annotated).sum()))


class _Work:
    """What heads learn from: as many of the episodes as teach them something, all annotated ones first."""

    def __init__(
        self,
        store: DemoStore,
        episodes: Integers,
        readings: list[Readings],
        annotated: NDArray[np.bool_],
        needed: Floats,
        seed: int,
        device: torch.device,
    ) -> None:
        self.store, self.episodes, self.annotated, self.seed, self.device = store, episodes, annotated, seed, device
        self.readings = readings
        rng = np.random.default_rng([seed, 2])
        told, untold = np.flatnonzero(annotated), np.flatnonzero(~annotated)
        told = told[learned_from(store, episodes[told], rng)] if len(told) else told
        untold = untold[learned_from(store, episodes[untold], rng)] if len(untold) else untold
        self.chosen = np.append(told, untold)
        self.fold = np.append(rng.permutation(len(told)) % 2, np.full(len(untold), -1))  # [chosen], -1: not annotated
        self.fold_of = np.full(len(episodes), -1)
        self.fold_of[annotated] = rng.permutation(int(annotated.sum())) % 2
        self.fold_of[told] = self.fold[: len(told)]
        self.crossed = len(told) >= FEWEST
        self.sorts = sorts_for(store.observation)
        lengths = store.lengths[episodes]
        starts = np.cumsum(lengths) - lengths
        rate = np.mean([recalled_by_need(each, needed) for each in readings], axis=0)
        self.rate = np.concatenate([rate[starts[row] : starts[row] + lengths[row]] for row in self.chosen])
        self.data = self._read(self.chosen)

    def _read(self, rows: Integers) -> DemoData:
        return DemoData(self.store.annotated_by(None).read_packed(self.episodes[rows]), self.device)

    def _finder(self, exact: bool, number: int, sort: Sort) -> PairFinder:
        of_chosen = [Readings(each.labels.select(self.chosen), each.late, each.spread) for each in self.readings]
        return PairFinder(self.data, self.store.actions, of_chosen, self.rate, 10 * self.seed + number, exact, sort)

    def right(self, bar: Bar) -> bool:
        """Whether labels are right: whether a head finds in half of them what the others have in common. The sort of
        head for those that are is the one by which the half it has not seen is likelier."""
        if not self.crossed:
            self.sorts = self.sorts[:1]
            return True
        learned, others = (np.flatnonzero(self.fold == own) for own in range(2))
        right, found = False, []
        for sort in self.sorts:
            finder = self._finder(exact=True, number=2, sort=sort)
            finder.learn(learned, others[:0], CHECKED, bar)
            right |= finder.consistency(others) >= IN_COMMON
            if right and self.annotated.all():
                return True
            found.append(finder.likelihood(others))
        if right:
            self.sorts = (self.sorts[int(np.argmax(found))],)
        return right

    def finders(self, exact: bool, bar: Bar) -> list[PairFinder]:
        """Two heads, each with half of the labels; with all of them where they are right or few. Where it is open of
        which sort they should be, the first is tried as each."""
        both: list[PairFinder] = []
        told = np.flatnonzero(self.fold >= 0)
        few = not self.sorts[0].asks and len(told) < FEW
        if few:
            self.sorts = self.sorts[:1]
        for own in range(2):
            learned, others = (np.flatnonzero((self.fold == own) == other) for other in (False, True))
            if exact or few:
                learned, others = np.arange(len(self.chosen)), told
            tried = [self._finder(exact, own, sort) for sort in self.sorts]
            for finder in tried:
                finder.learn(learned, others, STEPS, bar)
            best = max(tried, key=lambda finder: finder.likelihood(others)) if len(tried) > 1 else tried[0]
            self.sorts = (best.sort,)
            both.append(best)
        return both

    def found(self, finders: list[PairFinder], judged: NDArray[np.bool_]) -> tuple[PairTable, float]:
        """What the heads find in every episode, in an annotated one the head that has not learned from its labels, if
        there is one; and the share of what one of them finds in those `judged` `[N]` that both find."""
        both = either = 0
        parts: list[NDArray[np.float64]] = []  # [4, pairs] each: row, p, q, amount
        for block in blocks(self.store, self.episodes):
            data = self._read(block)
            for start in range(0, len(block), BATCH):
                some = np.arange(start, min(start + BATCH, len(block)))
                amounts = torch.stack([finder.amounts(data, some) for finder in finders])  # [2, B, T, T]
                there = amounts[:, torch.from_numpy(judged[block[some]]).to(amounts.device)] >= A_PAIR
                both, either = both + int(there.all(0).sum()), either + int(there.any(0).sum())
                found = _combined(amounts, self.fold_of[block[some]])
                row, q, p = found.nonzero(as_tuple=True)
                amount, owner = found[row, q, p], block[some[row.cpu().numpy()]]
                parts.append(np.stack([owner, *(each.cpu().numpy() for each in (p, q, amount))]))
        row, p, q, amount = np.concatenate(parts, 1)
        amount *= scale_to_whole(amount)
        kept = amount >= A_PAIR
        lengths = self.store.lengths[self.episodes]
        row, p, q, times = (column[kept].astype(np.int32) for column in (row, p, q, np.maximum(1, np.rint(amount))))
        return PairTable(lengths, np.ones(len(lengths), np.bool_), row, p, q, times), both / max(either, 1)


def scale_to_whole(amounts: Floats) -> float:
    """What amounts `[n]` are to be multiplied with to be as near to 1, 2, … as they can. A head recalls a little too
    little everywhere in episodes that it has not learned from."""
    sure = amounts[amounts >= A_PAIR]
    scales = np.linspace(*SCALE, 71)
    off = [float(((scale * sure - np.maximum(1, np.rint(scale * sure))) ** 2).sum()) for scale in scales]
    return float(scales[np.argmin(off)]) if len(sure) else 1.0


def _combined(amounts: Tensor, fold: Integers) -> Tensor:
    """Of what two heads recall `[2, B, T, T]`, in episodes of a `fold` `[B]` that of its head, in others the mean;
    nothing where it is hardly anything: `[B, T, T]`."""
    found = amounts.mean(0)
    for own in range(2):
        mine = torch.from_numpy(fold == own).to(found.device)
        found[mine] = amounts[own, mine]
    return found * (found >= A_PAIR / SCALE[1])
