"""The records of this repository: `reproduce` goes on from them."""

from pathlib import Path

import pytest

from attentiontuner.experiments.cells import expand
from attentiontuner.experiments.recipes import RECIPES
from attentiontuner.experiments.records import finished, read_records, record_path, write_record
from tests.experiments.made import make_record

RESULTS = Path(__file__).parents[2] / "results"


def test_every_record_is_of_an_experiment_that_a_recipe_still_has():
    cells = {
        record_path(RESULTS, cell): cell
        for recipe in RECIPES.values()
        if recipe.columns
        for scale in ("paper", "demo")
        for cell in expand(recipe, scale)
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
