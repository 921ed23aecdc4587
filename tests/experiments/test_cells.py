"""Recipes and their expansion into cells."""

import json
from dataclasses import replace

import pytest

from attentiontuner.core.errors import UserError
from attentiontuner.experiments.planning import published
from attentiontuner.experiments.planning.cells import Cell, cell_config, expand, make_cell
from attentiontuner.experiments.planning.few_demonstrations import CAMERA_PIXELS, FEW_BASELINES
from attentiontuner.experiments.planning.recipes import RECIPES, get_recipe
from attentiontuner.experiments.planning.scales import get_scale
from attentiontuner.methods import get_method
from attentiontuner.runs.config import paper_config
from attentiontuner.tasks.task import get_task


def test_every_published_number_belongs_to_a_column():
    for name, table in published.TABLES.items():
        titles = {column.title for column in RECIPES[name].columns}
        assert {(task in RECIPES[name].tasks, column in titles) for task, column in table} == {(True, True)}


def test_the_numbers_of_table_1():
    found = {task: [str(published.published("table1", task, title)) for title in ("Vanilla", "AttentionTuner")]
             for task in published.TASK_ORDER}  # fmt: skip
    assert found["mortar-mayhem"] == ["20.8 ± 42.2", "99.8 ± 0.4"]
    assert found["counting"] == ["6 ± 0.7", "6.5 ± 0.4"]
    assert published.published("scaling", "hallway", "Vanilla 4×") is None


def test_table1_has_the_seeds_of_appendix_f():
    cells = expand(get_recipe("table1"))
    seeds = {(cell.task, cell.method): 0 for cell in cells}
    for cell in cells:
        seeds[cell.task, cell.method] += 1
    assert seeds.pop(("hallway", "vanilla")) == 10
    assert seeds.pop(("ordering", "vanilla")) == 15
    assert set(seeds.values()) == {5}
    assert len(seeds) == 10


def test_table1_runs_the_solved_tasks_with_attentiontuner_first():
    cells = expand(get_recipe("table1"))
    solved = {"hallway", "ordering", "mortar-mayhem", "mystery-path"}
    stages = [cells[:12], cells[12:24], cells[24:40], cells[40:60], cells[60:]]
    assert {(cell.method, cell.task in solved, cell.seed <= 3) for cell in stages[0]} == {
        ("attentiontuner", True, True)
    }
    assert {(cell.method, cell.task in solved, cell.seed <= 3) for cell in stages[1]} == {("vanilla", True, True)}
    assert {(cell.task in solved, cell.seed in (4, 5)) for cell in stages[2]} == {(True, True)}
    assert {cell.task for cell in stages[3]} == {"searing-spotlights", "counting"}
    assert min(cell.seed for cell in stages[4]) == 6
    assert [cell.task for cell in cells[:2]] == ["hallway", "ordering"]


def test_paper_scale_is_the_paper_to_the_letter():
    for cell in expand(get_recipe("table1"), seeds=[1]):
        task = get_task(cell.task)
        assert cell_config(cell) == paper_config(task, cell.method, seed=1, annotator="expert")
        assert (cell.demos, cell.episodes, dict(cell.settings)) == (task.demonstrations, 1000, {})


def test_conditions_reach_the_training_configuration():
    changed = {
        cell.condition: cell_config(cell)
        for name in RECIPES
        for cell in expand(RECIPES[name], seeds=[1])
        if cell.task in ("mortar-mayhem", "searing-spotlights")
    }
    assert changed["middle-layer-all-heads"].heads == "3:all"
    assert changed["last-layer-one-head"].heads == "4:1"
    assert (changed["noise-pq-0.75"].noise_p, changed["noise-pq-0.75"].noise_q) == (0.75, 0.75)
    assert (changed["noise-p-20"].noise_p, changed["noise-p-20"].noise_q) == (20.0, 0.0)
    assert (changed["annotated-0.1"].annotated_fraction, changed["annotated-0.1"].epochs) == (0.001, 600)
    assert (changed["annotated-5"].annotated_fraction, changed["annotated-5"].epochs) == (0.05, 300)
    split = changed["split-4-heads"]
    assert (split.split_pairs, split.model.heads, len(split.supervised())) == (True, 4, 4)
    assert changed["shuffled-pairs"].pairs == "shuffled"
    more = make_cell("hallway", RECIPES["scaling"].columns[2], 1, "paper")
    assert (more.condition, more.demos, more.epochs) == ("demos-4x", 20_000, 600)


