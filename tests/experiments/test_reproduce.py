"""`reproduce` end to end at smoke scale: every recipe, resuming, budgets, failures."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch

from attentiontuner.cli import main
from attentiontuner.experiments.planning.cells import Cell, expand
from attentiontuner.experiments.planning.recipe import Recipe
from attentiontuner.experiments.planning.recipes import RECIPES, get_recipe
from attentiontuner.experiments.records import finished, read_records, record_path, state_of
from attentiontuner.experiments.reporting.report import build_report
from attentiontuner.experiments.running.datasets import dataset, dataset_path
from attentiontuner.experiments.running.jobs import Outcome, kept_run, work_folder
from attentiontuner.experiments.running.reproduce import Plan
from attentiontuner.experiments.running.reproduce import reproduce as run
from attentiontuner.experiments.running.runner import limit_threads

pytestmark = pytest.mark.timeout(600)


def reproduce(records: Path, name: str, *words: str) -> int:
    # Two jobs, so that each has one thread: two threads of a tiny model mostly wait for each other.
    return main(["reproduce", name, "--records", str(records), "--scale", "smoke", "--jobs", "2", *words])


SOME = {
    "few": ["few-100", "few-100-random-pairs"],  # at this scale all its sizes are the same
    "sloppy": ["hallway", "labels-200-off-2", "labels-200-need-alone"],
    "sparse": ["hallway", "labels-200-few-10-off-2"],
    "recall-ablation": ["hallway"],
    "memories": ["tmaze-300", "few-300", "gru", "lru", "slots"],
    "popgym": ["popgym-battleship-easy", "few-100", "vanilla", "recall"],  # its actions are two choices at once
    "minigrid-memory": ["minigrid-memory-s7", "few-100", "recall"],
    "recall-ablation-images": ["mystery-path", "few-300-no-looks"],
    "robots": ["remember-colour", "few-100", "few-100-no-memory"],
    "robots-camera": ["blink-count"],
    "first-edition": ["hallway", "mystery-path"],
    "longer": ["hallway"],
    "imprecise-p": ["hallway"],
    "imprecise-pq": ["mortar-mayhem", "hallway", "noise-pq-0.5", "noise-pq-2", "standard"],
}


def smoke_cells(recipe: Recipe) -> list[Cell]:
    """The cells of a recipe, of large ones some."""
    return expand(recipe, "smoke", SOME.get(recipe.name, []))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All recipes in one folder, as one plan: starting a process costs more than a smoke cell."""
    records = tmp_path_factory.mktemp("records")
    cells = {(cell.folder, cell.name): cell for recipe in RECIPES.values() for cell in smoke_cells(recipe)}
    assert run(Plan(list(cells.values()), records, records / ".data", jobs=2)) == 0
    return records


def test_every_recipe_has_every_record(everything):
    for recipe in RECIPES.values():
        for cell in smoke_cells(recipe):
            record = finished(everything, cell)
            assert record is not None
            assert record.evaluation["episodes"] == cell.episodes
            assert record.curve_epochs[-1] == cell.epochs
            assert len(record.curves["imitation_loss"]) == len(record.curve_epochs)
            assert record.attention["heads"]
    names = [path.name for path in everything.glob("*/*.json")]
    assert len(names) == len(set(names))


def test_nothing_is_left_behind_but_data(everything):
    assert not [path for path in (everything / ".work").glob("*/*") if path.suffix != ".lock"]


def test_records_say_how_they_were_made(everything):
    cell = expand(get_recipe("split"), "smoke", only=["split-4-heads"])[0]
    record = finished(everything, cell)
    assert record.config["split_pairs"] is True
    assert record.config["seed"] == cell.seed
    assert record.attention["supervised"] == ["1:1", "1:2", "1:3", "1:4"]
    assert record.versions["torch"]
    assert set(record.seconds) == {"collect", "train", "evaluate"}


