"""The report: figures, Markdown and the page that stands alone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from attentiontuner.cli import main
from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning.published import TASK_ORDER
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.reporting.head_maps import matrices_by_task, split_matrices
from attentiontuner.experiments.reporting.report import build_report, replace_tables
from tests.experiments.made import write_all

SMALL_TABLES = ["missing", "scaling", "split"]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    tasks = ("hallway", "searing-spotlights")
    write_all(folder, ["table1", *SMALL_TABLES], "smoke", keep=lambda cell: cell.task in tasks)
    return folder


@pytest.fixture(scope="module")
def report(records, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    film = out / "success-of-hallway.gif"
    Image.new("P", (8, 8)).save(film)
    build_report(records, out, [film], "A <title>", introduction="First words.", experts=False)
    return out


def test_several_seeds_have_median_and_mean_curves(tmp_path):
    write_all(tmp_path / "records", ["table1"], "small", keep=lambda cell: cell.task == "hallway")
    build_report(tmp_path / "records", tmp_path, experts=False)
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names >= {"curves-median.png", "curves-mean.png"}
    assert "curves.png" not in names


def test_recall_heads_have_their_tables_and_figures(tmp_path):
    write_all(tmp_path / "records", ["recall", "recall-ablation", "longer"], "smoke")
    build_report(tmp_path / "records", tmp_path, experts=False)
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names >= {"recall.png", "recall-curves.png", "recall-ablation.png", "longer.png"}
    text = (tmp_path / "README.md").read_text()
    assert "|  | Hallway | Ordering | Counting |" in text  # a table of many columns stands on its side
    assert "| Cells told nothing | 100.0 | 100.0 | 100.0 |" in text
    assert "| Without positions, 2× | 100.0 | 100.0 | 100.0 |" in text


def test_few_demonstrations_have_a_line_per_method(tmp_path):
    records = tmp_path / "records"
    write_all(records, ["few"], "small", keep=lambda cell: cell.task == "hallway" and cell.seed == 1)
    build_report(records, tmp_path, experts=False)
    text = (tmp_path / "README.md").read_text()
    lines, compared = text.split("## Where pairs do not help\n\n")
    assert lines.count("| Hallway | ") == 5
    assert compared.startswith("Of 10 experiments with records of the same network with pairs and without, those in")
    assert compared.count("| Hallway | ") == 10
    assert (
        "| Task | Demonstrations | Vanilla | AttentionTuner (paper) | Recall network, no pairs | Recall heads | "
        "Recall heads, random pairs |"
    ) in text
    assert "| Hallway | 1,000 | 99.0 (1 of 3 seeds) | " in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"few.png", "heads-hallway.png"}


def test_few_demonstrations_of_one_number_have_bars_and_curves_as_in_the_demo(tmp_path):
    kept = ("recall", "recall-vanilla")
    write_all(
        tmp_path / "records",
        ["few"],
        "demo",
        keep=lambda cell: (cell.task, cell.condition) == ("hallway", "few-100") and cell.method in kept,
    )
    build_report(tmp_path / "records", tmp_path, experts=False)
    assert "| Hallway | 100 | 98.7 | 98.7 |" in (tmp_path / "README.md").read_text()
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"few.png", "few-curves.png", "heads-hallway.png"}


def test_every_figure_is_there_and_is_a_picture(report):
    names = {path.name for path in (report / "figures").iterdir()}
    assert names == {
        "success.png",
        "curves.png",
        "missing.png",
        "scaling.png",
        "split.png",
        "heads-hallway.png",
        "heads-searing-spotlights.png",
        "success-of-hallway.gif",
    }
    for path in (report / "figures").glob("*.png"):
        colours = Image.open(path).convert("RGB").getcolors(2**20)
        assert colours is None or len(colours) > 20, path


def test_the_page_stands_alone(report):
    page = (report / "index.html").read_text()
    assert set(re.findall(r'(?:src|href)="([^"]{5})', page)) == {"data:"}
    assert "http" not in re.sub(r'src="data:[^"]*"|http-equiv', "", page)
    assert "default-src 'none'" in page
    assert page.count("<img ") == 8
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "First words." in page


def test_markdown_has_every_table_with_the_papers_numbers(report):
    text = (report / "README.md").read_text()
    for name in ("table1", *SMALL_TABLES, "value"):
        assert f"## {RECIPES[name].title}" in text
    assert "53.2 ± 28.3" in text
    assert "do not compare" in text
    assert "## Where the memory loss is applied" not in text
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (report / name).is_file()


def test_experts_of_ltmb_recall_something_and_splitting_loses_nothing():
    matrices = matrices_by_task(tuple(task for task in TASK_ORDER if task in ("hallway", "ordering", "counting")))
    assert list(matrices) == ["Hallway", "Ordering", "Counting"]
    for matrix in matrices.values():
        assert matrix.sum() > len(matrix) / 2  # more than the diagonal of the observations
        parts = split_matrices(matrix, 4).values()
        assert (sum(parts) == matrix).all()


def test_the_tables_of_a_page_are_replaced_and_nothing_else(records, tmp_path):
    page, other = tmp_path / "README.md", tmp_path / "other.md"
    few, results = (f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n" for name in ("few", "results"))
    page.write_text(f"# Top\n\n{few}\nMiddle\n\n{results}\nBottom\n")
    other.write_text(results)
    words = ["report", "--records", str(records), "--out", str(tmp_path / "out"), "--pages", str(page), str(other)]
    for _ in range(2):
        assert main(words) == 0
        text = page.read_text()
        assert re.search(r"\| Hallway \| \d", text), "of the scale there is"
        assert text.startswith("# Top\n\n<!-- few:begin -->\n| Demonstrations | 20 |")
        assert ".\n<!-- few:end -->\n\nMiddle\n\n<!-- results:begin -->\n| Task |" in text
        assert text.endswith("<!-- results:end -->\n\nBottom\n")
        assert "old" not in text
        assert other.read_text() in text
    for text, wrong in (
        ("no markers", "has no place for a table: give it the lines <!-- results:begin --> and"),
        (results + few + few, "one line <!-- few:begin --> and below it"),
        (results + "<!-- few:end --><!-- few:begin -->", "one line <!-- few:begin --> and below it"),
        (few + "<!-- results:end -->", "one line <!-- results:begin --> and below it"),
    ):
        page.write_text(text)
        with pytest.raises(UserError, match=wrong):
            replace_tables(page, [], "smoke")
        assert page.read_text() == text


def test_the_pages_of_this_package_have_room_for_the_tables():
    for page, name in (("README.md", "few"), ("docs/paper.md", "results"), ("docs/memories.md", "memories")):
        text = (Path(__file__).parents[2] / page).read_text()
        assert f"<!-- {name}:begin -->" in text


def test_records_of_other_experiments_are_left_out_and_named(tmp_path, capsys):
    write_all(tmp_path, ["table1"], "smoke", keep=lambda cell: cell.task == "hallway")
    changed, copied = sorted(tmp_path.glob("*/*.json"))
    value = json.loads(changed.read_text())
    value["config"]["model"]["layers"] = 7
    del value["seal"]
    changed.write_text(json.dumps(value))
    shutil.copy(copied, copied.with_name(copied.name.replace("hallway", "ordering")))
    build_report(tmp_path, tmp_path / "out", experts=False)
    assert "1 record at" in (tmp_path / "out" / "README.md").read_text()
    wrong_name, other = sorted(capsys.readouterr().err.strip().splitlines(), key=len)
    assert "is of another experiment (model.layers 7, not 3)" in wrong_name + other
    assert "ordering--vanilla" in wrong_name + other
    assert "is the record of table1-smoke/hallway--vanilla--standard--seed1" in wrong_name + other


def test_command_errors_are_one_line(tmp_path, capsys):
    assert main(["report", "--records", str(tmp_path / "nowhere")]) == 2
    assert main(["report", "--records", str(tmp_path)]) == 2
    assert main(["report", "--records", str(tmp_path), "--scale", "huge"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 3
    assert all(line.startswith("attentiontuner: ") for line in lines)


LARGER, OTHER = ("hallway", "vanilla", "demos-2x"), ("mortar-mayhem", "attentiontuner", "standard")


@pytest.mark.parametrize("scale", ["smoke", "paper"])
@pytest.mark.parametrize("kept", [{LARGER}, {OTHER}, {LARGER, OTHER}])
def test_a_report_of_a_few_cells_of_scaling(tmp_path, scale, kept):
    write_all(
        tmp_path / "records",
        ["scaling"],
        scale,
        keep=lambda cell: (cell.task, cell.method, cell.condition) in kept and cell.seed == 1,
    )
    build_report(tmp_path / "records", tmp_path, experts=False)
    assert (tmp_path / "figures" / "scaling.png").exists() == (LARGER in kept)