def test_recipes_share_the_record_of_the_same_experiment():
    table1 = {cell.name: cell for cell in expand(get_recipe("table1"))}
    for name in ("placement", "missing", "imprecise-p", "imprecise-pq", "scaling", "split", "controls"):
        shared = [cell for cell in expand(get_recipe(name)) if cell.condition == "standard"]
        assert shared
        assert all(cell == table1[cell.name] and cell.folder == "table1" for cell in shared)
    assert {cell.folder for cell in expand(get_recipe("value"))} == {"table1", "missing", "scaling"}


def test_names_are_unique_and_cells_survive_json():
    cells = [cell for scale in ("paper", "small", "smoke") for name in RECIPES for cell in expand(RECIPES[name], scale)]
    distinct = {json.dumps(cell.to_json(), sort_keys=True) for cell in cells}
    assert len({(cell.folder, cell.name) for cell in cells}) == len(distinct)
    cell = cells[-1]
    assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell


def test_the_demo_has_two_tasks():
    assert {cell.task for cell in expand(get_recipe("table1"), "demo")} == {"hallway", "counting"}
    assert {cell.task for cell in expand(get_recipe("table1"), "small")} == set(published.TASK_ORDER)


def few(scale: str = "paper", *only: str) -> list[Cell]:
    return expand(get_recipe("few"), scale, only)


def test_few_is_six_tasks_five_sizes_five_methods_and_three_seeds():
    cells = few()
    assert len(cells) == 6 * 5 * 5 * 3
    assert {cell.folder for cell in cells} == {"few"}
    assert {cell.seed for cell in cells} == {1, 2, 3}
    assert {(cell.demos, cell.episodes) for cell in cells} == {(1000, 1000)}  # one data set for all sizes
    assert {cell.condition: cell_config(cell).demos for cell in cells if "random" not in cell.condition} == {
        f"few-{demos}": demos for demos in (20, 50, 100, 300, 1000)
    }
    control = cell_config(few("paper", "few-50-random-pairs")[0])
    assert (control.method, control.pairs, control.demos) == ("recall", "random", 50)


def test_few_runs_a_hundred_demonstrations_first_and_recall_heads_first_of_all():
    cells = few()
    sizes = list(dict.fromkeys(cell.facts.demonstrations for cell in cells))
    assert sizes == [100, 300, 50, 1000, 20]
    methods = ["recall", "recall-vanilla", "recall", "vanilla", "attentiontuner"]
    for start in range(0, 90, 18):
        stage = cells[start : start + 18]
        assert {cell.method for cell in stage} == {methods.pop(0)}
        assert [cell.seed for cell in stage] == [1] * 6 + [2] * 6 + [3] * 6
    assert cells[36].condition == "few-100-random-pairs"


@pytest.mark.parametrize("method", ["vanilla", "attentiontuner"])
def test_the_papers_methods_have_settings_of_their_own_and_as_many_epochs(method):
    own = {(cell.task, cell.condition, cell.seed): cell.epochs for cell in few("paper", "recall")}
    for cell in few("paper", method):
        config = cell_config(cell)
        assert config.epochs == own[cell.task, cell.condition, cell.seed]
        for part, given in ((config, FEW_BASELINES["config"]), (config.model, FEW_BASELINES["model"])):
            assert {name: getattr(part, name) for name in given} == given


@pytest.mark.parametrize("scale", ["smoke", "small", "demo"])
def test_few_takes_no_more_than_the_scale_has(scale):
    for cell in few(scale):
        sizes = get_scale(scale).sizes(cell.task)
        assert cell.facts.demonstrations <= cell.demos <= sizes.demos
        if sizes.epochs:
            assert cell.epochs * cell.facts.demonstrations <= sizes.epochs["*"] * sizes.demos * 1.05


def test_the_demo_trains_on_a_hundred_demonstrations_in_the_papers_world():
    cells = few("demo", "hallway", "recall", "recall-vanilla", "few-100")
    assert [cell.method for cell in cells] == ["recall", "recall-vanilla"]
    for cell in cells:
        assert (cell.demos, cell.facts.demonstrations, cell.episodes) == (100, 100, 300)
        assert get_task(cell.task, cell.settings) == get_task("hallway")
        same = next(other for other in few("paper", "hallway", cell.method, "few-100") if other.seed == 1)
        assert cell.config == same.config


