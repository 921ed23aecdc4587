"""Records: what they hold, how damage is met, and that nothing is overwritten."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attentiontuner.evaluation.rollout import EpisodeResult
from attentiontuner.experiments.planning.cells import expand
from attentiontuner.experiments.planning.recipes import get_recipe
from attentiontuner.experiments.records import (
    RecordError,
    compact_curves,
    decode_map,
    encode_map,
    evaluation_part,
    finished,
    read_record,
    read_records,
    record_path,
    write_record,
)
from tests.experiments.made import make_record


@pytest.fixture
def cell():
    return expand(get_recipe("table1"), "smoke", only=["hallway", "vanilla"])[0]


def test_round_trip(tmp_path, cell):
    record = make_record(cell, 0.5)
    path = write_record(tmp_path, record)
    assert path == tmp_path / "table1-smoke" / "hallway--vanilla--standard--seed1.json"
    assert read_record(path) == record == finished(tmp_path, cell)
    assert record.success == 50.0


def test_how_many_ran_side_by_side_is_known_of_newer_records(tmp_path, cell):
    record = make_record(cell, 0.5)
    assert "jobs" not in record.to_json()
    path = write_record(tmp_path, replace(record, jobs=3))
    assert read_record(path).jobs == 3
    assert finished(tmp_path, cell) is not None


def test_the_evaluation_part_on_disk():
    results = [EpisodeResult(0, 2**30, True, 0.5, 7), EpisodeResult(1, 2**30 + 1, False, 0.0, 10)]
    results.append(EpisodeResult(2, 2**30 + 2, True, 1 / 3, 8))
    assert json.dumps(evaluation_part(results, 0)) == (
        '{"episodes": 3, "seed": 0, "first_environment_seed": 1073741824, "successes": 2, "success_rate": '
        '0.6666666666666666, "interval_95": [0.20766, 0.93851], "mean_return": 0.27778, "mean_length": 8.333, '
        '"success": "101", "lengths": [7, 10, 8]}'
    )


def test_a_long_record_stays_small(tmp_path):
    cell = expand(get_recipe("table1"), "paper", only=["counting"])[0]
    record = make_record(cell, 0.06, steps=140)
    lines = [dict.fromkeys(("imitation_loss", "memory_loss", "train_accuracy", "test_accuracy"), np.pi / 7)] * 600
    more = [{**line, "test_imitation_loss": 1 / 3, "gradient_norm": 2 / 3} for line in lines]
    path = write_record(tmp_path, replace(record, curves=compact_curves(more)))
    assert path.stat().st_size < 100_000


def test_curves_are_rounded_and_gaps_stay_gaps():
    curves = compact_curves([{"imitation_loss": 0.123456789}, {"imitation_loss": float("nan"), "success_rate": 0.5}])
    assert curves == {"imitation_loss": [0.12346, None], "success_rate": [None, 0.5]}


def test_curves_of_very_many_epochs_or_of_some_that_were_tested_say_which():
    lines = [{"epoch": epoch, "imitation_loss": 1.0 * epoch} for epoch in range(1, 1802)]
    many = compact_curves(lines)
    assert many["epoch"] == list(range(1, 1802, 4))
    assert many["imitation_loss"] == many["epoch"]
    for line in lines[4::5]:
        line["test_accuracy"] = 0.5
    assert compact_curves(lines[:25]) == {
        "epoch": [5, 10, 15, 20, 25], "imitation_loss": [5, 10, 15, 20, 25], "test_accuracy": [0.5] * 5,
    }  # fmt: skip
    for line in lines[4::5]:
        line["test_error"] = line.pop("test_accuracy")
    assert compact_curves(lines[:25])["epoch"] == [5, 10, 15, 20, 25]


def test_a_method_of_ones_own_has_curves_of_its_own():
    line = {"epoch": 1, "seconds": 2.0, "demonstrations_per_second": 9.0, "surprise_loss": 0.5}
    assert compact_curves([line]) == {"surprise_loss": [0.5]}


def test_a_map_keeps_single_ones_and_its_shape():
    weights = np.zeros((290, 290))
    weights[201, 7] = 1
    pixels = decode_map(encode_map(weights, 80))
    assert pixels.shape == (73, 73)
    assert (pixels[201 // 4, 7 // 4], pixels.sum()) == (255, 255)
    with pytest.raises(RecordError, match="damaged"):
        decode_map({"side": 4, "data": "AAAA"})


def test_a_damaged_record_is_set_aside_and_named(tmp_path, cell, capsys):
    path = write_record(tmp_path, make_record(cell, 0.5))
    for number in (1, 2):
        path.write_text(path.read_text()[:100] if path.exists() else "{")
        assert finished(tmp_path, cell) is None
        assert not path.exists()
        assert path.with_name(f"{path.name}.damaged-{number}").exists()
        message = capsys.readouterr().err
        assert str(path) in message
        assert f"damaged-{number}" in message


@pytest.mark.parametrize(
    "change",
    [
        {"evaluation": {"successes": 8}},
        {"evaluation": {"success": "01"}},
        {"curves": {"imitation_loss": [1.0]}},
        {"cell": {"task": None, "colour": 3}},
        {"seconds": {"train": float("inf")}},
        {"seconds": {"train": "1.5"}},
    ],
)
def test_a_record_that_contradicts_itself_is_damaged(tmp_path, cell, change):
    path = write_record(tmp_path, make_record(cell, 0.5))
    value = json.loads(path.read_text())
    del value["seal"]  # which would tell by itself
    for name, part in change.items():
        value[name] |= part
    path.write_text(json.dumps(value))
    with pytest.raises(RecordError, match="hallway--vanilla"):
        read_record(path)


def test_other_schemas_and_other_experiments_are_refused_and_left_alone(tmp_path, cell):
    path = write_record(tmp_path, make_record(cell, 0.5))
    other = replace(cell, demos=cell.demos + 1)
    with pytest.raises(RecordError, match=f"demos {cell.demos}, not {cell.demos + 1}"):
        finished(tmp_path, other)
    text = path.read_text().replace('"dropout": 0.1', '"dropout": 0.2')  # a default that was another one then
    path.write_text(text.partition(',\n"seal"')[0] + "}")
    with pytest.raises(RecordError, match="dropout 0.2, not 0.1"):
        finished(tmp_path, cell)
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    before = path.read_bytes()
    with pytest.raises(RecordError, match="schema 2"):
        finished(tmp_path, cell)
    assert path.read_bytes() == before


def test_a_record_with_another_number_is_damaged(tmp_path, cell, capsys):
    path = write_record(tmp_path, make_record(cell, 0.5))
    text = path.read_text()
    path.write_text(text.replace('"train": ', '"train": 1'))
    with pytest.raises(RecordError, match="is damaged: its content does not have its checksum"):
        read_record(path)
    assert finished(tmp_path, cell) is None
    assert "set aside" in capsys.readouterr().err


def test_reading_a_folder_names_what_it_leaves_out(tmp_path, cell, capsys):
    write_record(tmp_path, make_record(cell, 0.5))
    bad = record_path(tmp_path, replace(cell, seed=2))
    bad.write_text("{}")
    assert [record.cell.seed for record in read_records(tmp_path)] == [1]
    assert str(bad) in capsys.readouterr().err


def test_a_record_with_a_test_set_of_another_size_is_of_the_same_experiment(tmp_path, cell):
    record = make_record(replace(cell, test_demos=cell.test_demos + 3), 0.5)
    write_record(tmp_path, record)
    assert finished(tmp_path, cell) == record


def test_success_in_longer_worlds(tmp_path):
    cell = expand(get_recipe("longer"), "smoke", only=["counting", "longer"])[0]
    assert cell.lengths == [4, 6, 9, 12]  # 1.5, 2, 3 and 4 times the 3 rooms of that scale
    here, there = make_record(cell, 1.0), make_record(cell, 0.5)
    with pytest.raises(RecordError, match="at lengths 6, not"):
        write_record(tmp_path, replace(here, longer={"6": there.evaluation}))
    write_record(tmp_path, record := replace(here, longer=there.longer))
    assert finished(tmp_path, cell) == record
    assert (record.success_at(1), record.success_at(2), record.success_at(5)) == (100.0, 50.0, None)
