"""The configuration: the paper's recipe, the checks, and JSON there and back."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from attentiontuner.collecting.collection import collect
from attentiontuner.core.errors import UserError
from attentiontuner.demos import DemoStore
from attentiontuner.methods import facts_of
from attentiontuner.models.heads import Head
from attentiontuner.models.sizes import RecallConfig
from attentiontuner.runs.config import TrainConfig, first_difference, paper_config, recipe
from attentiontuner.tasks.task import get_task
from tests.toy_task import TOY
from tests.training.toys import toy_config


def test_the_papers_recipe() -> None:
    config = paper_config(get_task("hallway"))
    assert (config.epochs, config.batch_size, config.learning_rate, config.weight) == (300, 64, 1e-4, 10.0)
    assert config.supervised() == (Head(0, 0),)
    assert (config.model.d_model, config.model.layers, config.model.heads, config.model.feedforward) == (
        512,
        4,
        2,
        2048,
    )
    assert config.attend_self
    vanilla = paper_config(get_task("hallway"), "vanilla")
    assert (vanilla.epochs, vanilla.weight, vanilla.supervised()) == (600, 0.0, ())
    assert paper_config(get_task("hallway", {"length": 5})).settings == {"length": 5}


def test_a_recipe_is_of_recall_heads_and_of_the_data_that_it_is_shown(tmp_path) -> None:
    store = collect(TOY.with_settings({"length": 6}), 3, 1, tmp_path / "data", workers=1)
    config = recipe("toy", data=tmp_path / "data", batch_size=2)
    assert (config.method, config.settings, config.batch_size) == ("recall", {"length": 6}, 2)
    assert config.epochs == recipe("toy", data=facts_of(store)).epochs != recipe("toy").epochs
    assert recipe(TOY, data=store).settings == {"length": 5}, "a task that is given is taken as it is"
    assert recipe(TOY, "attentiontuner") == paper_config(TOY)
    assert recipe("toy", data=store, annotator="second") == recipe(
        "toy", data=DemoStore.open(store.path, "second"), annotator="second"
    )
    with pytest.raises(UserError, match="a dict is no task: give a Task, or the name of one"):
        recipe({"name": "toy"})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a list is no data set: give a DemoStore, or the folder of one"):
        recipe("toy", data=[1, 2])  # type: ignore[arg-type]


def test_recall_networks_see_enough_and_read_whole_amounts_only_if_pairs_make_them_whole() -> None:
    epochs = {
        name: paper_config(get_task(name), "recall").epochs for name in ("counting", "hallway", "searing-spotlights")
    }
    assert epochs == {"counting": 12, "hallway": 24, "searing-spotlights": 24}  # the last says so itself
    assert paper_config(replace(get_task("counting"), demonstrations=40_000), "recall").epochs == 10
    for method, changes, whole in (
        ("recall", {}, True),
        ("recall-vanilla", {}, False),
        ("recall", {"memory_weight": 0}, False),
        ("recall", {"annotated_fraction": 0}, False),
    ):
        model = paper_config(get_task("counting"), method, **changes).network
        assert isinstance(model, RecallConfig)
        assert model.reads_whole is whole


def test_json_there_and_back() -> None:
    config = toy_config(heads="1:all,2:1", heatmap_epochs=(2, 0, 2), demos=7, noise_p=2.5, pairs="shuffled")
    again = TrainConfig.from_json(json.loads(json.dumps(config.to_json())))
    decided = {"memory_weight": 10.0, "eval_episodes": 0}  # what was left open is decided in the file
    assert again == replace(config, **decided)
    assert first_difference(config.to_json(), json.loads(json.dumps(again.to_json()))) is None
    assert config.heatmap_epochs == (0, 2)


def test_the_first_difference_is_named_and_bookkeeping_is_none() -> None:
    old = toy_config().to_json()
    assert first_difference(old, toy_config(learning_rate=0.5).to_json()) == ("learning_rate", 1e-3, 0.5)
    assert first_difference(old, toy_config(model={"d_model": 32}).to_json()) == ("model.d_model", 16, 32)
    assert first_difference(old, toy_config(keep=9, checkpoint_seconds=1.0).to_json()) is None


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"epochs": 0}, "--epochs is 0"),
        ({"batch_size": 0}, "--batch-size is 0"),
        ({"learning_rate": 0.0}, "--learning-rate"),
        ({"annotated_fraction": 1.5}, "--annotated-fraction is 1.5: give between 0 and 1"),
        ({"noise_q": -1.0}, "--noise-q"),
        ({"test_fraction": 1.0}, "--test-fraction"),
        ({"demos": 0}, "--demos"),
        ({"heatmap_epochs": (1, 3)}, r"--heatmap-epochs is \(1, 3\): give epochs from 0 to 2"),
        ({"eval_every": 5, "eval_episodes": 0}, "--eval-episodes is 0: give at least 1"),
        ({"learning_rate": float("inf")}, "--learning-rate is inf: give above 0"),
        ({"memory_weight": float("inf")}, "--memory-weight is inf: give 0 or more"),
        ({"noise_p": float("nan")}, "--noise-p is nan"),
        ({"method": "vanilla", "memory_weight": 1.0}, "--method vanilla has no memory loss: leave out --memory-weight"),
        ({"pairs": "odd"}, "--pairs 'odd' is not one of given, random, shuffled"),
        ({"precision": "half"}, "--precision 'half'"),
        ({"heads": "3:1"}, "no head 3:1"),
        ({"heads": "first"}, "heads 'first'"),
    ],
)
def test_bad_choices_are_one_clear_line(choice: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        toy_config(**choice)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"precision": "bfloat16"}, "--precision is bfloat16: give float32 with method 'recall'"),
        ({"heads": "2:1"}, "--heads '2:1': method 'recall' supervises head 1:1, no other"),
        ({"heads": "all", "split_pairs": True}, "--heads 'all'"),
        ({"model": {"dropped_cells": 1.5}}, "dropped_cells: 1.5"),
    ],
)
def test_the_recall_head_is_one_and_counts_in_float32(choice: dict[str, object], message: str) -> None:
    paper_config(get_task("counting"), "recall", precision="float32")
    with pytest.raises(UserError, match=message):
        paper_config(get_task("counting"), "recall", **choice)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("products", "no", "true or false"),
        ("past", 1, "true or false"),
        ("whole", "x", "true or false or null"),
        ("marks", True, "a whole number"),
        ("layers", 2.0, "a whole number"),
        ("looks", None, "a whole number"),
        ("teacher", "yes", "a number"),
        ("dropout", False, "a number"),
        ("periods", 3, "a list, each a number"),
        ("periods", [2, "x"], "a list, each a number"),
        ("encoders", 3, "text"),
        ("images", "large", "'paper' or 'residual'"),
    ],
)
def test_fields_of_a_network_have_their_type_from_people_and_from_files(name, value, wanted) -> None:
    message = re.escape(f"model {name}: {value!r} is not {wanted}")
    with pytest.raises(UserError, match=message):
        recipe("hallway", model={name: value})
    saved = recipe("hallway").to_json()
    with pytest.raises(UserError, match=message):
        TrainConfig.from_json({**saved, "model": {**saved["model"], name: value}})


def test_whole_numbers_are_numbers_too_and_what_is_not_said_is_filled_in() -> None:
    model = recipe("hallway", model={"dropout": 0, "layers": None, "whole": None, "d_model": np.int64(64)}).model
    assert isinstance(model, RecallConfig)
    assert (model.dropout, model.layers, model.d_model) == (0, 2, 64)


def test_unknown_method_and_unknown_settings_are_refused() -> None:
    with pytest.raises(UserError, match="unknown method 'best'"):
        toy_config(method="best")
    with pytest.raises(UserError, match="unknown setting 'speed'"):
        TrainConfig.from_json({**toy_config().to_json(), "speed": 1})


def test_settings_are_kept_as_a_data_set_keeps_them() -> None:
    task = replace(get_task("hallway"), settings={"size": (5, np.int64(5))})
    assert paper_config(task, "vanilla").settings == {"size": [5, 5]}


def test_replacing_a_field_changes_that_field_alone() -> None:
    """What depends on several fields is decided when it is needed, so that no replacement undoes another."""
    hallway, counting = get_task("hallway"), get_task("counting")
    tuned = paper_config(hallway, "attentiontuner")
    again = replace(replace(tuned, method="vanilla"), method="attentiontuner")
    assert (again, again.weight, again.needs_pairs) == (tuned, 10.0, True)
    recalled = paper_config(counting, "recall")
    without = replace(recalled, annotated_fraction=0.0)
    for config, whole in ((recalled, True), (without, False), (replace(without, annotated_fraction=1.0), True)):
        assert isinstance(config.network, RecallConfig)
        assert config.network.reads_whole is whole
    loaded = TrainConfig.from_json(json.loads(json.dumps(paper_config(hallway, "vanilla").to_json())))
    assert replace(loaded, method="attentiontuner").weight == 10.0


def test_a_run_from_before_there_was_a_choice_learned_from_failures_too() -> None:
    old = {name: value for name, value in toy_config().to_json().items() if name != "include_failed"}
    assert TrainConfig.from_json(old).include_failed
    assert not toy_config().include_failed
