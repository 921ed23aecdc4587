"""Estimates of the time a cell needs."""

import json
from dataclasses import replace

import pytest

from attentiontuner.cli.values import parse_duration, parse_seeds
from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import get_recipe
from attentiontuner.experiments.running.budget import (
    SPARE_SECONDS,
    Speeds,
    begun_run,
    evaluation_reserve,
)
from attentiontuner.runs.run import Run
from attentiontuner.runs.states import State
from tests.experiments.made import make_record

DEVICE = "CPU, 1 thread"


@pytest.fixture
def cells():
    return {cell.condition: cell for cell in expand(get_recipe("missing"), "smoke", only=["hallway"])}


def test_durations_and_seeds():
    assert [parse_duration(text) for text in ("90", "90s", "25m", "1.5h", "1h30m")] == [90, 90, 1500, 5400, 5400]
    assert parse_seeds("1-3,7") == [1, 2, 3, 7]
    for bad in ("soon", "5 m", "m", ""):
        with pytest.raises(UserError, match="--budget"):
            parse_duration(bad)
    with pytest.raises(UserError, match="--seeds"):
        parse_seeds("one")


def test_nothing_measured_nothing_said(cells, tmp_path):
    assert Speeds([], DEVICE).remaining_seconds(cells["annotated-5"], Run(tmp_path), True) is None
    elsewhere = replace(make_record(cells["annotated-1"], 0.5), device="a GPU")
    assert Speeds([elsewhere], DEVICE).remaining_seconds(cells["annotated-5"], Run(tmp_path), True) is None


def test_from_records_of_the_same_task(cells, tmp_path):
    speeds = Speeds([], DEVICE)
    speeds.add(make_record(cells["annotated-1"], 0.5))  # 0.5 s an epoch, 4 s for the evaluation, 1 s to collect
    wanted = cells["annotated-5"]
    expected = 0.5 * wanted.epochs + 4 + SPARE_SECONDS
    assert speeds.remaining_seconds(wanted, Run(tmp_path), True) == pytest.approx(expected)
    assert speeds.remaining_seconds(wanted, Run(tmp_path), False) == pytest.approx(expected + 1)
    twice = replace(wanted, demos=2 * wanted.demos)
    assert speeds.remaining_seconds(twice, Run(tmp_path), True) == pytest.approx(expected + 0.5 * wanted.epochs)


def test_a_cell_takes_as_long_as_what_it_trains_on_not_what_it_draws_from(tmp_path):
    few, many = (expand(get_recipe("few"), only=["hallway", "vanilla", name])[0] for name in ("few-50", "few-300"))
    assert few.demos == many.demos
    speeds = Speeds([make_record(few, 0.5)], DEVICE)  # 0.5 s an epoch
    assert speeds.train_seconds(many, 1) == pytest.approx(3.0)


def test_longer_worlds_take_longer_and_tell_nothing_of_others(tmp_path):
    cell = expand(get_recipe("longer"), "smoke", only=["counting", "longer"])[0]  # 4, 6, 9 and 12 rooms besides its 3
    plain = replace(cell, lengths=[])
    assert evaluation_reserve(10, cell) - SPARE_SECONDS == pytest.approx(
        (evaluation_reserve(10, plain) - SPARE_SECONDS) * (1 + 31 / 3)
    )
    speeds = Speeds([make_record(cell, 1.0)], DEVICE)
    assert speeds.evaluate_seconds(cell) == 4.0
    assert speeds.evaluate_seconds(plain) is None


def test_work_in_progress_counts_and_its_own_speed_is_used(cells, tmp_path):
    wanted = replace(cells["annotated-5"], config={**cells["annotated-5"].config, "epochs": 12})
    lines = [{"epoch": 1, "seconds": 9.0}, {"epoch": 2, "seconds": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    speeds = Speeds([make_record(cells["annotated-1"], 0.5)], DEVICE)
    assert speeds.remaining_seconds(wanted, Run(tmp_path), True) == pytest.approx(10 * 2.0 + 4 + SPARE_SECONDS)


def test_a_cell_that_was_only_begun_tells_about_its_likes(cells, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "seconds": 9.0}\n{"epoch": 2, "seconds": 2.0}\n')
    speeds = Speeds([], DEVICE)
    speeds.add_begun(cells["annotated-1"], Run(tmp_path))
    assert speeds.train_seconds(cells["annotated-5"], 10) == pytest.approx(20.0)


def test_a_part_of_the_first_epoch_is_enough_to_tell(cells, tmp_path):
    cell = cells["annotated-5"]  # 16 demonstrations in batches of 8
    (tmp_path / "state" / "00000-00001").mkdir(parents=True)
    (tmp_path / "state" / "latest").write_text("00000-00001\n")
    state = {"epoch": 0, "batch": 1, "numbers": {"seconds": 3.0}}
    (tmp_path / "state" / "00000-00001" / "state.json").write_text(json.dumps(state))
    assert begun_run(cell, Run(tmp_path)) == (0.5, 6.0)


def test_parts_of_an_epoch_are_counted_in_batches_of_the_methods_own_size(tmp_path):
    cell = expand(get_recipe("recall"), "paper", only=["hallway", "recall"])[0]  # 5,000 in batches of 32, not 64
    batches = -(-cell.demos // 32)
    Run(tmp_path).save_state(State(0, batches // 2, {}, {}, {"seconds": 3.0}), 1)
    begun = begun_run(cell, Run(tmp_path))
    assert begun.epochs == pytest.approx(0.5, abs=0.01)
    assert begun.epoch_seconds == pytest.approx(6.0, abs=0.1)


def test_records_of_this_code_with_as_many_jobs_go_first(cells):
    def measured(seconds, revision, jobs, condition="annotated-1"):
        record = make_record(cells[condition], 0.5)
        times = {"collect": seconds, "train": seconds * record.cell.epochs, "evaluate": seconds}
        return replace(record, seconds=times, revision=revision, jobs=jobs)

    old, alone, now = measured(9.0, "old", None), measured(5.0, "new", 1), measured(2.0, "new", 2)
    wanted = cells["annotated-5"]
    for records, seconds in (([old, now, alone], 2.0), ([old, old, alone], 9.0), ([old], 9.0)):
        speeds = Speeds(records, DEVICE, "new", jobs=2)
        assert speeds.train_seconds(wanted, 1) == pytest.approx(seconds)
        assert speeds.evaluate_seconds(wanted) == seconds
        assert speeds.collect_seconds(wanted) == pytest.approx(seconds)


def test_another_method_of_this_code_tells_less_than_the_same_of_another(cells):
    vanilla, tuner = (replace(make_record(cells["standard"], 0.5), revision=name, jobs=1) for name in ("new", "old"))
    vanilla = replace(vanilla, cell=replace(vanilla.cell, method="vanilla"), seconds={**vanilla.seconds, "train": 1e3})
    wanted = replace(cells["annotated-5"], method="attentiontuner")
    tuner = replace(tuner, cell=replace(tuner.cell, method="attentiontuner"))
    speeds = Speeds([vanilla, tuner], DEVICE, "new")
    assert speeds.train_seconds(wanted, 1) == pytest.approx(0.5)
