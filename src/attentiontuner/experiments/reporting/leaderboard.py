"""The leaderboard: every policy that has a score or records, task by task, the best first. Pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from attentiontuner.core.wording import counted
from attentiontuner.experiments.planning.recipe import STANDARD
from attentiontuner.experiments.planning.recipes import method_titles
from attentiontuner.experiments.records import Record
from attentiontuner.experiments.reporting.tables import NOTHING, Grid
from attentiontuner.experiments.scores import EPISODES, Score
from attentiontuner.methods import get_method
from attentiontuner.tasks.task import all_tasks

FEW_OF_ALL = "few-"
"""How the conditions of records begin that have a number of demonstrations and no other change."""


@dataclass(frozen=True)
class Line:
    """One line: success in percent and return, means over `runs` that differ in their seeds."""

    task: str
    settings: str
    name: str
    demonstrations: int | None
    told: str
    success: float
    returned: float
    runs: int
    episodes: int
    by: str

    @property
    def cells(self) -> list[str]:
        """As text, without the task."""
        demonstrations = NOTHING if self.demonstrations is None else f"{self.demonstrations:,}"
        fewer = "" if self.episodes >= EPISODES else f" ({counted(self.episodes, 'episode')})"
        runs = f"{self.name}, {counted(self.runs, 'seed')}" if self.runs > 1 else self.name
        figures = [f"{self.success:.1f}{fewer}", f"{self.returned:.3f}"]
        return [runs, demonstrations, self.told or NOTHING, *figures, self.by or NOTHING]


def lines_of(scores: Sequence[Score], records: Sequence[Record]) -> list[Line]:
    """A line for each score, and one for all seeds of an experiment; by task, then by success and return."""
    order = {name: number for number, name in enumerate(all_tasks())}
    lines = [*_of_scores(scores), *_of_records(records)]
    return sorted(
        lines,
        key=lambda line: (
            order.get(line.task, len(order)),
            *(line.task, line.settings, -line.success, -line.returned, line.name),
        ),
    )


def leaderboard(lines: Sequence[Line]) -> Grid:
    """One table for all tasks."""
    tasks = all_tasks()
    body, before = [], ""
    for line in lines:
        title = tasks[line.task].title if line.task in tasks else line.task
        title = f"{title} ({line.settings})" if line.settings else title
        body.append(["" if title == before else title, *line.cells])
        before = title
    return Grid(["Task", "Policy", "Demonstrations", "Told", "Success in %", "Return", "By"], body)


def _of_scores(scores: Sequence[Score]) -> Iterator[Line]:
    for score in scores:
        known = all_tasks().get(score.task)
        own = {} if known is None else known.settings
        changed = {name: value for name, value in score.settings.items() if own.get(name) != value}
        yield Line(
            task=score.task,
            settings=", ".join(f"{name}={value}" for name, value in changed.items()),
            name=score.name,
            demonstrations=score.demonstrations,
            told=score.told,
            success=100 * score.evaluation["successes"] / score.evaluation["episodes"],
            returned=score.evaluation["mean_return"],
            runs=1,
            episodes=score.evaluation["episodes"],
            by=score.by,
        )


def _of_records(records: Sequence[Record]) -> Iterator[Line]:
    """Of the paper's settings alone, and of experiments that change nothing but the number of demonstrations."""
    alike: dict[tuple[str, str, str, int], list[Record]] = {}
    for record in records:
        cell = record.cell
        plain = cell.condition == STANDARD.name or cell.condition.removeprefix(FEW_OF_ALL).isdecimal()
        if cell.scale == "paper" and plain and cell.method in method_titles():
            key = (cell.task, cell.method, cell.condition, int(cell.config.get("demos", cell.demos)))
            alike.setdefault(key, []).append(record)
    for (task, method, _, demonstrations), seeds in alike.items():
        yield Line(
            task=task,
            settings="",
            name=method_titles()[method],
            demonstrations=demonstrations,
            told="pairs" if get_method(method).pairs else "",
            success=fmean(record.success for record in seeds),
            returned=fmean(record.evaluation["mean_return"] for record in seeds),
            runs=len(seeds),
            episodes=min(record.cell.episodes for record in seeds),
            by="AttentionTuner",
        )
