"""Tables from records, and what an annotation is worth."""

from dataclasses import replace

import numpy as np
import pytest

from attentiontuner.experiments.planning.published import HumanTime
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.reporting.figures import few_lines, success_rows
from attentiontuner.experiments.reporting.tables import (
    Entry,
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
from attentiontuner.experiments.reporting.value import value_grid, worth_of
from tests.experiments.made import write_all


def test_an_entry_says_mean_interval_and_missing_seeds():
    assert Entry((100, 1, 1, 1, 1), 5, None).ours == "20.8 ± 42.2"
    assert Entry((100, 99), 5, None).ours == "100.0, 99.0 (2 of 5 seeds)"  # an interval of two would say nothing
    assert Entry((99.94,), 5, None).ours == "99.9 (1 of 5 seeds)"
    assert Entry((), 5, None).ours == "–"


@pytest.fixture
def records(tmp_path):
    return write_all(tmp_path, ["table1"], "paper", keep=lambda cell: cell.task in ("hallway", "counting"), epochs=3)


def test_table1_counts_its_own_seeds_and_stands_beside_the_paper(records):
    grid = result_grid(make_table(RECIPES["table1"], records, "paper"))
    row = next(place for place, line in enumerate(grid.body) if line[0] == "Hallway")
    # Seeds 3, 6 and 9 of ten have 99 %, the rest 7 %.
    assert grid.body[row][2].startswith("34.6 ± ")
    assert "seeds" not in grid.body[row][2]
    assert grid.body[row + 1] == ["", "paper", "53.2 ± 28.3", "99.9 ± 0.1"]
    assert ["Ordering", "ours", "–", "–"] in grid.body


def test_a_figure_of_many_columns_leaves_out_what_has_no_record(tmp_path):
    kept = {("hallway", "labels-200-few-2"), ("counting", "labels-1000-few-10")}
    records = write_all(tmp_path, ["sparse"], "paper", keep=lambda cell: (cell.task, cell.condition) in kept, epochs=3)
    panels = success_rows(make_table(RECIPES["sparse"], records, "paper")).axes
    assert [panel.get_title() for panel in panels] == ["Hallway", "Counting"]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["2 of 200", "10 of 1,000"]
    assert success_rows(make_table(RECIPES["sparse"], [], "paper")) is None


def test_other_tables_take_only_the_seeds_they_planned(records):
    entry = make_table(RECIPES["missing"], records, "paper").rows["hallway"]["0 %"]
    assert entry.values == (7.0, 7.0, 99.0, 7.0, 7.0)
    assert str(entry.published) == "42 ± 50.5"


def test_records_of_another_scale_do_not_count(records):
    assert not make_table(RECIPES["table1"], records, "small").played


def test_welch(records):
    body = {line[0]: line[1:] for line in welch_grid(make_table(RECIPES["table1"], records, "paper")).body}
    assert body["Hallway"][1] == "0.014"
    assert 0 < float(body["Hallway"][0]) < 0.05
    assert body["Ordering"] == ["–", "0.008"]


def test_the_table_of_a_page(records):
    text = page_table(records)
    assert "| Hallway | 34.6 ± " in text
    assert "| 53.2 ± 28.3 | 99.4 ± " in text
    assert "1,000 episodes a seed" in text
    assert "do not compare" in page_table(records, "small")


def test_recall_heads_stand_beside_table1_on_a_page(tmp_path):
    made = write_all(
        tmp_path, ["recall", "first-edition"], "paper", keep=lambda cell: cell.task == "counting", epochs=3
    )
    assert "| Counting | – | 6 ± 0.7 | 99.4 ± 0.5 | 6.5 ± 0.4 | 99.4 ± 0.5 |" in page_table(made)


@pytest.fixture
def few(tmp_path):
    def rate(cell):
        if cell.method == "recall" and "random" not in cell.condition:
            return min(1.0, cell.facts.demonstrations / 200 + 0.01 * cell.seed)
        return 0.02

    def keep(cell):
        return cell.task == "ordering" and (cell.seed < 3 or cell.condition in ("few-100", "few-300"))

    return write_all(tmp_path, ["few"], "paper", rate, keep, epochs=2)


def test_few_has_a_line_for_each_task_and_number_of_demonstrations(few):
    table = make_table(RECIPES["few"], few, "paper")
    grid = few_grid(table)
    assert [line[1] for line in grid.body] == ["20", "50", "100", "300", "1,000"] * 6
    body = {(line[0], line[1]): list(line[2:]) for line in grid.body}
    random = "2.0, 2.0 (2 of 3 seeds)"
    assert body["Ordering", "100"] == ["2.0 ± 0.0", "2.0 ± 0.0", "2.0 ± 0.0", "52.0 ± 1.7", random]
    assert body["Ordering", "20"][3] == "11.0, 12.0 (2 of 3 seeds)"
    assert body["Counting", "300"] == ["–"] * 5


def test_of_a_benchmark_what_has_records_is_shown_with_its_return(tmp_path):
    def keep(cell):
        return cell.task == "minigrid-memory-s9" and cell.method == "recall" and cell.condition == "few-300"

    made = write_all(tmp_path, ["minigrid-memory"], "paper", keep=keep, epochs=2)
    table = make_table(RECIPES["minigrid-memory"], made, "paper")
    assert [line[:2] for line in few_grid(table).body] == [["MiniGrid MemoryS9", "300"]]
    (line,) = return_grid(table, made).body
    assert line == ["MiniGrid MemoryS9", "300", f"{np.mean([one.evaluation['mean_return'] for one in made]):.3f}"]


def test_few_on_a_page_is_with_pairs_and_without(few):
    text = page_few(few)
    assert "| Demonstrations | 20 | 50 | 100 | 300 | 1,000 |" in text
    assert "| Ordering | 11.5 (2) / 2.0 (2) | 26.5 (2) / 2.0 (2) | 52.0 / 2.0 | 100.0 / 2.0 | " in text
    assert "Counting" not in text  # it has no record yet
    assert "mean of 3 seeds" in text
    assert "1,000 episodes a seed." in text


def test_memories_on_a_page_are_with_pairs_and_without(tmp_path):
    def rate(cell):
        return 0.9 if cell.method == "slots" else 0.5

    def keep(cell):
        return cell.task == "tmaze-300" and cell.method in ("slots", "slots-vanilla", "vanilla") and cell.seed < 3

    text = page_memories(write_all(tmp_path, ["memories"], "paper", rate, keep, epochs=2))
    assert "| Demonstrations | Hallway, 300 | Hallway, 1,000 | Counting, 300 |" in text
    nothing = "– / – | " * 4
    assert f"| Slots | {nothing}90.0 (2) / 50.0 (2) | 90.0 (2) / 50.0 (2) | – / –" in text
    assert f"| AttentionTuner | {nothing}– / 50.0 (2) |" in text


def test_every_seed_on_a_page_of_the_columns_and_tasks_that_have_records(tmp_path):
    def rate(cell):
        return {1: 0.9, 2: 0.5, 3: 1.0}[cell.seed]

    def keep(cell):
        return cell.task == "blink-count" and cell.condition == "few-300-products" and cell.method == "recall"

    text = page_seeds("robots", write_all(tmp_path, ["robots"], "paper", rate, keep, epochs=2))
    assert text.splitlines() == [
        *("|  | Blink-count |", "| --- | --- |", "| Recall heads, 300 | 90.0, 50.0, 100.0 |", ""),
        "Success in percent, seed by seed; 1,000 episodes a seed.",
    ]


def test_the_figure_of_few_has_its_own_ticks_and_one_legend(few):
    figure = few_lines(make_table(RECIPES["few"], few, "paper"))
    (axis,) = figure.axes
    assert axis.get_xscale() == "log"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["20", "50", "100", "300", "1,000"]
    lines = [line for line in axis.lines if len(line.get_xdata()) == 5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Vanilla", "AttentionTuner (paper)", "Recall network, no pairs", "Recall heads", "Recall heads, random pairs",
    ]  # fmt: skip
    *_, recall, random = lines
    assert recall.get_color() == random.get_color()
    assert (recall.get_linestyle(), random.get_linestyle()) == ("-", ":")
    assert len({line.get_color() for line in lines}) == 4
    assert list(recall.get_ydata()) == pytest.approx([11.5, 26.5, 52, 100, 100])
    assert few_lines(make_table(RECIPES["few"], [], "paper")) is None


def test_speed_is_the_median_epoch_at_which_the_test_actions_are_right(tmp_path):
    keep = lambda cell: cell.task == "hallway" and cell.method == "recall"  # noqa: E731
    made = write_all(tmp_path, ["recall"], "paper", keep=keep, epochs=4)
    curves = ([0.5, 0.99, 1, 1], [0.99, 1, 1, 1], [0.5, 0.98, 0.985, 0.99], [0.9, 0.99, 0.9, 0.9], [0.9, 0.9, 0.9, 0.9])
    taken = [replace(record, curves={"test_accuracy": list(curve)}) for record, curve in zip(made, curves, strict=True)]
    grid = speed_grid(taken, ("attentiontuner", "recall"))
    assert list(grid.head) == ["Task", "AttentionTuner", "Recall heads"]
    assert grid.body == [["Hallway", "–", "2 of 4, 0.0 min"]]  # half a second an epoch
    assert speed_grid(taken[-1:], ["recall"]).body == [["Hallway", "not in 4"]]


def test_html_is_escaped():
    from attentiontuner.experiments.reporting.tables import Grid

    assert "&lt;b&gt;" in Grid(["<b>"], [["1"]]).to_html()


def test_value_repeats_the_papers_sum(tmp_path):
    def rate(cell):
        if cell.method == "vanilla":
            return 1.0 if cell.demos >= {"mortar-mayhem": 16_000, "hallway": 10_000}[cell.task] else 0.3
        return (
            1.0
            if cell.config.get("annotated_fraction", 1) >= {"mortar-mayhem": 0.1, "hallway": 0.05}[cell.task]
            else 0.9
        )

    records = write_all(tmp_path, ["value"], "paper", rate, keep=lambda cell: cell.seed <= 2, epochs=3)
    mortar = worth_of("mortar-mayhem", records, "paper", {})
    assert (mortar.annotated, mortar.demonstrations, mortar.worth) == (400, 16_000, 40)
    assert mortar.labour == pytest.approx(15.8, abs=0.01)
    assert round(worth_of("hallway", records, "paper", {}).labour or 0, 1) == 14.4
    grid = value_grid(records, "paper", {"hallway": HumanTime(100, 200)})
    assert grid.body[2][:6] == ["Hallway", "ours", "250", "10,000", "40", "20"]
    assert grid.body[2][6] == "our timing"
    assert "paper" in grid.body[0][6]


def test_value_without_a_solution_says_so(tmp_path):
    records = write_all(tmp_path, ["value"], "paper", lambda cell: 0.5, keep=lambda cell: cell.seed == 1, epochs=3)
    assert value_grid(records, "paper").body[0][2:6] == ["–"] * 4
