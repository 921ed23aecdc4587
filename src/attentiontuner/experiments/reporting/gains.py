"""What pairs gain against the same network without them, and where they gain nothing. Pure functions."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attentiontuner.evaluation.metrics import Interval, difference_interval, student_interval
from attentiontuner.experiments.planning.few_demonstrations import CONTROL
from attentiontuner.experiments.planning.recipe import STANDARD
from attentiontuner.experiments.planning.recipes import method_titles
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.reporting.tables import NOTHING, Grid
from attentiontuner.methods import get_method
from attentiontuner.tasks.task import all_tasks, get_task

SEEDS = 3
"""So many seeds of both make an interval over seeds; fewer one over episodes, which knows nothing of other seeds."""


@dataclass(frozen=True)
class Gain:
    """One experiment with pairs and without: records of the seeds that both have, seed by seed.

    `random`: the success of random pairs in percent, where there are records of that.
    """

    given: Sequence[Record]
    without: Sequence[Record]
    random: float | None

    @property
    def difference(self) -> float:
        """Points of success that pairs gain, on average over seeds."""
        return statistics.fmean(self._differences)

    @property
    def interval(self) -> Interval:
        """Around the difference: 90 % over seeds (Student's, of what each seed gains), or 95 % over episodes."""
        if len(self.given) >= SEEDS:
            half = student_interval(self._differences)
            return Interval(self.difference - half, self.difference + half)
        (one, played), (other, also) = _outcomes(self.given), _outcomes(self.without)
        low, high = difference_interval(one, played, other, also)
        return Interval(100 * low, 100 * high)

    @property
    def helps(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.interval.low > 0

    @property
    def _differences(self) -> list[float]:
        return [one.success - other.success for one, other in zip(self.given, self.without, strict=True)]


def gains(records: Sequence[Record], scale: str) -> list[Gain]:
    """Every experiment that has records with pairs and without, in the order of the tasks."""
    found: dict[tuple[str, str, str], dict[int, Record]] = {}
    for record in records:
        if record.cell.scale == scale:
            of = (record.cell.task, record.cell.method, record.cell.condition)
            found.setdefault(of, {})[record.cell.seed] = record
    compared = []
    for (task, method, condition), given in found.items():
        control = get_method(method).without_pairs if method in method_titles() else None
        without = found.get((task, control, condition), {}) if control else {}
        if seeds := sorted(given.keys() & without.keys()):
            random = found.get((task, method, _with_random_pairs(condition)))
            compared.append(Gain([given[s] for s in seeds], [without[s] for s in seeds], _mean(random)))
    order = {name: number for number, name in enumerate(all_tasks())}
    return sorted(compared, key=lambda gain: (order[gain.given[0].cell.task], gain.given[0].cell.facts.demonstrations))


def no_gain_grid(compared: Sequence[Gain]) -> Grid:
    """A line for each experiment in which pairs do not help."""
    body = []
    for gain in (gain for gain in compared if not gain.helps):
        cell, (low, high) = gain.given[0].cell, gain.interval
        changed = "" if cell.condition == STANDARD.name or cell.condition[4:].isdecimal() else f" ({cell.condition})"
        body.append(
            [
                get_task(cell.task).title,
                f"{cell.facts.demonstrations:,}",
                method_titles()[cell.method] + changed,
                *(f"{statistics.fmean(one.success for one in side):.1f}" for side in (gain.given, gain.without)),
                f"{_signed(gain.difference)} ({_signed(low)} to {_signed(high)})",
                NOTHING if gain.random is None else f"{gain.random:.1f}",
                " / ".join(f"{_mean_return(side):.3f}" for side in (gain.given, gain.without)),
                str(len(gain.given)),
            ]
        )
    numbers = ["With pairs", "Without", "Difference", "Random pairs", "Return with / without", "Seeds"]
    return Grid(["Task", "Demonstrations", "Method", *numbers], body)


def _with_random_pairs(condition: str) -> str:
    return CONTROL.removeprefix("-") if condition == STANDARD.name else condition + CONTROL


def _outcomes(records: Sequence[Record]) -> tuple[int, int]:
    """Successes and episodes of all of them together."""
    return sum(one.evaluation["successes"] for one in records), sum(one.evaluation["episodes"] for one in records)


def _mean(records: Mapping[int, Record] | None) -> float | None:
    return statistics.fmean(one.success for one in records.values()) if records else None


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}"  # never "-0.0"


def _mean_return(records: Sequence[Record]) -> float:
    return statistics.fmean(one.evaluation["mean_return"] for one in records)
