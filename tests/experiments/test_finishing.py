"""Cells from kill to record: whatever moment a process dies at, the same command completes them and leaves nothing."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from attentiontuner.evaluation import evaluate as evaluate_module
from attentiontuner.experiments.planning.cells import Cell, expand
from attentiontuner.experiments.planning.recipes import get_recipe
from attentiontuner.experiments.records import finished
from attentiontuner.experiments.running import pool, runner
from attentiontuner.experiments.running.budget import Begun
from attentiontuner.experiments.running.jobs import Job, Outcome, kept_run, work_folder
from attentiontuner.experiments.running.reproduce import Campaign, Plan, reproduce
from attentiontuner.experiments.running.runner import run_cell
from attentiontuner.runs.run import Run


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return expand(get_recipe("table1"), "smoke", only=["hallway"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def whole(cells: list[Cell], data: Path, tmp_path_factory: pytest.TempPathFactory):
    """The record of the first cell, run in one go."""
    records = tmp_path_factory.mktemp("whole")
    assert run_cell(Job(cells[0], records, data)).state == "done"
    return finished(records, cells[0])


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_jobs(jobs, workers, deadline, report, watch):
        for job in jobs:
            report(run_cell(job))

    monkeypatch.setattr(pool, "run_jobs", run_jobs)


MOMENTS = {
    "before the copy": (Run, "copy_to", False),
    "after the copy": (Run, "copy_to", True),
    "after the record": (runner, "write_record", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_is_kept_whenever_the_process_is_killed(cells, data, whole, tmp_path, monkeypatch, moment):
    place, name, after = MOMENTS[moment]
    real = getattr(place, name)

    def dying(*arguments):
        if after:
            real(*arguments)
        raise Killed

    plan = Plan(cells[:1], tmp_path, data, keep_runs=True)
    with monkeypatch.context() as context:
        context.setattr(place, name, dying)
        with pytest.raises(Killed):
            reproduce(plan)
    assert work_folder(tmp_path, cells[0]).exists()
    assert kept_run(tmp_path, cells[0]).exists() == (moment != "before the copy")
    assert reproduce(plan) == 0
    assert finished(tmp_path, cells[0]).evaluation == whole.evaluation
    assert len(Run.open(kept_run(tmp_path, cells[0])).metrics()) == cells[0].epochs
    assert Run(kept_run(tmp_path, cells[0])).load_model().sha256
    assert not work_folder(tmp_path, cells[0]).exists()


def test_a_run_whose_record_came_before_its_copy_is_still_kept(cells, data, tmp_path, monkeypatch):
    """Versions before this one wrote the record first."""
    with monkeypatch.context() as context:
        context.setattr(runner.shutil, "rmtree", lambda *arguments, **options: None)
        run_cell(Job(cells[0], tmp_path, data))
    assert not kept_run(tmp_path, cells[0]).exists()
    assert reproduce(Plan(cells[:1], tmp_path, data, keep_runs=True)) == 0
    assert Run(kept_run(tmp_path, cells[0])).load_model().sha256
    assert not work_folder(tmp_path, cells[0]).exists()


def test_an_evaluation_that_was_killed_goes_on(cells, data, whole, tmp_path, monkeypatch):
    real, played = evaluate_module.rollout, []

    def dying(policy, task, seeds, *, on_result, **options):
        def note(result):
            on_result(result)
            played.append(result.episode)
            if len(played) == 3:
                raise Killed

        return real(policy, task, seeds, on_result=note, **options)

    monkeypatch.setattr(evaluate_module, "rollout", dying)
    job = Job(cells[0], tmp_path, data)
    with pytest.raises(Killed):
        run_cell(job)
    assert run_cell(job).state == "done"
    assert sorted(played) == list(range(cells[0].episodes))
    assert finished(tmp_path, cells[0]).evaluation == whole.evaluation


def test_a_clock_that_is_set_back_gives_no_more_time(cells, data, tmp_path, monkeypatch, capsys):
    hours = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(hours)))
    assert reproduce(Plan(cells[:1], tmp_path, data, budget=0.0)) == 0
    assert "later, no time is left" in capsys.readouterr().err
    late = Job(cells[0], tmp_path, data, deadline=time.monotonic())
    assert run_cell(late).state == "later"


# --- cells that do not fit -------------------------------------------------------------------------------------------


@pytest.fixture
def campaign(cells, data, tmp_path) -> Campaign:
    return Campaign(Plan(cells, tmp_path, data), len(cells), time.monotonic() + 3600)


def test_a_cell_that_does_not_fit_is_begun_when_no_other_is_left(cells, campaign, monkeypatch, capsys):
    monkeypatch.setattr(campaign, "reason_to_wait", lambda cell: "needs long" if cell == cells[0] else "")
    jobs = list(campaign.jobs(cells))
    assert [(job.cell, job.partly) for job in jobs] == [(cells[1], False), (cells[0], True)]
    campaign.report(Outcome(cells[1], "failed"))
    campaign.report(Outcome(cells[0], "later", "the time was over"))
    campaign.close(1.0)
    assert "[2/2]" in capsys.readouterr().err
    assert campaign.counts == {"failed": 1, "later": 1}


def test_one_that_was_found_too_long_waits_and_is_said_once(cells, campaign, capsys):
    jobs = campaign.jobs(cells[:1])
    assert not next(jobs).partly
    campaign.report(Outcome(cells[0], "later", "needs long"))
    assert next(jobs).partly
    campaign.report(Outcome(cells[0], "later", "the time was over"))
    assert next(jobs, None) is None
    campaign.close(1.0)
    assert capsys.readouterr().err.count("later") == 2  # its line and the count


def test_without_time_nothing_is_begun(cells, campaign, monkeypatch, capsys):
    campaign.deadline = time.monotonic() + 1
    monkeypatch.setattr(campaign, "reason_to_wait", lambda cell: "needs long")
    assert list(campaign.jobs(cells)) == []
    campaign.close(1.0)
    assert capsys.readouterr().err.count("later, needs long") == 2


def test_cells_on_other_machines_are_not_begun_in_vain(cells, campaign, monkeypatch):
    campaign.plan = replace(campaign.plan, executor="ray")
    monkeypatch.setattr(campaign, "reason_to_wait", lambda cell: "needs long")
    assert list(campaign.jobs(cells)) == []


def test_a_job_for_as_far_as_the_time_goes_is_not_refused(cells, data, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "begun_run", lambda cell, run: Begun(0.5, 1e6))
    job = Job(cells[0], tmp_path, data, deadline=time.monotonic() + 3600)
    assert "what is left of it needs about" in run_cell(job).message
    assert run_cell(replace(job, partly=True)).state == "done"
