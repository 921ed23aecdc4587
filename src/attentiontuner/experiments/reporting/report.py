"""The report: every table next to the paper's numbers and every figure, as Markdown and as one HTML page.

OUT/README.md          tables and links to the figures
OUT/figures/*.png
OUT/index.html         everything in one file; loads nothing from elsewhere
"""

import html
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import write_bytes, write_text
from attentiontuner.core.wording import counted
from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.cells import all_cells
from attentiontuner.experiments.planning.few_demonstrations import RANDOM_PAIRS
from attentiontuner.experiments.planning.published import HumanTime
from attentiontuner.experiments.planning.recipe import RECALL, TUNER, Recipe
from attentiontuner.experiments.planning.recipes import BENCHMARKS, BY_DEMONSTRATIONS, RECIPES, method_titles
from attentiontuner.experiments.planning.scales import SCALES
from attentiontuner.experiments.records import Record, difference_from, read_records, record_path
from attentiontuner.experiments.reporting.figures import (
    few_lines,
    longer_lines,
    scaling_lines,
    success_bars,
    success_by_task,
    success_rows,
)
from attentiontuner.experiments.reporting.gains import gains, no_gain_grid
from attentiontuner.experiments.reporting.head_maps import (
    expert_heatmaps,
    learned_heatmaps,
    matrices_by_task,
    split_matrices,
)
from attentiontuner.experiments.reporting.learning_curves import learning_curves
from attentiontuner.experiments.reporting.styles import to_png
from attentiontuner.experiments.reporting.tables import (
    MANY_COLUMNS,
    Grid,
    Table,
    by_line,
    few_grid,
    make_table,
    page_few,
    page_memories,
    page_seeds,
    page_table,
    result_grid,
    return_grid,
    speed_grid,
    welch_grid,
)
from attentiontuner.experiments.reporting.value import value_grid
from attentiontuner.tasks.task import get_task
from attentiontuner.viz.page import data_url, page

PAGE_TABLES: dict[str, Callable[[Sequence[Record], str], str]] = {
    **{"results": page_table, "few": page_few, "memories": page_memories},
    **{name: partial(page_seeds, name) for name in ("robots", "robots-camera", "sloppy", "sparse", "recall-ablation")},
}
"""Tables that stand in a page, such as the README, between the lines `<!-- NAME:begin -->` and `<!-- NAME:end -->`."""

SHOWN_HEADS = ("standard", "few-100")
"""Conditions whose attention is shown: of each task the first it has records of."""

TITLE = "AttentionTuner: results"


@dataclass
class Section:
    """A part of the report: texts, tables, then figures (file name → PNG or GIF, with a caption)."""

    title: str
    texts: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    pictures: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    def add(self, name: str, figure: Figure | None, caption: str) -> None:
        """Add a figure, if there is one."""
        if figure is not None:
            self.pictures[f"{name}.png"] = to_png(figure), caption


def build_report(
    records_dir: Path,
    out_dir: Path,
    films: Sequence[Path] = (),
    title: str = TITLE,
    *,
    scale: str | None = None,
    times: Mapping[str, HumanTime] | None = None,
    introduction: str = "",
    experts: bool = True,
    pages: Sequence[Path] = (),
) -> Path:
    """Write the report of the records in `records_dir` and return the path of the HTML page.

    Args:
        records_dir: folder of the records. out_dir: where the report goes.
        films: recall films (GIF, PNG or MP4) to embed. title: of the page.
        scale: whose records are shown; by default the largest scale there is.
        times: measured seconds for ten demonstrations by task, in place of the paper's (see `value.studio_times`).
        introduction: a paragraph above everything.
        experts: draw the experts' matrices, for which an episode of each task is played now.
        pages: Markdown files whose tables are replaced too (`PAGE_TABLES`).
    """
    every = _usable_records(records_dir)
    scale = scale or largest_scale(every)
    records = [record for record in every if record.cell.scale == scale]
    if not records:
        raise UserError(
            f"{records_dir} has no records{f' of scale {scale}' if every else ''}: run `attentiontuner reproduce`"
        )
    sections = [_overview(records, scale, introduction)]
    if films:
        sections.append(_films(films))
    sections += _recipe_sections(records, scale)
    sections.append(_no_gain_section(records, scale))
    sections.append(_value_section(records, scale, times))
    sections += _attention_sections(records, experts)
    sections = [section for section in sections if section.texts or section.grids or section.pictures]
    for section in sections:
        for name, (content, _) in section.pictures.items():
            write_bytes(out_dir / "figures" / name, content)
    write_text(out_dir / "README.md", to_markdown(title, sections))
    write_text(out_dir / "index.html", to_html(title, sections))
    for path in pages:
        replace_tables(path, records, scale)
    return out_dir / "index.html"


