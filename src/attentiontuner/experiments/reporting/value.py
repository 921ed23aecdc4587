"""What an annotation is worth (Appendix L): in demonstrations, and in a person's time. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.published import HumanTime
from attentiontuner.experiments.planning.recipe import VANILLA
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.planning.scales import get_scale
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.reporting.tables import NOTHING, Grid, entry_of
from attentiontuner.tasks.task import get_task

SOLVED = 99.5
"""Mean success in percent from which a task counts as solved: the paper's "100 %" is a rounded figure."""


@dataclass(frozen=True)
class Worth:
    """One task's sum.

    Attributes:
        annotated: annotated demonstrations with which AttentionTuner solves the task; None: not with what was run.
        demonstrations: demonstrations with which the vanilla model solves it; None likewise.
        times: seconds a person needs for one demonstration and for annotating one; `measured`: ours, else the paper's.
    """

    task: str
    annotated: float | None
    demonstrations: float | None
    times: HumanTime
    measured: bool

    @property
    def worth(self) -> float | None:
        """Demonstrations that one annotation replaces."""
        if self.annotated is None or self.demonstrations is None:
            return None
        return self.demonstrations / self.annotated

    @property
    def labour(self) -> float | None:
        """Time of collecting that many demonstrations over the time of annotating one."""
        return None if self.worth is None else self.worth * self.times.play / self.times.annotate


def worth_of(task: str, records: Sequence[Record], scale: str, measured: Mapping[str, HumanTime]) -> Worth:
    """The sum for one task, from the records of `missing` and `scaling`."""
    sizes = get_scale(scale).sizes(task)
    full = sizes.demos if sizes else get_task(task).demonstrations
    shares = {
        column.condition.config.get("annotated_fraction", 1.0): entry_of(
            RECIPES["missing"], task, column, records, scale
        )
        for column in RECIPES["missing"].columns
        if column.method != VANILLA.method
    }
    sets = {
        column.condition.demos: entry_of(RECIPES["scaling"], task, column, records, scale)
        for column in RECIPES["scaling"].columns
        if column.method == VANILLA.method
    }
    share = min((share for share, entry in shares.items() if entry.mean >= SOLVED), default=None)
    times = min((times for times, entry in sets.items() if entry.mean >= SOLVED), default=None)
    return Worth(
        task,
        None if share is None else share * full,
        None if times is None else times * full,
        measured.get(task, published.HUMAN_TIMES[task]),
        task in measured,
    )


def value_grid(records: Sequence[Record], scale: str, measured: Mapping[str, HumanTime] | None = None) -> Grid:
    """The table of Appendix L, ours and the paper's."""
    body = []
    for task in published.VALUES:
        ours, theirs = worth_of(task, records, scale, measured or {}), published.VALUES[task]
        source = "our timing" if ours.measured else f"the paper's timing ({published.HUMAN_TIMES_PLACE})"
        reached = [_number(ours.annotated), _number(ours.demonstrations), _number(ours.worth), _number(ours.labour)]
        body.append([get_task(task).title, "ours", *reached, source])
        body.append(
            ["", "paper", *(f"{value:,.0f}" for value in theirs), f"the paper's timing ({published.HUMAN_TIMES_PLACE})"]
        )
    head = ["Task", "", "Annotated", "Vanilla needs", "One annotation is worth", "Labour saved", "Times from"]
    return Grid(head, body)


def studio_times(folders: Sequence[Path]) -> dict[str, HumanTime]:
    """Measured seconds for ten demonstrations by task, from data sets that people played and annotated."""
    from attentiontuner.studio.times import times

    played: dict[str, list[float]] = {}
    annotated: dict[str, list[float]] = {}
    for folder in folders:
        task, rows = times(folder)
        for row in rows:
            if row.played:
                played.setdefault(task, []).append(row.playing_seconds / row.played)
            if row.annotated:
                annotated.setdefault(task, []).append(row.annotating_seconds / row.annotated)
    ten = published.HUMAN_TIME_DEMONSTRATIONS
    return {
        task: HumanTime(ten * sum(played[task]) / len(played[task]), ten * sum(values) / len(values))
        for task, values in annotated.items()
        if task in played
    }


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"
