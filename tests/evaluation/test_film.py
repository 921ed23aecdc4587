"""Recall films: what they record, what they show, how large they are."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor

from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.evaluation.filming import choose, make_films, record_recall
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.evaluation.rollout import EpisodeResult
from attentiontuner.experts.expert import Decision
from attentiontuner.models import Head
from attentiontuner.models.sizes import TransformerConfig
from attentiontuner.models.transformer import Transformer
from attentiontuner.runs.config import paper_config
from attentiontuner.runs.run import Run, Trained
from attentiontuner.tasks.task import get_task
from attentiontuner.viz import films as film
from tests.continuous_tasks import POINT
from tests.evaluation.toys import recall_task

SMALL = {"d_model": 16, "layers": 2, "heads": 2, "feedforward": 32}


FIRST = Head(0, 0)


def policy_for(task, watch=(FIRST,)):
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(task.observation, task.actions, **SMALL))
    return ModelPolicy(model, task.max_steps, watch=watch)


def test_a_recording_has_attention_and_the_experts_memory():
    task, seed = recall_task(), EVALUATION_START
    recalled = record_recall(policy_for(task), task, seed, episode=4)
    length = len(recalled)
    weights = recalled.weights[Head(0, 0)]
    assert weights.shape == (length, length)
    assert not np.triu(weights, 1).any()
    assert (weights.sum(1) <= 1 + 1e-5).all()
    assert weights[0, 0] == pytest.approx(1)
    assert [recalled.expert_recalls(step) for step in range(length)] == [[]] * (length - 1) + [[0]]
    past, weight = recalled.attended(Head(0, 0), length - 1, most=1)[0]
    assert weight == weights[-1, :-1].max() == weights[-1, past]


class LostExpert:
    def __init__(self, env):
        self.step = 0

    def decide(self, observation):
        self.step += 1
        if self.step == 2:
            raise RuntimeError("this is not where I wanted to be")
        return Decision(0)


def test_an_expert_that_loses_its_way_does_not_stop_the_film(tmp_path):
    task = dataclasses.replace(recall_task(), expert=LostExpert)
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    assert recalled.expert[0] is not None
    assert recalled.expert[1:] == [None] * (len(recalled) - 1)
    film.save_film(recalled, tmp_path / "film.gif")


class UnmadeExpert:
    def __init__(self, env):
        raise KeyError("no map")


class DecidedExpert:
    """Gives `decision` at step 1."""

    def __init__(self, decision):
        self.decision, self.step = decision, 0

    def decide(self, observation):
        self.step += 1
        return self.decision if self.step == 2 else Decision(0)


@pytest.mark.parametrize(
    ("expert", "text"),
    [
        (LostExpert, "at step 1: .*test_film.py, line [0-9]+: RuntimeError: this is not where I wanted to be"),
        (UnmadeExpert, "at step 0: .*line [0-9]+: KeyError: 'no map'"),
        (lambda env: DecidedExpert(Decision(0, (40,))), "at step 1: the expert recalls step 40 at step 1"),
        (lambda env: DecidedExpert(Decision(0, (1,))), "at step 1: the expert recalls step 1 at step 1"),
        (lambda env: DecidedExpert(Decision(0, (-1,))), "at step 1: the expert recalls step -1 at step 1"),
        (lambda env: DecidedExpert(Decision(4)), "at step 1: the expert chose action 4, but there are only 4 actions"),
        (lambda env: DecidedExpert(Decision(0.5)), "at step 1: the expert chose action 0.5: expected whole numbers"),
        (lambda env: DecidedExpert(3), "at step 1: the expert decides with a int, not with a Decision"),
    ],
)
def test_a_film_without_its_expert_says_why_in_one_line(tmp_path, capsys, expert, text):
    task = dataclasses.replace(recall_task(), expert=expert)
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    said = capsys.readouterr().err
    assert re.search(text, said)
    assert said.startswith(f"attentiontuner: film of episode 0 (seed {EVALUATION_START}): ")
    assert said.endswith("; the film goes on without it\n")
    assert said.count("\n") == 1
    assert recalled.expert[1:] == [None] * (len(recalled) - 1)
    film.save_film(recalled, tmp_path / "film.gif")


def test_a_film_with_its_expert_says_nothing(capsys):
    task = recall_task()
    record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("heads", [1, 2])
def test_a_hallway_film(tmp_path, heads):
    task = get_task("hallway", {"length": 4})
    recalled = record_recall(policy_for(task, [Head(0, head) for head in range(heads)]), task, EVALUATION_START, 0)
    path = tmp_path / "film.gif"
    film.save_film(recalled, path)
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as picture:
        assert picture.n_frames == len(recalled)
        first = picture.convert("RGB")
        picture.seek(picture.n_frames - 1)
        last = picture.convert("RGB")
        assert picture.info["duration"] == film.STILL
    assert last.getpixel((2, 2)) == (255, 255, 255)
    outcome = film.AGREE if recalled.success else film.DIFFER
    assert tuple(int(outcome[i : i + 2], 16) for i in (1, 3, 5)) in {colour for _, colour in last.getcolors(1 << 20)}
    # The first frame shows the first observation where the present is shown, and the film moves.
    drawn = Image.fromarray(film.draw_observations(task.observation, recalled.observations[:1], tile=40)[0])
    box = (film.MARGIN, film.HEADER + 30, film.MARGIN + 280, film.HEADER + 310)
    difference = np.abs(np.asarray(first.crop(box), int) - np.asarray(drawn, int))
    assert difference.mean() < 8
    assert np.abs(np.asarray(first, int) - np.asarray(last, int)).mean() > 0.5


def test_agreement_is_green_and_a_miss_is_orange():
    task = recall_task()
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    last = len(recalled) - 1

    def colours(weight):
        weights = np.zeros_like(recalled.weights[Head(0, 0)])
        weights[last, 0] = weight
        stage = film._Stage(dataclasses.replace(recalled, weights={Head(0, 0): weights}, success=True), supervised=True)
        drawn = np.asarray(stage.draw(last)).reshape(-1, 3)
        return [
            int((drawn == np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)])).all(1).sum())
            for c in (film.AGREE, film.DIFFER)
        ]

    agreeing, missing = colours(0.8), colours(0.02)
    assert agreeing[0] > missing[0] + 1000
    assert missing[1] > agreeing[1] + 500


def result(episode, success):
    return EpisodeResult(episode, EVALUATION_START + episode, success, 0.0, 5)


def test_films_show_a_success_and_a_failure_if_there_are_any(tmp_path):
    task = recall_task()
    model = policy_for(task).model
    config = paper_config(task, model=SMALL)
    trained = Trained(Run(tmp_path), model, config, "")
    results = [result(0, True), result(1, True), result(2, False), result(3, True)]
    assert [chosen.episode for chosen in choose(results, 2)] == [0, 2]
    assert [chosen.episode for chosen in choose(results, 9)] == [0, 2, 1, 3]
    assert [chosen.episode for chosen in choose(results[:2], 2)] == [0, 1]
    paths = make_films(trained, task, results, 2, tmp_path / "out", device="cpu")
    assert [path.name[:13] for path in paths] == ["episode-0000-", "episode-0002-"]
    assert all(path.exists() for path in paths)


def test_a_film_of_a_recall_network_that_saw_no_pairs(tmp_path):
    task = recall_task()
    config = paper_config(task, "recall", SMALL, memory_weight=0.0)
    trained = Trained(Run(tmp_path), config.network.build().eval(), config, "")
    (path,) = make_films(trained, task, [result(0, True)], 1, tmp_path, device="cpu")
    assert path.exists()


def test_several_things_at_one_step_do_not_outgrow_its_picture():
    task = recall_task()
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    last = len(recalled) - 1

    def painted(weight):
        weights = np.zeros_like(recalled.weights[FIRST])
        weights[last, 0] = weight
        stage = film._Stage(dataclasses.replace(recalled, weights={FIRST: weights}), supervised=True, counts=True)
        colour = np.array([int(film.HEAD_COLOURS[0][i : i + 2], 16) for i in (1, 3, 5)])
        return int((np.asarray(stage.draw(last)) == colour).all(-1).sum())

    assert painted(0.5) + 100 < painted(1.0)
    assert abs(painted(3.0) - painted(1.0)) < 30  # only the number beside the bar is another


def test_the_amount_is_shown_as_it_is_and_as_it_is_read():
    task = recall_task()
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    weights = np.array([0.93, 0.04, 0.93, 0.4, 0.0])
    stages = [
        film._Stage(recalled, True, counts, whole) for counts, whole in ((True, True), (True, False), (False, False))
    ]
    texts = [stage._in_all(weights, 4) for stage in stages]
    assert texts == ["2.30 things in all, read as 2", "2.30 things in all", "the present 0.00"]


def test_a_long_episode_is_shortened_around_what_is_recalled():
    task = recall_task()
    short = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    length = 1000
    decisions = [Decision(0, (1,) if step % 100 == 50 else ()) for step in range(length)]
    recalled = dataclasses.replace(short, actions=np.zeros(length, np.int64), expert=decisions)
    steps = film._steps_shown(recalled)
    assert len(steps) <= film.MOST_FRAMES + 2
    assert {0, 50, 150, 950, 999} <= set(steps)


def test_many_recalled_steps_share_the_weight():
    task = recall_task()
    recalled = record_recall(policy_for(task), task, EVALUATION_START, episode=0)
    last = len(recalled) - 1
    assert last >= 2
    weights = np.full_like(recalled.weights[FIRST], 0.06)
    many = dataclasses.replace(recalled, weights={FIRST: weights}, expert=[Decision(0, range(9))] * len(recalled))
    few = dataclasses.replace(recalled, weights={FIRST: weights}, expert=[Decision(0, (0, 1))] * len(recalled))
    assert many.met(last, 0)
    assert len(many.attended(FIRST, last, most=2)) == 2
    assert not few.met(last, 0)
    assert few.attended(FIRST, last, most=2) == []


def test_a_film_shows_numbers_as_curves_up_to_the_present_step():
    torch.manual_seed(1)
    model = TransformerConfig(POINT.observation, POINT.actions, **SMALL).build()
    recalled = record_recall(ModelPolicy(model, POINT.max_steps, watch=(FIRST,)), POINT, EVALUATION_START, episode=0)
    stage = film._Stage(recalled, supervised=True)
    assert [curves.name for curves in stage.curves] == ["actions", "observations"]
    first, last = (np.asarray(stage.draw(step))[-2 * film.CURVES :] for step in (2, len(recalled) - 1))
    drawn = np.array(ImageColor.getrgb(film.LINE_COLOURS[0]))
    counts = [int((picture == drawn).all(-1).sum()) for picture in (first, last)]
    assert 0 < counts[0] < counts[1]


def test_numbers_near_those_of_the_expert_are_green():
    torch.manual_seed(1)
    model = TransformerConfig(POINT.observation, POINT.actions, **SMALL).build()
    recalled = record_recall(ModelPolicy(model, POINT.max_steps, watch=(FIRST,)), POINT, EVALUATION_START, episode=0)
    exact = np.array([decision.action for decision in recalled.expert])

    def orange(off):
        stage = film._Stage(dataclasses.replace(recalled, actions=exact + np.float32(off), success=True), True)
        now = np.asarray(stage.draw(0))[film.HEADER + 30 + film.NOW_SIDE :, : film.PAST_LEFT - 20]
        return bool((now == ImageColor.getrgb(film.DIFFER)).all(-1).any())

    assert not orange(0.02)
    assert orange(0.1)
