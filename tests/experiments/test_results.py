"""The records of this repository: `reproduce` goes on from them."""

import json
from pathlib import Path

import pytest

from attentiontuner.experiments.planning.cells import all_cells, expand
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.experiments.records import RecordError, finished, read_records, record_path, write_record
from tests.experiments.made import make_record

RESULTS = Path(__file__).parents[2] / "results"


def test_every_record_is_of_an_experiment_that_a_recipe_still_has():
    cells = {
        record_path(RESULTS, cell): cell
        for recipe in RECIPES.values()
        for scale in ("paper", "demo")
        for cell in all_cells(recipe, scale)
    }
    paths = sorted(RESULTS.glob("*/*.json"))
    assert len(paths) == len(read_records(RESULTS)) > 0
    for path in paths:
        assert finished(RESULTS, cells[path]) is not None


@pytest.mark.parametrize("written", [{}, {"upright": True}])
def test_one_observation_may_be_written_in_two_ways(tmp_path, written):
    cell = expand(RECIPES["recall"], "smoke", only=["hallway", "recall"])[0]
    record = make_record(cell, 1.0)
    record.config["model"]["observation"] |= written
    write_record(tmp_path, record)
    assert finished(tmp_path, cell) is not None


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (lambda config: config.pop("clip"), "clip 0.0, not 1.0"),  # as if from before there was clipping
        (lambda config: config.update(learning_rate=0.5), "learning_rate 0.5, not 0.001"),
        (lambda config: config["model"].update(forgotten=1), "unexpected keyword argument 'forgotten'"),
        (lambda config: config["model"].update(gates="full"), "gates: 'full': only versions before 0.2"),
        (lambda config: config["model"].pop("bounded"), "bounded False, not True"),  # as if from before 0.2
        (lambda config: config.update(precision="bfloat16", memory_limit=5, heatmap_epochs=[3]), ""),
        (lambda config: config.pop("noise_p"), ""),  # its default is what it has to be
        (lambda config: config["model"].update(gates="scalar"), ""),  # as nearly all were while there was a choice
    ],
)
def test_a_record_counts_only_if_the_whole_recipe_is_the_same(tmp_path, change, refused):
    cell = expand(RECIPES["recall"], "smoke", only=["hallway", "recall"])[0]
    record = make_record(cell, 1.0)
    change(record.config)
    write_record(tmp_path, record)
    if not refused:
        assert finished(tmp_path, cell) is not None
        return
    with pytest.raises(RecordError, match=refused):
        finished(tmp_path, cell)


@pytest.mark.parametrize("observation", [{}, None, {"kind": "grid", "shape": [7, 7, 3], "symbols": [11]}])
def test_a_record_whose_observation_makes_no_sense_is_set_aside(tmp_path, capsys, observation):
    cell = expand(RECIPES["recall"], "smoke", only=["hallway", "recall"])[0]
    path = write_record(tmp_path, make_record(cell, 1.0))
    value = json.loads(path.read_text())
    value["config"]["model"]["observation"] = observation
    path.write_text(json.dumps(value))
    assert finished(tmp_path, cell) is None
    assert "set aside" in capsys.readouterr().err


def test_a_record_of_a_newer_version_is_never_touched(tmp_path):
    cell = expand(RECIPES["recall"], "smoke", only=["hallway", "recall"])[0]
    path = write_record(tmp_path, make_record(cell, 1.0))
    value = json.loads(path.read_text())
    value["cell"]["weather"] = "fine"
    path.write_text(json.dumps(value))
    with pytest.raises(RecordError, match="its cell has 'weather', which this version does not know; move it away"):
        finished(tmp_path, cell)
    assert json.loads(path.read_text()) == value
