"""Tables from records: our numbers, how many seeds are behind them, and the paper's beside. Pure functions."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attentiontuner.core.wording import counted
from attentiontuner.evaluation.metrics import over_seeds, welch_test
from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.cells import planned_seeds
from attentiontuner.experiments.planning.few_demonstrations import FEW, MEMORY_DEMONSTRATIONS
from attentiontuner.experiments.planning.published import Published
from attentiontuner.experiments.planning.recall_columns import FIRST_EDITION
from attentiontuner.experiments.planning.recipe import (
    BOUNDED,
    BOUNDED_NO_PAIRS,
    NO_PAIRS,
    RECALL,
    TUNER,
    VANILLA,
    Column,
    Recipe,
)
from attentiontuner.experiments.planning.recipes import BENCHMARKS, RECIPES, method_titles
from attentiontuner.experiments.planning.scales import get_scale
from attentiontuner.experiments.records import Record
from attentiontuner.tasks.task import get_task
from attentiontuner.viz import page

NOTHING = "–"


@dataclass(frozen=True)
class Entry:
    """One entry: success rates in percent by seed, how many seeds were planned, and what the paper has."""

    values: tuple[float, ...]
    planned: int
    published: Published | None

    @property
    def mean(self) -> float:
        return over_seeds(self.values).mean if self.values else math.nan

    @property
    def half_width(self) -> float:
        """Of the 90 % interval over seeds; nan below three seeds, of which it would say nothing."""
        return over_seeds(self.values).half_width if len(self.values) > 2 else math.nan

    @property
    def ours(self) -> str:
        """`99.9 ± 0.1`, or of two seeds both; with the number of seeds where it is below the plan."""
        if not self.values:
            return NOTHING
        count = len(self.values)
        text = f"{self.mean:.1f} ± {self.half_width:.1f}" if count > 2 else ", ".join(f"{v:.1f}" for v in self.values)
        return text if count >= self.planned else f"{text} ({count} of {counted(self.planned, 'seed')})"

    @property
    def theirs(self) -> str:
        return NOTHING if self.published is None else str(self.published)


@dataclass(frozen=True)
class Table:
    """A recipe's table: rows by task, entries by column title."""

    recipe: Recipe
    scale: str
    rows: Mapping[str, Mapping[str, Entry]]

    @property
    def played(self) -> list[str]:
        """The tasks that have a record."""
        return [task for task, row in self.rows.items() if any(entry.values for entry in row.values())]


@dataclass(frozen=True)
class Grid:
    """A table of texts, ready to be written."""

    head: Sequence[str]
    body: Sequence[Sequence[str]]

    def to_markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.body]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def to_html(self) -> str:
        return page.table(self.head, self.body)


def entry_of(recipe: Recipe, task: str, column: Column, records: Sequence[Record], scale: str) -> Entry:
    """The entry of one task and column from all records."""
    seeds = planned_seeds(recipe, task, column.method, get_scale(scale))
    wanted = (scale, task, column.method, column.condition.name)
    found = {
        record.cell.seed: record.success_at(column.longer)
        for record in records
        if (record.cell.scale, record.cell.task, record.cell.method, record.cell.condition) == wanted
        and record.cell.seed in seeds
    }
    theirs = published.published(recipe.name, task, column.title)
    values = (found[seed] for seed in sorted(found))
    return Entry(tuple(value for value in values if value is not None), len(seeds), theirs)


def make_table(recipe: Recipe, records: Sequence[Record], scale: str) -> Table:
    """The table of a recipe. The paper's scale shows all of it, others and benchmarks only tasks and columns that have
    records."""
    rows = {
        task: {column.title: entry_of(recipe, task, column, records, scale) for column in recipe.columns}
        for task in recipe.tasks
    }
    whole = Table(recipe, scale, rows)
    if scale == "paper" and recipe.name not in BENCHMARKS:
        return whole
    rows = {task: rows[task] for task in whole.played}
    columns = [column for column in recipe.columns if any(row[column.title].values for row in rows.values())]
    return Table(replace(recipe, columns=columns), scale, rows)


MANY_COLUMNS = 7
"""With more columns than this a table stands on its side."""


