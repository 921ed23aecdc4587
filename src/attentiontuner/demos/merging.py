"""What several annotators say, as the annotations of one more."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked
from attentiontuner.demos.annotations import (
    Annotation,
    annotators_of,
    check_annotator,
    read_annotations,
    read_shard_annotations,
    write_shard_annotations,
)
from attentiontuner.demos.pairs import MergeRule, check_rule
from attentiontuner.demos.store.manifest import LOCK, ShardEntry, read_manifest
from attentiontuner.demos.store.reader import EXPERT


@dataclass(frozen=True)
class Merged:
    """What `merge_annotators` made: annotated episodes, their pairs, and how many lines are new, other or gone."""

    episodes: int
    pairs: int
    changed: int


def merge_annotators(
    root: Path | str, annotators: str, name: str, rule: MergeRule = "union", overwrite: bool = False
) -> Merged:
    """Annotate the data set in `root` as `name` with what `annotators`, such as "anna,bob", say together.

    `PairTable.merge` explains the rules. Notes, flags and times stay with those who made them; `origins` says who has
    a pair. An episode that `name` has annotated otherwise is a `UserError` before anything is written, unless
    `overwrite`. Stopped at any moment, the same call goes on; done once, it changes nothing.
    """
    root = Path(root)
    read_manifest(root)  # a folder that is no data set is refused before a lock file is put there
    sources = annotators_of(root, annotators)
    if len(sources) < 2:
        raise UserError(f"only {sources[0]!r} is to be merged: name two annotators or more, such as anna,bob")
    if check_annotator(name) in sources:
        raise UserError(f"annotator {name!r} is one of those to be merged: give the result another name")
    if name == EXPERT:
        raise UserError(f"the labels of {EXPERT!r} belong to the scripted expert: give the result another name")
    check_rule(rule)
    with locked(root / LOCK):
        manifest = read_manifest(root)
        shards, listed = manifest.readable_shards(), manifest.annotations.get(name, ())
        present, merged = read_annotations(root, name), dict[int, Annotation]()
        for shard in shards:
            merged |= _merged(root, sources, shard, rule, present)
        if not merged:
            raise UserError(f"{root}: {' and '.join(sources)} have annotated nothing: there is nothing to merge")
        changed = {episode for episode in merged | present if merged.get(episode) != present.get(episode)}
        if (other := sorted(changed & present.keys())) and not overwrite:
            raise UserError(
                f"{root}: annotator {name!r} has annotated episode {other[0]} otherwise: give another name, or "
                "--overwrite it"
            )
        for shard in shards:
            episodes = range(shard.first, shard.end)
            lines = {episode: merged[episode] for episode in episodes if episode in merged}
            unlisted = lines and shard.index not in listed  # killed after the lines, before the manifest knew of them
            if unlisted or not changed.isdisjoint(episodes):
                write_shard_annotations(root, name, shard.index, lines)
    return Merged(len(merged), sum(len(annotation.pairs) for annotation in merged.values()), len(changed))


def _merged(
    root: Path, sources: tuple[str, ...], shard: ShardEntry, rule: MergeRule, present: Mapping[int, Annotation]
) -> dict[int, Annotation]:
    """The annotations of one shard, by episode; one that is `present` and says the same keeps its revision."""
    tables = [read_shard_annotations(root, source, shard).pairs for source in sources]
    table = tables[0].merge(*tables[1:], rule=rule)
    made = {}
    for row in table.annotated.nonzero()[0].tolist():
        having: dict[tuple[int, int], list[str]] = {(p, q): [] for p, q, _ in table.select([row])}
        for source, theirs in zip(sources, tables, strict=True):
            for p, q, _ in theirs.select([row]):
                having.get((p, q), []).append(source)
        origins: dict[str, set[tuple[int, int]]] = {}
        for pair, names in having.items():
            origins.setdefault(",".join(names), set()).add(pair)
        annotation = Annotation(table.select([row]), {who: frozenset(pairs) for who, pairs in origins.items()})
        before = present.get(shard.first + row)
        revision = before.revision if before else 0
        as_before = replace(annotation, revision=revision)
        made[shard.first + row] = as_before if as_before == before else replace(annotation, revision=revision + 1)
    return made