def largest_scale(records: Sequence[Record]) -> str:
    """The largest scale that has records."""
    there = {record.cell.scale for record in records}
    return next((name for name in reversed(SCALES) if name in there), "paper")


def replace_tables(path: Path, records: Sequence[Record], scale: str) -> None:
    """Put tables between their marker lines of a page, which has those of one or more; nothing else in it changes."""
    text, marked = path.read_text(encoding="utf-8"), 0
    for name, table in PAGE_TABLES.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if not text.count(begin) and not text.count(end):
            continue
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise UserError(f"{path} needs one line {begin} and below it one line {end}, for a table between them")
        before, rest = text.split(begin)
        after = rest.split(end)[-1]
        text, marked = f"{before}{begin}\n{table(records, scale)}{end}{after}", marked + 1
    if not marked:
        lines = " or ".join(f"<!-- {name}:begin --> and <!-- {name}:end -->" for name in PAGE_TABLES)
        raise UserError(f"{path} has no place for a table: give it the lines {lines}")
    write_text(path, text)


def _usable_records(folder: Path) -> list[Record]:
    """The records in `folder`, without those of other experiments than the recipes have under their names."""
    every = read_records(folder)
    cells = {
        (cell.folder, cell.name): cell
        for recipe in RECIPES.values()
        for scale in {record.cell.scale for record in every}
        for cell in all_cells(recipe, scale)
    }
    usable = []
    for record in every:
        cell = cells.get((record.cell.folder, record.cell.name))
        difference = "" if cell is None else difference_from(record, cell)
        if difference:
            path = record_path(folder, record.cell)
            print(f"attentiontuner: left out: {path} is of another experiment ({difference})", file=sys.stderr)
        else:
            usable.append(record)
    return usable


# --- sections --------------------------------------------------------------------------------------------------------


def _overview(records: Sequence[Record], scale: str, introduction: str) -> Section:
    devices = " and ".join(sorted({record.device for record in records}))
    revisions = ", ".join(sorted({(record.revision or "unknown")[:13] for record in records}))
    episodes = ", ".join(sorted({f"{record.cell.episodes:,}" for record in records}))
    hours = sum(record.seconds["train"] + record.seconds["evaluate"] for record in records) / 3600
    facts = (
        f"{counted(len(records), 'record')} at scale {scale} ({SCALES[scale].about}); "
        f"{episodes} evaluation episodes each; {hours:.1f} hours of training and evaluation on {devices}; "
        f"git revision {revisions}."
    )
    rule = (
        "Success rates in percent: mean ± half width of Student's 90 % interval over training seeds, or both values of "
        "two seeds. An entry with fewer seeds than planned says how many it has. The paper's numbers are those of "
        f"“{published.TITLE}”."
    )
    warning = "At this scale tasks, models and data are smaller than the paper's, so the two numbers do not compare."
    texts = [introduction] if introduction else []
    return Section("", [*texts, facts, rule, *([] if scale == "paper" else [warning])])


def _films(films: Sequence[Path]) -> Section:
    section = Section("What the policy recalls", ["Beside each frame: the past frames its supervised heads attend to."])
    for film in films:
        if not film.is_file():
            raise UserError(f"there is no film {film}")
        section.pictures[film.name] = film.read_bytes(), film.stem.replace("-", " ").replace("_", " ")
    return section