def test_a_finished_recipe_does_nothing_and_a_dry_run_says_so(everything, capsys):
    before = {path: path.stat().st_mtime_ns for path in everything.glob("*/*.json")}
    assert reproduce(everything, "placement") == 0
    assert "14 with a record, 0 to run" in capsys.readouterr().err
    assert reproduce(everything, "placement", "--dry-run", "--only", "hallway") == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 8
    assert all(line.endswith("there") for line in lines[1:])
    assert before == {path: path.stat().st_mtime_ns for path in everything.glob("*/*.json")}


def test_a_dry_run_tells_usable_records_from_others(everything, tmp_path, capsys):
    cells = expand(get_recipe("table1"), "smoke", only=["hallway", "ordering", "counting", "vanilla"])
    good, other, cut = (record_path(tmp_path, cell) for cell in cells)
    good.parent.mkdir(parents=True)
    for path, cell in zip((good, other, cut), cells, strict=True):
        path.write_bytes(record_path(everything, cell).read_bytes())
    text = other.read_text().replace('"dropout": 0.1', '"dropout": 0.2')
    other.write_text(text.partition(',\n"seal"')[0] + "}")
    cut.write_bytes(cut.read_bytes()[:-50])
    words = ["--only", "hallway,ordering,counting,mystery-path,vanilla"]
    assert reproduce(tmp_path, "table1", "--dry-run", *words) == 0
    states = [line.split("  ")[-1] for line in capsys.readouterr().out.strip().splitlines()[1:]]
    assert sorted(states) == ["damaged", "of another experiment", "there", "to do"]
    assert cut.exists()
    assert reproduce(tmp_path, "table1", *words) == 2
    assert "ordering--vanilla--standard--seed1.json is of another experiment (model.dropout 0.2, not 0.1)" in (
        capsys.readouterr().err
    )
    good.write_text(good.read_text().replace('"schema": 1', '"schema": 9'))
    assert state_of(tmp_path, cells[0]) == "of another version"


def test_a_data_set_that_was_deleted_is_collected_again(tmp_path):
    cell = expand(get_recipe("recall"), "smoke", only=["counting", "recall"])[0]

    def again():
        store, _ = dataset(tmp_path, cell.task, cell.settings, cell.demos, 0)
        store.verify()
        return (store.path / "manifest.json").stat().st_mtime_ns

    first = again()
    assert again() == first
    path = dataset_path(tmp_path, cell.task, cell.settings, cell.demos, 0)
    next((path / "shards").iterdir()).unlink()
    again()
    path.with_name(f"{path.name}.json").write_text("{")
    again()
    shutil.rmtree(path)
    assert again() != first


