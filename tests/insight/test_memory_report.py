"""A memory report: what it finds without any label, what it says, and what it leaves in its folder."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.numpy import load, save

from attentiontuner.cli.memory_report import memory_report as command
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json
from attentiontuner.demos import DemoStore, DemoWriter
from attentiontuner.insight import evidence, looks, need, past
from attentiontuner.insight.memory_report import memory_report
from attentiontuner.insight.recommendations import read_recommendations
from attentiontuner.insight.report_figures import along_the_episode, gains
from attentiontuner.spaces import ActionSpec, ObservationSpec
from tests.insight.cues import ACTIONS, FORK_AT, GRID, IMAGE, STEERING, TWO_CHOICES, VECTOR, cue_store, parity_store

EPISODES = 60
PARTS = ObservationSpec(parts={"map": GRID.parts[0][1], "state": VECTOR.parts[0][1]})


def hurry(patch):
    patch.setattr(need, "PASSES", 5)
    patch.setattr(looks, "PASSES", 40)
    patch.setattr(looks, "LEAST", 20)
    patch.setattr(looks, "PATIENCE", 4)
    patch.setattr(past, "PASSES", 2)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    hurry(monkeypatch)


def suggested(out) -> dict[int, list[dict]]:
    lines = (out / "pairs.jsonl").read_text().splitlines()
    return {line["episode"]: line["suggestions"] for line in map(json.loads, lines)}


def share_found(out, store) -> float:
    """The share of demonstrations whose strongest suggested pair is the expert's."""
    found, true = suggested(out), store.read_pairs()
    right = 0
    for episode in range(len(store)):
        pair = next(iter(true.one(episode)))
        best = max(found.get(episode, ()), key=lambda each: each["gain"], default=None)
        right += best is not None and (best["p"], best["q"]) == (pair.p, pair.q)
    return right / len(store)


