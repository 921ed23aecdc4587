"""Methods of people's own, as little as one may say of them."""

import json
from dataclasses import dataclass

import pytest

from attentiontuner import Method, get_task, paper_config, register_method
from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning.cells import cell_config
from attentiontuner.experiments.running import reproduce
from attentiontuner.experiments.running.jobs import Job, work_run
from attentiontuner.methods import method as methods
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import NetworkConfig, TransformerConfig


class Terse(Method):
    """The usual recipe, and a loss of terms of its own."""

    name, title, network, terms = "terse", "Terse", TransformerConfig, ("surprise",)

    def recipe(self, task, data):
        return {}


@pytest.fixture(autouse=True)
def terse(monkeypatch):
    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    register_method(Terse)


def test_a_recipe_that_says_nothing_is_the_usual_one(tmp_path):
    plan = reproduce.make_plan("table1", tmp_path, methods=["terse"])
    assert {cell.epochs for cell in plan.cells} == {300}
    assert cell_config(plan.cells[0]).batch_size == 64


@dataclass(frozen=True)
class OneHead(NetworkConfig):
    architecture = "one-head"

    def build(self):
        raise NotImplementedError


def test_heads_are_those_of_the_network(monkeypatch):
    task = get_task("hallway")
    assert paper_config(task, "terse", heads="3:2").supervised() == (Head(2, 1),)
    monkeypatch.setattr(Terse, "network", OneHead)
    for heads, supervised in {"1:1": (Head(0, 0),), "all": (Head(0, 0),), "none": ()}.items():
        assert paper_config(task, "terse", heads=heads).supervised() == supervised
    with pytest.raises(UserError, match="there is no head 3:2 in a model of 1 layer × 1 head"):
        paper_config(task, "terse", heads="3:2")


def test_how_far_it_is_is_told_by_its_own_terms(tmp_path, capsys, monkeypatch):
    plan = reproduce.make_plan("table1", tmp_path, methods=["terse"], scale="smoke")
    run = work_run(tmp_path, plan.cells[0])
    run.path.mkdir(parents=True)
    line = {"epoch": 1, "surprise_loss": 0.25, "seconds": 1.0}
    (run.path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(reproduce, "STATUS_SECONDS", -1.0)
    reproduce.Campaign(plan, 1, None).watch([Job(plan.cells[0], tmp_path, tmp_path)])
    assert "loss 0.2500" in capsys.readouterr().err