def result_grid(table: Table) -> Grid:
    """One line per task, ours over the paper's; where there are many columns, one line per column."""
    titles = [column.title for column in table.recipe.columns]
    if len(titles) > MANY_COLUMNS:
        return Grid(
            ["", *(get_task(task).title for task in table.rows)],
            [[title, *(row[title].ours for row in table.rows.values())] for title in titles],
        )
    head = ["Task", "", *titles]
    body = []
    for task, row in table.rows.items():
        body.append([get_task(task).title, "ours", *(row[title].ours for title in titles)])
        if any(row[title].published for title in titles):
            body.append(["", "paper", *(row[title].theirs for title in titles)])
    return Grid(head, body)


def by_line(table: Table) -> dict[str, dict[int, Column]]:
    """The columns of the recipe `few` by line, and in each by number of demonstrations."""
    lines: dict[str, dict[int, Column]] = {}
    for column in table.recipe.columns:
        lines.setdefault(column.line, {})[column.condition.config["demos"]] = column
    return lines


def sizes_of(table: Table) -> list[int]:
    """The numbers of demonstrations that its columns have."""
    return sorted({size for columns in by_line(table).values() for size in columns})


def return_grid(table: Table, records: Sequence[Record]) -> Grid:
    """As `few_grid`, with the mean return in place of success: over episodes, then over seeds."""
    returns: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        if record.cell.scale == table.scale:
            of = (record.cell.task, record.cell.method, record.cell.condition)
            returns.setdefault(of, []).append(float(record.evaluation["mean_return"]))
    lines, body = by_line(table), []
    for task in table.rows:
        for size in sizes_of(table):
            columns = [line.get(size) for line in lines.values()]
            found = [returns.get((task, one.method, one.condition.name)) if one else None for one in columns]
            if any(found):
                texts = [f"{statistics.fmean(values):.3f}" if values else NOTHING for values in found]
                body.append([get_task(task).title, f"{size:,}", *texts])
    return Grid(["Task", "Demonstrations", *lines], body)


def few_grid(table: Table) -> Grid:
    """One line per task and number of demonstrations, one column per method."""
    lines, sizes = by_line(table), sizes_of(table)
    body = []
    for task, row in table.rows.items():
        for size in sizes:
            entries = [row[columns[size].title] if size in columns else None for columns in lines.values()]
            whole = table.scale == "paper" and table.recipe.name not in BENCHMARKS
            if whole or any(entry and entry.values for entry in entries):
                texts = [NOTHING if entry is None else entry.ours for entry in entries]
                body.append([get_task(task).title, f"{size:,}", *texts])
    return Grid(["Task", "Demonstrations", *lines], body)


def welch_grid(table: Table) -> Grid:
    """Welch's two-sided p-value of the paper's two methods by task, ours (from three seeds of both) and the paper's."""
    body = []
    for task, row in table.rows.items():
        both = row[TUNER.title].values, row[VANILLA.title].values
        ours = _p_value(welch_test(*both)) if min(map(len, both)) > 2 else NOTHING
        body.append([get_task(task).title, ours, f"{published.WELCH_P[task]:.3f}"])
    return Grid(["Task", "p, ours", "p, paper"], body)


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


NEARLY_ALL = 0.99
"""The share of test actions that has to be right for a method to have learned a task, in `speed_grid`."""


def speed_grid(records: Sequence[Record], methods: Sequence[str]) -> Grid:
    """By task and method, the epoch by which 99 % of the test actions are right and the minutes of training until then,
    medians over seeds: `149 of 300, 2.1 min`."""
    body = []
    for task in published.TASK_ORDER:
        alike = [record for record in records if (record.cell.task, record.cell.condition) == (task, "standard")]
        texts = [_speed([record for record in alike if record.cell.method == method]) for method in methods]
        if any(text != NOTHING for text in texts):
            body.append([get_task(task).title, *texts])
    return Grid(["Task", *(method_titles()[method] for method in methods)], body)


def _speed(records: Sequence[Record]) -> str:
    if not records:
        return NOTHING
    epochs, minutes = [], []
    for record in records:
        curve = zip(record.curve_epochs, record.curves.get("test_accuracy", []), strict=False)
        first = next((epoch for epoch, share in curve if share and share >= NEARLY_ALL), math.inf)
        epochs.append(first)
        minutes.append(first * record.seconds["train"] / record.cell.epochs / 60)
    if math.isinf(statistics.median(epochs)):
        return f"not in {records[0].cell.epochs}"
    return f"{statistics.median(epochs):g} of {records[0].cell.epochs}, {statistics.median(minutes):.1f} min"