@pytest.mark.parametrize(
    ("observation", "actions"),
    [(PARTS, TWO_CHOICES), (IMAGE, ACTIONS), (VECTOR, STEERING)],
    ids=["parts-choices", "image", "vector-numbers"],
)
def test_the_frame_recalled_is_found_without_a_label(tmp_path, observation, actions: ActionSpec):
    store = cue_store(tmp_path / "data", EPISODES, observation, actions)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "needed"
    assert share_found(tmp_path / "out", store) >= 0.9


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of cues and its report."""
    folder = tmp_path_factory.mktemp("cues")
    store = cue_store(folder / "data", EPISODES)
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        findings = memory_report(folder / "data", folder / "out", count=5)
    return store, folder / "out", findings


def test_demonstrations_to_annotate_have_reasons(made):
    _, out, findings = made
    recommended = read_json(out / "recommended.json")
    assert recommended["verdict"] == "needed"
    assert recommended["headline"] == "A memory is needed. Annotate these 5 demonstrations first."
    first = recommended["demonstrations"]
    assert len({each["episode"] for each in first}) == 5
    for each in first:
        assert "needs a memory" in each["reason"]
        for pair in each["suggestions"]:
            assert pair["p"] < pair["q"] == FORK_AT
            assert 0 < pair["weight"] <= 1
            assert f"with step {pair['p']} in mind" in pair["reason"]
    actions = {int(made[0][each["episode"]].actions[FORK_AT]) for each in first[:2]}
    assert len(actions) == 2, "the second shows what the first does not"
    assert len(findings.recommended) == 5


def test_the_studio_can_read_it(made):
    store, out, findings = made
    read = read_recommendations(out, store)
    assert [each.episode for each in read.first] == [each.episode for each in findings.recommended]
    assert [each.reason for each in read.first] == [each.reason for each in findings.recommended]
    assert {episode: len(own) for episode, own in read.suggestions.items()} == {
        episode: len(own) for episode, own in suggested(out).items()
    }
    assert f"attentiontuner annotate {store.path} --suggest {out}" in (out / "index.html").read_text()


def test_the_table_says_in_which_phase_a_memory_is_needed(made):
    _, out, findings = made
    phases = read_json(out / "findings.json")["phases"]
    assert [each["need_a_memory"] > 0 for each in phases] == [False, False, False, True, False]  # step 6 of 8
    assert sum(each["steps"] for each in phases) == 8 * EPISODES
    fourth = phases[3]
    assert fourth["surprise_with_frames"] < 0.5 * fourth["surprise"]
    assert set(findings.distances) <= {FORK_AT - 1, FORK_AT - 2}
    assert findings.things == {1: EPISODES}


def test_the_page_stands_alone(made):
    page = (made[1] / "index.html").read_text()
    assert not re.search(r"(src|href|srcset)=\"(?!data:)", page)
    assert "http://" not in page
    assert "https://" not in page
    assert "prefers-color-scheme: dark" in page
    for words in ("A memory is needed", "fourth fifth", "Annotate these first", "what it cannot tell"):
        assert words in page


def test_it_goes_on_from_what_is_there(made, tmp_path, monkeypatch):
    store, out, _ = made
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    for stage in ("Judges", "explain", "with_whole_past"):
        monkeypatch.setattr(evidence, stage, None)
    memory_report(store.path, out, count=5)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    gained = out / "work" / "past.safetensors"
    sound = gained.read_bytes()
    for wrong in (sound[:-2] + bytes([sound[-2] ^ 64, sound[-1]]), save(load(sound))):  # a flipped bit; no checksum
        gained.write_bytes(wrong)
        with pytest.raises(UserError, match="past.safetensors is damaged: .* checksum.*; delete it, and"):
            memory_report(store.path, out, count=5)
    gained.write_bytes(sound)
    with pytest.raises((TypeError, AttributeError)):  # another seed: nothing of it may be used
        memory_report(store.path, out, seed=1)
    assert not list((out / "work").glob("*.safetensors"))


def test_the_report_of_another_data_set_is_not_replaced(made, tmp_path, monkeypatch):
    store, out, _ = made
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    cue_store(tmp_path / "other", 16, PARTS, TWO_CHOICES)
    with pytest.raises(UserError, match="report of other demonstrations than .*other holds: give a new folder"):
        memory_report(tmp_path / "other", out)
    assert {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    # Of a data set that has grown, and where the report says no more whose it is, it is made again.
    grown, begun = DemoStore.open(shutil.copytree(store.path, tmp_path / "grown")), []
    facts = {"task": grown.task, "observation": grown.observation, "actions": grown.actions}
    DemoWriter(grown.path, settings=grown.settings, seed=grown.seed, **facts).append(
        [replace(grown[0], seed=10**6, pairs=None)]
    )
    assert len(DemoStore.open(grown.path)) == EPISODES + 1
    monkeypatch.setattr("attentiontuner.insight.memory_report.gather", lambda *_, **__: begun.append(1) or 1 / 0)
    shutil.copytree(out, tmp_path / "report")
    for content in (None, "", "{}", '{"data": {"shards": null}}'):
        if content is not None:
            (tmp_path / "report" / "recommended.json").write_text(content)
        with pytest.raises(ZeroDivisionError):
            memory_report(grown.path, tmp_path / "report")
    assert len(begun) == 4


def test_ctrl_c_leaves_finished_stages_and_no_report(tmp_path, monkeypatch):
    cue_store(tmp_path / "data", 16, PARTS, TWO_CHOICES)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(evidence, "explain", stopped)
    with pytest.raises(KeyboardInterrupt):
        memory_report(tmp_path / "data", tmp_path / "out")
    left = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert left == [".lock", "alone.safetensors", "settings.json"]
    torch.manual_seed(7)  # whatever was drawn before, the report's seed tells what is drawn
    with pytest.raises(KeyboardInterrupt):
        memory_report(tmp_path / "data", tmp_path / "again")
    first, again = ((tmp_path / name / "work" / "alone.safetensors").read_bytes() for name in ("out", "again"))
    assert first == again


def test_what_the_present_tells_needs_no_memory(tmp_path):
    cue_store(tmp_path / "data", EPISODES, remembered=False)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "not needed"
    assert findings.headline == "Memory is not your problem."
    assert findings.recommended == ()
    assert suggested(tmp_path / "out") == {}


def test_an_expert_who_acts_at_random_is_not_said_to_remember(tmp_path, monkeypatch):
    monkeypatch.setattr("attentiontuner.insight.findings.UNSURE", 0.05)
    monkeypatch.setattr(looks, "PASSES", 3)
    parity_store(tmp_path / "data", EPISODES, told=False)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "unclear"
    assert all(pair.p is None for each in findings.recommended for pair in each.suggestions)
    assert {pair.q for each in findings.recommended for pair in each.suggestions} == {FORK_AT}


def test_where_only_the_whole_past_tells_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(past, "PASSES", 20)
    monkeypatch.setattr(past, "RATE", 1e-2)
    monkeypatch.setattr(looks, "PASSES", 2)
    parity_store(tmp_path / "data", 160)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "needed"
    assert not len(findings.distances)
    assert findings.past.errors > 3
    assert any("several things may be recalled together" in reason for reason in findings.reasons)


def test_of_many_demonstrations_some_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MOST_STEPS", 20 * 8)
    monkeypatch.setattr(looks, "PASSES", 2)
    cue_store(tmp_path / "data", 40, GRID)
    memory_report(tmp_path / "data", tmp_path / "out")
    numbers = read_json(tmp_path / "out" / "findings.json")
    assert numbers["demonstrations"] == 20
    assert "20 demonstrations, drawn at random from 40" in (tmp_path / "out" / "index.html").read_text()
    assert set(suggested(tmp_path / "out")) <= set(range(40))


def test_what_failed_is_left_out_as_train_does(tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "PASSES", 2)
    whole = cue_store(tmp_path / "whole", 15)
    for name, worth, failed in (
        ("some", {1, 2}, "10 demonstrations (5 failed and are left out)"),
        ("most", {1}, "15 d"),
    ):
        writer = DemoWriter(tmp_path / name, task="cues", observation=VECTOR, actions=ACTIONS)
        writer.append([replace(demo, success=demo.episode % 3 in worth, episode=None) for demo in whole], "expert")
        memory_report(tmp_path / name, tmp_path / f"{name}-report")
        assert f"Looked at: {failed}" in (tmp_path / f"{name}-report" / "index.html").read_text()
        looked_at = evidence.worth_looking_at(DemoStore.open(tmp_path / name)).tolist()
        assert looked_at == [episode for episode in range(15) if name == "most" or episode % 3]
        assert set(suggested(tmp_path / f"{name}-report")) <= set(looked_at)


def test_mistakes_are_told_in_one_line(tmp_path):
    cue_store(tmp_path / "few", 3)
    with pytest.raises(UserError, match="holds 3 demonstrations: a memory report needs 8"):
        memory_report(tmp_path / "few", tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no memory report: give a new folder"):
        memory_report(tmp_path / "few", tmp_path / "other")
    with pytest.raises(UserError, match="--count 0: 1 or more"):
        command(tmp_path / "few", tmp_path / "out", count=0)


def test_of_numbers_the_error_is_shown_and_no_chance(tmp_path):
    """A density has no 0 that says anything, and no chance above one half."""
    store = cue_store(tmp_path / "data", EPISODES, VECTOR, STEERING)
    findings = memory_report(tmp_path / "data", tmp_path / "out")
    assert findings.verdict == "needed"
    assert findings.surprise > 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "beside the better of two answers from the present alone" in page
    for wrong in ("a chance above one half", "nats of surprise", "surprise without a memory"):
        assert wrong not in page
    phases = read_json(tmp_path / "out" / "findings.json")["phases"]
    errors = [phase["error"] for phase in phases]
    assert errors[3] == max(errors) > 0.3  # -0.8 or 0.8 at step 6 of 8, and nothing tells which
    assert phases[3]["gain_of_frames"] > 0.3
    found = evidence.gather(store, tmp_path / "out" / "work", seed=0)
    assert [len(axes.lines) for axes in along_the_episode(found).axes] == [1]
    (bars,) = gains(findings).axes
    assert len(bars.patches) == 2  # and none of all surprise there is


def test_parts_of_an_episode_without_a_step_are_not_drawn(made):
    store, out, _ = made
    axes = along_the_episode(evidence.gather(store, out / "work", seed=0)).axes[0]
    assert [len(line.get_xdata()) for line in axes.lines] == 3 * [8]  # steps, not 20 parts
