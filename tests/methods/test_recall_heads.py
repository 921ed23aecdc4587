"""The recipe of recall heads: what it decides by the data, and nothing by the task."""

import pytest

from attentiontuner import get_task, paper_config
from attentiontuner.methods.method import DataFacts

TASKS = ("hallway", "ordering", "counting", "mortar-mayhem", "mystery-path", "searing-spotlights")


def recipe(task: str, demonstrations: int, method: str = "recall"):
    config = paper_config(get_task(task), method, data=DataFacts(demonstrations))
    return config, config.model


@pytest.mark.parametrize("demonstrations", [20, 100, 300, 1000, 3000])
def test_tasks_that_show_the_same_kind_of_thing_have_the_same_recipe(demonstrations):
    for kind in (TASKS[:3], TASKS[3:5]):  # the last one names its own epochs where there are many demonstrations
        settings = []
        for task in kind:
            config, model = recipe(task, demonstrations)
            settings.append({**config.to_json(), "task": "", "settings": {}, "model": {**model.chosen()}})
        assert all(other == settings[0] for other in settings)


def test_few_demonstrations_have_a_smaller_network_and_are_seen_more_often():
    (few, small), (many, large) = (recipe("counting", number) for number in (100, 10_000))
    assert (small.d_model, few.batch_size, few.epochs) == (64, 8, 120)
    assert (large.d_model, many.batch_size, many.epochs) == (128, 32, 12)
    assert few.weight_decay == many.weight_decay == 1.0
    assert recipe("counting", 20)[0].epochs == 600
    assert recipe("counting", 1000)[0].epochs == 24


def test_images_are_seen_more_often_and_trusted_less_to_be_recalled():
    config, model = recipe("mystery-path", 100)
    assert (config.epochs, config.weight_decay) == (320, 0.1)
    assert (model.teacher, model.alone, model.dropout) == (0.5, 0.5, 0.3)
    _, model = recipe("hallway", 100)
    assert (model.teacher, model.alone, model.dropout) == (1.0, 0.0, 0.1)


def test_vectors_are_trusted_less_too_but_where_actions_are_numbers():
    assert recipe("popgym-repeat-previous-easy", 100)[1].teacher == 0.5
    assert recipe("remember-reach", 100)[1].teacher == 1.0


def test_without_a_data_set_the_tasks_own_number_counts():
    assert paper_config(get_task("counting"), "recall").epochs == 12
    assert paper_config(get_task("searing-spotlights"), "recall").epochs == 24


def test_the_control_without_pairs_has_the_same_recipe():
    for demonstrations in (100, 10_000):
        (one, network), (other, control) = (recipe("hallway", demonstrations, m) for m in ("recall", "recall-vanilla"))
        assert network.chosen() == control.chosen()
        different = {"method": "", "memory_weight": 0, "model": {}, "labels": ""}
        assert {**one.to_json(), **different} == {**other.to_json(), **different}