DOTS = "Bars: mean success over seeds; dots: the seeds; 90 % intervals of three seeds or more; –: no record yet"
"""What is said below bars."""


def _recipe_sections(records: Sequence[Record], scale: str) -> list[Section]:
    sections = []
    for recipe in RECIPES.values():
        table, own = make_table(recipe, records, scale), [one for one in records if one.cell.home == recipe.name]
        if own and table.played:
            sections.append(_recipe_section(recipe, table, own, records))
    return sections


def _recipe_section(recipe: Recipe, table: Table, own: Sequence[Record], records: Sequence[Record]) -> Section:
    """The section of a recipe, whose `own` records are some of all."""
    name, diamonds = recipe.name, "; diamonds: the paper" if table.scale == "paper" else ""
    if name in BY_DEMONSTRATIONS:
        return _section_by_demonstrations(recipe, table, records)
    section = Section(recipe.title, grids=[result_grid(table)])
    if name == "table1":
        if table.scale == "paper":
            section.grids.append(welch_grid(table))
            section.texts.append(
                f"Below: Welch's two-sided test of the two methods, ours from three seeds of both "
                f"(paper: {published.WELCH_PLACE})."
            )
        section.add("success", success_by_task(table), f"{DOTS}{diamonds}.")
        _curves(section, own, "curves")
    elif name == "recall":
        section.add(name, success_by_task(table), f"{DOTS}.")
        section.grids.append(speed_grid(records, (TUNER.method, RECALL.method)))
        section.texts.append(
            "Second table: the epoch by which 99 % of the test actions are right, of how many, and minutes of "
            "training until then; medians over seeds. Several runs shared a GPU, so minutes are only a guide."
        )
        _curves(section, own, "recall-curves")
    elif name == "scaling":
        section.add(name, scaling_lines(table), "Vanilla success with 1×, 2×, 4× demonstrations.")
    elif name == "longer":
        caption = "Success in longer worlds: mean over seeds, 90 % intervals of three seeds or more."
        section.add(name, longer_lines(table), caption)
    else:
        many = len(table.recipe.columns) > MANY_COLUMNS
        has_published = any(entry.published for row in table.rows.values() for entry in row.values())
        caption = f"{recipe.title}. {DOTS}{diamonds if has_published and not many else ''}."
        section.add(name, success_rows(table) if many else success_bars(table), caption)
    return section


def _section_by_demonstrations(recipe: Recipe, table: Table, records: Sequence[Record]) -> Section:
    section, many = Section(recipe.title, grids=[few_grid(table)]), recipe.name in BENCHMARKS
    if many:
        section.grids.append(return_grid(table, records))
        section.texts.append("First table: success; second: mean return. Tasks without a record are left out.")
    if any(len(columns) > 1 for columns in by_line(table).values()):
        caption = "Success against demonstrations: lines through the means over seeds; small dots: the seeds."
        section.add(recipe.name, few_lines(table), caption)
    elif not many:
        section.add(recipe.name, success_by_task(table), f"{DOTS}.")
        given = [column.condition.name for column in recipe.columns if column.line != RANDOM_PAIRS]
        _curves(section, [record for record in records if record.cell.condition in given], f"{recipe.name}-curves")
    return section


def _curves(section: Section, records: Sequence[Record], name: str) -> None:
    above = "training loss above, test accuracy of actions below"
    if all(record.cell.seed == records[0].cell.seed for record in records):
        one = learning_curves(records, published.TASK_ORDER, "median")
        section.add(name, one, f"Learning curves of one seed: {above}.")
        return
    median, mean = (learning_curves(records, published.TASK_ORDER, spread) for spread in ("median", "mean"))
    section.add(f"{name}-median", median, f"Median learning curves with interquartile range: {above}.")
    section.add(f"{name}-mean", mean, f"Mean learning curves with 90 % intervals: {above}.")


