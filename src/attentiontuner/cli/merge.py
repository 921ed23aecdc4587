"""`attentiontuner merge`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from tyro.conf import Positional, arg

from attentiontuner.core.wording import counted

if TYPE_CHECKING:
    from attentiontuner.demos.pairs import MergeRule


def merge(
    data: Positional[Path],
    /,
    annotators: Annotated[str, arg(metavar="NAME,NAME,...")],
    name: Annotated[str, arg(name="as", metavar="NAME")],
    rule: Annotated[str, arg(metavar="union|majority|all")] = "union",
    overwrite: bool = False,
) -> None:
    """Merge the labels of several annotators into those of a new one.

    Such as: attentiontuner merge data/mine --annotators anna,bob --as both

    Each demonstration is decided by those of them who annotated it; "nothing to remember" is a vote against every pair.
    A demonstration that none of them annotated stays unannotated. Their own labels are not touched.

    The same command again adds what they have annotated since; what they have changed needs --overwrite.

    Args:
        data: folder of the data set.
        annotators: whose labels, with commas between; `attentiontuner inspect` lists who there is.
        name: name of the new annotator, for `train --annotator` and the studio.
        rule: keep the pairs that one of them has (union), that more than half have (majority), or that all have (all).
        overwrite: replace what the new annotator has said so far, where it is something else.
    """
    from attentiontuner.demos.merging import merge_annotators

    made = merge_annotators(data, annotators, name, cast("MergeRule", rule), overwrite)
    episodes, pairs = counted(made.episodes, "episode", form=","), counted(made.pairs, "pair", form=",")
    change = f"{made.changed:,} written" if made.changed else "nothing to do"
    print(f"{data}: annotator {name} has {episodes} with {pairs} ({rule} of {annotators}); {change}")