def test_a_recipe_looks_at_the_data_of_its_cell(monkeypatch):
    def recipe(self, task, data):
        return {"epochs": data.demonstrations // 10 + round(100 * data.annotated), "model": {"d_model": 48}}

    monkeypatch.setattr(type(get_method("recall")), "recipe", recipe)
    cell = few("paper", "hallway", "recall", "few-300")[0]
    assert (cell.epochs, cell_config(cell).model.d_model) == (130, 48)
    standard = expand(get_recipe("recall-labels"), only=["annotated-10"])[0]
    assert standard.epochs == standard.demos // 10 + 10
    smaller = few("smoke", "hallway", "recall", "few-300")[0]
    assert cell_config(smaller).model.d_model == smaller.config["model"]["d_model"] == 16  # the scale's goes first


def test_only_and_seeds():
    cells = expand(get_recipe("table1"), only=["hallway", "ordering", "vanilla"], seeds=[2, 7])
    assert {(cell.task, cell.method) for cell in cells} == {("hallway", "vanilla"), ("ordering", "vanilla")}
    assert {cell.seed for cell in cells} == {2, 7}


def test_robots_are_compared_with_networks_that_see_the_present_alone_and_that_have_no_pairs():
    cells = expand(get_recipe("robots"), only=["remember-reach", "few-300", "few-300-no-memory"], seeds=[1])
    assert [(cell.method, cell.condition) for cell in cells] == [
        *(("recall", "few-300"), ("recall-vanilla", "few-300"), ("recall-vanilla", "few-300-no-memory"))
    ]
    pairs, no_pairs, present = (cell_config(cell) for cell in cells)
    assert {config.epochs for config in (pairs, no_pairs, present)} == {60}
    assert replace(pairs.model, whole=None) == replace(no_pairs.model, whole=None)
    assert (no_pairs.model.past, present.model.past) == (True, False)
    assert not any(config.model.last_action or config.model.products for config in (pairs, no_pairs, present))
    now = expand(get_recipe("robots"), only=["remember-reach", "few-300-products"], seeds=[1])
    assert [cell.method for cell in now] == ["recall", "recall-vanilla"]
    for cell, before in zip(now, (pairs, no_pairs), strict=True):
        assert cell_config(cell).model == replace(before.model, products=True)


def test_a_camera_sees_the_same_tasks_with_the_recipe_of_images():
    cells = expand(get_recipe("robots-camera"))
    assert {cell.task for cell in cells} == {"remember-reach", "remember-colour", "blink-count"}
    assert [(cell.method, cell.condition) for cell in cells[::3]] == [
        *(("recall", "camera-300"), ("recall-vanilla", "camera-300"), ("recall-vanilla", "camera-300-no-memory")),
    ]
    assert all(cell_config(cell).model.products for cell in cells)
    for cell in cells:
        config = cell_config(cell)
        assert (cell.folder, cell.settings["cameras"], cell.seed) == ("robots-camera", CAMERA_PIXELS, 1)
        assert config.model.observation.kinds == {"image", "vector"}
        assert (cell.demos, cell.epochs, config.model.teacher) == (300, 160, 0.5)  # of images, not of numbers
        assert config.model.past is not cell.condition.endswith("no-memory")


def test_memories_are_four_tasks_ten_methods_two_sizes_and_three_seeds_the_fewest_demonstrations_first():
    cells = expand(get_recipe("memories"))
    assert len(cells) == 4 * 10 * 2 * 3
    assert {(cell.seed, cell.condition) for cell in cells[:40]} == {(1, "few-300")}
    assert {cell.method for cell in cells[:3]} == {"gru", "lru", "slots"}
    assert {cell.folder for cell in cells if cell.method in ("recall", "vanilla") and cell.task == "hallway"} == {"few"}
    assert {cell.folder for cell in cells if cell.task == "tmaze-1000" or cell.method == "gru"} == {"memories"}
    assert {get_task(cell.task, cell.settings).max_steps for cell in cells if "tmaze" in cell.task} == {310, 1010}
    for cell in cells:
        assert (cell.demos, cell_config(cell).batch_size) == (1000, 8)
        assert cell.condition == f"few-{cell.facts.demonstrations}"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: get_recipe("table9"), "unknown recipe 'table9'"),
        (lambda: expand(get_recipe("table1"), "huge"), "unknown scale 'huge'"),
        (lambda: expand(get_recipe("table1"), only=["maze"]), "--only maze"),
        (lambda: expand(get_recipe("missing"), seeds=[1, 99]), "has no seed 99, its last is 5"),
        (lambda: expand(get_recipe("table1"), only=["mystery-path"], seeds=[12]), "no cell with these --only and"),
    ],
)
def test_unknown_names_are_one_clear_line(call, words):
    with pytest.raises(UserError, match=words) as error:
        call()
    assert "\n" not in str(error.value)