@pytest.mark.parametrize("option", ["--records", "--data"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys, option):
    (tmp_path / "file").write_text("")
    words = ["--scale", "smoke", "--only", "hallway,vanilla", option, str(tmp_path / "file" / "folder")]
    if option == "--data":
        words += ["--records", str(tmp_path / "records")]
    assert main(["reproduce", "table1", *words]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("attentiontuner: cannot make the folder")


def test_a_cell_uses_no_more_threads_than_it_may(monkeypatch):
    before = torch.get_num_threads()
    try:
        for said, threads in (("1", 1), ("7", 2), ("", 2), ("many", 2), ("0", 2)):
            monkeypatch.setenv("OMP_NUM_THREADS", said)
            limit_threads(2)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_report_of_everything(everything, tmp_path):
    build_report(everything, tmp_path, experts=False)
    text = (tmp_path / "README.md").read_text()
    assert all(f"## {recipe.title}\n" in text for recipe in RECIPES.values())


def test_the_same_cell_gives_the_same_record_with_a_budget_or_without(everything, tmp_path):
    cell = expand(get_recipe("missing"), "smoke", only=["hallway", "annotated-5"])[0]
    words = ["--only", "hallway,annotated-5", "--budget", "1h", "--keep-runs"]
    assert reproduce(tmp_path, "missing", *words) == 0
    one, two = finished(everything, cell), finished(tmp_path, cell)
    assert one.evaluation == two.evaluation
    assert one.attention == two.attention
    assert one.curves == two.curves
    assert (kept_run(tmp_path, cell) / "model.safetensors").exists()


def test_a_failure_stops_no_other_cell(tmp_path, capsys):
    cells = expand(get_recipe("table1"), "smoke", only=["hallway", "ordering", "vanilla"])
    broken = dataset_path(tmp_path / ".data", "hallway", cells[0].settings, cells[0].demos, 0)
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text("{")
    assert reproduce(tmp_path, "table1", "--only", "hallway,ordering,vanilla") == 2
    message = capsys.readouterr().err
    assert "hallway--vanilla--standard--seed1: failed, " in message
    assert "manifest.json" in message
    assert "Traceback" not in message
    assert [record.cell.task for record in read_records(tmp_path)] == ["ordering"]


def test_no_time_no_cell(tmp_path, capsys):
    assert reproduce(tmp_path, "table1", "--only", "hallway", "--budget", "1s") == 0
    assert "2 later" in capsys.readouterr().err
    assert read_records(tmp_path) == []


def start(records: Path, words: Sequence[str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "attentiontuner", "reproduce", "table1", "--records", str(records), "--jobs", "2"]
    return subprocess.Popen([*command, "--scale", "smoke", *words], start_new_session=True)


def test_killed_with_everything_it_goes_on(everything, tmp_path):
    words = ["--only", "hallway,ordering,vanilla"]
    cells = expand(get_recipe("table1"), "smoke", only=["hallway", "ordering", "vanilla"])
    process = start(tmp_path, words)
    until = time.monotonic() + 120
    while not any(work_folder(tmp_path, cell).exists() for cell in cells) and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert reproduce(tmp_path, *["table1", *words]) == 0
    for cell in cells:
        assert finished(tmp_path, cell).curves == finished(everything, cell).curves


def test_a_dead_process_is_a_failed_cell(tmp_path):
    from attentiontuner.experiments.running import pool
    from attentiontuner.experiments.running.jobs import Job

    outcomes: list[Outcome] = []
    cells = expand(get_recipe("table1"), "smoke", only=["hallway"])
    jobs = iter([Job(cell, tmp_path, tmp_path / "data") for cell in cells])

    def kill_the_first(running):
        if [job.cell for job in running] == cells[:1]:
            active_children()[0].kill()

    pool.run_jobs(jobs, 1, report=outcomes.append, watch=kill_the_first)
    assert [(outcome.cell, outcome.state) for outcome in outcomes] == [(cells[0], "failed"), (cells[1], "done")]
    assert outcomes[0].message == "a worker process died (killed by SIGKILL)"


def test_a_damaged_record_runs_again_and_an_older_plan_is_refused(everything, tmp_path, capsys):
    cell = expand(get_recipe("table1"), "smoke", only=["hallway", "vanilla"])[0]
    path = record_path(tmp_path, cell)
    path.parent.mkdir(parents=True)
    path.write_bytes(record_path(everything, cell).read_bytes()[:-50])
    assert reproduce(tmp_path, "table1", "--only", "hallway,vanilla") == 0
    assert "set aside" in capsys.readouterr().err
    assert finished(tmp_path, cell) is not None
    value = json.loads(path.read_text())
    value["cell"]["demos"] += 1
    del value["seal"]
    path.write_text(json.dumps(value))
    assert reproduce(tmp_path, "table1", "--only", "hallway,vanilla") == 2
    assert "another experiment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table9"], "unknown recipe"),
        (["table1", "--budget", "soon"], "--budget soon"),
        (["table1", "--jobs", "0"], "--jobs 0"),
        (["table1", "--executor", "slurm"], "--executor slurm"),
        (["table1", "--executor", "ray", "--keep-runs"], "--keep-runs: --executor ray brings back records alone"),
        (["table1", "--seeds", "x"], "--seeds x"),
        (["table1", "--seeds", "5-1"], "--seeds 5-1: that is none"),
        (["split", "--scale", "demo"], "recipe 'split' at scale 'demo' has no cell"),
        (["split", "--scale", "demo", "--seeds", "9"], "recipe 'split' at scale 'demo' has no cell"),
        (["table1", "--seeds", "1,9"], "--seeds: recipe 'table1' at scale 'smoke' has no seed 9, its last is 1"),
    ],
)
def test_bad_words_are_one_line(tmp_path, capsys, words, message):
    assert reproduce(tmp_path, *words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
