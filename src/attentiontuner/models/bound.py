"""How much of its past a policy keeps while it plays. Importing this needs no torch."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from attentiontuner.core.errors import UserError

KeepBy = Literal["score", "attention", "recent"]
Keeping = Literal[KeepBy, "all"]


class Asked(NamedTuple):
    """What is said of a policy's memory, as in `Bound`; None where nothing is; by `all` every step stays."""

    recent: int | None = None
    keep: int | None = None
    by: Keeping | None = None


NOTHING_SAID = Asked()


@dataclass(frozen=True)
class Bound:
    """A memory of `recent` + `keep` steps.

    Attributes:
        recent: the newest steps, the present one among them, all of which it holds.
        keep: places for steps that are older.
        by: which of these stay: those with the highest keep score, those of which most has been recalled so far, or the
            most recent.
    """

    recent: int
    keep: int
    by: KeepBy = "score"

    def __post_init__(self) -> None:
        if self.recent < 1 or self.keep < 0:
            raise UserError(f"a memory of {self.recent} recent and {self.keep} kept steps: give at least 1 and 0")
        if self.by not in get_args(KeepBy):
            raise UserError(f"keep by {self.by!r}: there are {', '.join(get_args(KeepBy))}")

    @classmethod
    def chosen(cls, asked: Asked, *, window: int | None, scores: bool) -> "Bound | None":
        """What is asked for; None: everything stays.

        What is not said is as the network was trained: in windows of `window` steps with as many carried over, and
        kept by score where it learned to `scores`. Trained on whole episodes it keeps everything.
        """
        if asked.by == "all" or (window is None and asked == NOTHING_SAID):
            if asked[:2] != (None, None):
                raise UserError("--keep-by all keeps every step: leave out --recent and --keep")
            return None
        recent, keep = (window if given is None else given for given in asked[:2])
        if recent is None or keep is None:
            raise UserError("the policy was not trained on windows: give both --recent and --keep")
        bound = cls(recent, keep, asked.by or ("score" if scores else "recent"))
        if bound.by == "score" and not scores:
            raise UserError("the policy has no keep score, which train --window teaches: --keep-by attention or recent")
        return bound

    @property
    def places(self) -> int:
        """Steps that it has room for."""
        return self.recent + self.keep