def page_table(records: Sequence[Record], scale: str = "paper") -> str:
    """Success rates of table 1 in Markdown, the paper's numbers and those of recall heads beside them, seeds counted:
    for a page."""
    table, recall = (make_table(RECIPES[name], records, scale) for name in ("table1", "first-edition"))
    titles = [column.title for column in table.recipe.columns]
    beyond = FIRST_EDITION.title
    head = ["Task", *(part for title in titles for part in (title, "paper")), f"{RECALL.title}, first edition"]
    body = []
    for task, row in table.rows.items():
        cells = [part for title in titles for part in (row[title].ours, row[title].theirs)]
        also = recall.rows.get(task, {}).get(beyond)
        body.append([get_task(task).title, *cells, also.ours if also else NOTHING])
    note = "Success in percent, mean ± half width of the 90 % interval over seeds, or both of two seeds"
    return _with_note(Grid(head, body), note, records, scale)


def page_few(records: Sequence[Record], scale: str = "paper") -> str:
    """Mean success of recall heads with pairs / without by task and number of demonstrations, in Markdown: for a
    page. Tasks that have no record yet are left out."""
    recipe = RECIPES["few"]
    lines = by_line(make_table(recipe, [], "paper"))
    body = []
    for task in recipe.tasks:
        texts = []
        for size in FEW:
            columns = (lines[line.title][size] for line in (RECALL, NO_PAIRS))
            texts.append(" / ".join(_mean(entry_of(recipe, task, column, records, scale)) for column in columns))
        if any(text != f"{NOTHING} / {NOTHING}" for text in texts):
            body.append([get_task(task).title, *texts])
    head = ["Demonstrations", *(f"{size:,}" for size in FEW)]
    seeds = counted(min(recipe.seeds, get_scale(scale).seeds), "seed")
    note = f"Success in percent, the same network with pairs / without: mean of {seeds}, or of as many as brackets say"
    return _with_note(Grid(head, body), note, records, scale)


def page_memories(records: Sequence[Record], scale: str = "paper") -> str:
    """Mean success of every memory with pairs / without by task and number of demonstrations, in Markdown: for a
    page."""
    recipe = RECIPES["memories"]
    lines = by_line(make_table(recipe, [], "paper"))
    both = [*zip(BOUNDED, BOUNDED_NO_PAIRS, strict=True), (RECALL, NO_PAIRS), (TUNER, VANILLA)]
    head, body = ["Demonstrations"], [[told.title] for told, _ in both]
    for task in recipe.tasks:
        for size in MEMORY_DEMONSTRATIONS:
            head.append(f"{get_task(task).title}, {size:,}")
            for texts, line in zip(body, both, strict=True):
                entries = (entry_of(recipe, task, lines[one.title][size], records, scale) for one in line)
                texts.append(" / ".join(_mean(entry) for entry in entries))
    seeds = counted(min(recipe.seeds, get_scale(scale).seeds), "seed")
    note = f"Success in percent with pairs / without: mean of {seeds}, or of as many as brackets say"
    return _with_note(Grid(head, body), note, records, scale)


def page_seeds(name: str, records: Sequence[Record], scale: str = "paper") -> str:
    """Success of every seed of a recipe by column and task, in Markdown: for a page. What has no record yet is left
    out."""
    table = make_table(RECIPES[name], records, scale)
    rows = [table.rows[task] for task in table.played]
    body = [
        [column.title, *(", ".join(f"{value:.1f}" for value in row[column.title].values) or NOTHING for row in rows)]
        for column in table.recipe.columns
        if any(row[column.title].values for row in rows)
    ]
    head = ["", *(get_task(task).title for task in table.played)]
    return _with_note(Grid(head, body), "Success in percent, seed by seed", records, scale)


def _mean(entry: Entry) -> str:
    """`99.9`, with the number of seeds where it is below the plan."""
    if not entry.values:
        return NOTHING
    return f"{entry.mean:.1f}" + (f" ({len(entry.values)})" if len(entry.values) < entry.planned else "")


def _with_note(grid: Grid, note: str, records: Sequence[Record], scale: str) -> str:
    """A table of the README, and below it what its numbers are."""
    episodes = sorted({record.cell.episodes for record in records if record.cell.scale == scale})
    if episodes:
        note += "; " + " or ".join(f"{count:,}" for count in episodes) + " episodes a seed"
    if scale != "paper":
        note += f". Scale {scale}: smaller than the paper's experiments, so the numbers do not compare"
    return grid.to_markdown() + f"\n\n{note}.\n"