def _value_section(records: Sequence[Record], scale: str, times: Mapping[str, HumanTime] | None) -> Section:
    if not any(record.cell.home in RECIPES["value"].includes for record in records):
        return Section("")
    text = (
        "Annotated: demonstrations that have to be annotated for 100 % (rounded). Vanilla needs: demonstrations "
        "without annotation for the same. Their ratio is what one annotation is worth; with the time a person takes "
        "for either, it says what is saved."
    )
    return Section(RECIPES["value"].title, [text], [value_grid(records, scale, times)])


def _no_gain_section(records: Sequence[Record], scale: str) -> Section:
    compared = gains(records, scale)
    if not compared:
        return Section("")
    grid = no_gain_grid(compared)
    text = (
        f"Of {counted(len(compared), 'experiment')} with records of the same network with pairs and without, those in "
        "which pairs gain no more than chance may: the interval around the difference, in points of success, is not "
        "above 0. Of three seeds or more it is Student's 90 % interval of what each seed gains, of fewer the 95 % "
        "interval over episodes." + ("" if grid.body else " There is none.")
    )
    return Section("Where pairs do not help", [text], [grid] if grid.body else [])


def _attention_sections(records: Sequence[Record], experts: bool) -> list[Section]:
    learned = Section("What the heads learned")
    for task in published.TASK_ORDER:
        shown = _with_heads(records, task)
        chosen: dict[str, Record] = {}
        for method, title in method_titles().items():
            alike = [record for record in shown if record.cell.method == method]
            if alike:
                first = min(alike, key=lambda record: record.cell.seed)
                chosen[f"{title}, seed {first.cell.seed}"] = first
        if chosen:
            caption = (
                f"{get_task(task).title}: attention of all heads on one test demonstration (square root of the weight; "
                "rows attend, columns are attended to)."
            )
            learned.add(f"heads-{task}", learned_heatmaps(chosen), caption)
    if not experts:
        return [learned]
    section = Section("What the experts recall")
    matrices = matrices_by_task(published.TASK_ORDER)
    section.add("experts", expert_heatmaps(matrices), "The expert's E on one demonstration of each task.")
    searing = get_task(RECIPES["split"].tasks[0]).title
    if searing in matrices:
        parts = split_matrices(matrices[searing], 4)
        section.add("experts-split", expert_heatmaps(parts, columns=4), f"{searing}: E split over four heads.")
    return [learned, section]


def _with_heads(records: Sequence[Record], task: str) -> list[Record]:
    """The records of a task whose attention is shown."""
    of_task = [record for record in records if record.cell.task == task and record.attention]
    for condition in SHOWN_HEADS:
        if found := [record for record in of_task if record.cell.condition == condition]:
            return found
    return []


# --- writing ---------------------------------------------------------------------------------------------------------


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report with links to the figures."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}"] if section.title else []
        parts += section.texts
        parts += [grid.to_markdown() for grid in section.grids]
        parts += [f"![{caption}](figures/{name})" for name, (_, caption) in section.pictures.items()]
    return "\n\n".join(parts) + "\n"


def to_html(title: str, sections: Sequence[Section]) -> str:
    """The report as one page with everything inside."""
    parts = []
    for section in sections:
        body = [f"<h2>{html.escape(section.title)}</h2>"] if section.title else []
        body += [f"<p>{html.escape(text)}</p>" for text in section.texts]
        body += [f'<div class="wide">{grid.to_html()}</div>' for grid in section.grids]
        body += [_figure_html(name, content, caption) for name, (content, caption) in section.pictures.items()]
        parts.append("<section>\n" + "\n".join(body) + "\n</section>")
    return page(title, "\n".join(parts))


KINDS = {".png": "image/png", ".gif": "image/gif", ".webp": "image/webp", ".mp4": "video/mp4"}


def _figure_html(name: str, content: bytes, caption: str) -> str:
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in KINDS:
        raise UserError(f"{name} cannot be shown on a page: films are {', '.join(KINDS)}")
    data = data_url(KINDS[suffix], content)
    text = html.escape(caption)
    shown = (
        f'<video controls loop muted src="{data}"></video>' if suffix == ".mp4" else f'<img alt="{text}" src="{data}">'
    )
    return f"<figure>{shown}<figcaption>{text}</figcaption></figure>"
