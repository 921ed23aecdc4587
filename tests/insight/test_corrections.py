"""Corrections: what the past tells where actions are numbers, and that what the present tells is not counted."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attentiontuner.collecting.collection import collect
from attentiontuner.core.files import read_json
from attentiontuner.demos import DemoStore, DemoWriter
from attentiontuner.insight import need
from attentiontuner.insight.memory_report import memory_report
from attentiontuner.models.actions import NARROWEST, MixtureHead, action_head
from attentiontuner.spaces import ActionSpec
from tests.insight.cues import IMAGE, STEERING, VECTOR, cue_store, reach_store

EPISODES = 40


def fully_observed(store: DemoStore, path: Path) -> DemoStore:
    """A copy of one of our robots' data sets whose observations show at every step what else has to be remembered: the
    disc, the colour, or how many presses are left."""
    writer = DemoWriter(path, task=store.task, observation=store.observation, actions=store.actions)
    made = []
    for demonstration in store.annotated_by(None):
        seen = np.array(demonstration.observations)
        if store.task == "remember-reach":
            seen[:, 15:18] = seen[0, 15:18]  # that it is lit, and where
        elif store.task == "remember-colour":
            seen[:, 14:23] = seen[0, 14:23]
        else:
            seen[:, 14] = seen[:, 14].sum() - seen[:, 16].cumsum()  # blinks, and presses
        made.append(replace(demonstration, observations=seen, episode=None))
    writer.append(made)
    return DemoStore.open(path)


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(need, "PASSES", 1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("task", ["remember-reach", "remember-colour", "blink-count"])
def test_robots_need_a_memory_and_those_that_see_everything_do_not(tmp_path, task):
    pytest.importorskip("mujoco")
    fully_observed(collect(task, 100, 1, tmp_path / "data", workers=1), tmp_path / "seen")
    assert memory_report(tmp_path / "data", tmp_path / "report").verdict == "needed"
    assert memory_report(tmp_path / "seen", tmp_path / "seen-report").verdict == "not needed"


@pytest.mark.usefixtures("quickly")
def test_a_place_seen_before_is_needed_and_one_in_view_is_not(tmp_path):
    """These policies have hardly learned: where all is in view, too, there is much that they could do better."""
    verdicts = {}
    for shown in (False, True):
        reach_store(tmp_path / f"{shown}", EPISODES, shown)
        verdicts[shown] = memory_report(tmp_path / f"{shown}", tmp_path / f"{shown}-report")
    remembered, seen = verdicts[False], verdicts[True]
    assert remembered.verdict == "needed"
    assert remembered.past.errors > 5
    assert remembered.frames.errors > 5
    assert set(remembered.recalled_steps) == {0}, "the first of those that show the place"
    assert seen.surprise > 1
    assert seen.verdict == "not needed"
    assert seen.past.mean <= 0.1
    told = read_json(tmp_path / "True-report" / "findings.json")
    assert told["gains"]["frames"] == {"nats": 0, "standard_error": 0}


@pytest.mark.usefixtures("quickly")
def test_steps_without_a_past_may_be_asked_about(tmp_path):
    """As many steps are in question as there are, if they are few: the first ones, too, before which nothing was."""
    cue_store(tmp_path / "data", 8, VECTOR, STEERING)
    assert memory_report(tmp_path / "data", tmp_path / "out").verdict in ("needed", "not needed")


@pytest.mark.usefixtures("quickly")
def test_nobody_says_that_pictures_need_no_memory(tmp_path):
    cue_store(tmp_path / "data", 16, IMAGE, STEERING, remembered=False)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "unclear"
    assert any("pictures" in reason for reason in findings.reasons)


def test_an_answer_is_corrected_where_it_is_unsure():
    head = action_head(ActionSpec.box([-1.0], [1.0]))
    assert isinstance(head, MixtureHead)
    head.fit([np.linspace(-1, 1, 1001, dtype=np.float32)[:, None]])
    drawn = torch.randn(1, head.width, generator=torch.Generator().manual_seed(3))
    at = torch.linspace(-6, 6, 4001)
    actions = (at * head.spread + head.centre)[:, None]

    def density(distribution):
        return (-head.negative_log_likelihood(distribution.expand(len(at), -1), actions)).exp()

    said, off = torch.tensor([[0.5]]), torch.tensor([[0.4]])
    corrected = density(head.corrected(drawn, said, off))
    product = density(drawn) * (-((at - 0.5) ** 2) / (2 * 0.4**2)).exp()
    step = float(actions[1] - actions[0])
    assert torch.allclose(corrected, product / (product.sum() * step), atol=1e-3)
    assert torch.allclose(density(head.corrected(drawn, said, 1e3 * off)), density(drawn), atol=1e-4)
    sharp = head.corrected(drawn, said, 1e-3 * off)  # no surer than any answer can be
    assert float(density(sharp).max()) <= 1.01 / (NARROWEST * float(head.spread) * math.sqrt(2 * math.pi))
