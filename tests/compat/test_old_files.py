"""Data sets, runs, evaluations and records that revision 2b3d0ce wrote: all of them open, and say what they said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import attentiontuner as at
from attentiontuner.cli import main
from tests.compat.files import DATA, MADE, RUNS, TINY, answers_of, content_of, expected, lines_of, unpacked
from tests.compat.golden import without_times
from tests.compat.inside import annotate, remarks

pytestmark = pytest.mark.usefixtures("one_thread")


def command(*words: object) -> int:
    return main([str(word) for word in words])


def known(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The entries of `found` that there were then; others may have come since."""
    return {name: found.get(name) for name in wanted}


# --- data sets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_a_data_set_says_what_it_said(tmp_path: Path, name: str) -> None:
    found, wanted = content_of(unpacked(f"data/{name}", tmp_path)), expected("data", name)
    assert known(found.pop("summary"), wanted["summary"]) == wanted.pop("summary")
    assert found == wanted


@pytest.mark.parametrize("name", DATA)
def test_inspect_finds_it_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert command("inspect", unpacked(f"data/{name}", tmp_path), "--verify", "--json") == 0
    found, wanted = json.loads(capsys.readouterr().out), expected("data", name)["summary"]
    assert found["verified"]
    assert known(found, wanted) == wanted


@pytest.mark.parametrize("episode", [0, 2, 4])
def test_what_an_annotator_said_is_kept(tmp_path: Path, episode: int) -> None:
    assert remarks(unpacked("data/hallway", tmp_path), "anna", episode) == expected("anna", str(episode))


def test_a_new_annotation_leaves_the_old_lines_as_they_are(tmp_path: Path) -> None:
    data = unpacked("data/hallway", tmp_path)
    annotate(data, "anna", 1, [(0, 3)])
    annotate(data, "anna", 4, [(1, 15, 2)])
    before, after = (
        [line for index in (0, 1) for line in (root / f"annotations/anna/0000{index}.jsonl").read_text().splitlines()]
        for root in (MADE / "data" / "hallway", data)
    )
    assert [after[0], after[2]] == before[:2]
    assert [json.loads(line)["episode"] for line in after] == [0, 1, 2, 4]
    assert json.loads(after[3]) == {"episode": 4, "pairs": {"15": "1x2"}, "revision": 2}


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_a_network_answers_what_it_answered(tmp_path: Path, name: str) -> None:
    run, data = unpacked(f"runs/{name}", tmp_path), unpacked(f"data/{RUNS[name]}", tmp_path)
    wanted = expected("runs", name)
    assert_answers(answers_of(run, data), wanted)
    if "best" in wanted:
        assert_answers(answers_of(run, data, best=True), wanted["best"])


def assert_answers(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["parameters"] == wanted["parameters"]
    for way in ("forward", "streamed"):
        np.testing.assert_allclose(found[way], wanted[way], rtol=0, atol=2e-5, err_msg=way)


@pytest.mark.parametrize("name", RUNS)
def test_the_same_configuration_makes_the_same_run(tmp_path: Path, name: str) -> None:
    """Its first four epochs; it is read from the old run's file."""
    old, data = unpacked(f"runs/{name}", tmp_path), unpacked(f"data/{RUNS[name]}", tmp_path)
    before = json.loads((old / "config.json").read_text())
    config = at.TrainConfig.from_json(before["train"])
    drawn = tuple(epoch for epoch in config.heatmap_epochs if epoch == 0)
    result = at.train(
        replace(config, epochs=4, heatmap_epochs=drawn), at.DemoStore.open(data), tmp_path / "again", device="cpu"
    )
    wanted = without_times(lines_of(old / "metrics.jsonl"))[:4]
    found = [known(epoch, then) for epoch, then in zip(without_times(result.metrics), wanted, strict=True)]
    assert found == [pytest.approx(epoch, rel=5e-5) for epoch in wanted]
    after = json.loads((tmp_path / "again" / "config.json").read_text())
    made = at.TrainConfig.from_json(after["train"])
    assert replace(made, epochs=config.epochs, heatmap_epochs=config.heatmap_epochs) == config
    assert after["data"] == before["data"]
    for path in (tmp_path / "again" / "heatmaps").glob("*.safetensors"):
        now, then = load_file(path), load_file(old / "heatmaps" / path.name)
        assert set(now) == set(then)
        for key, tensor in then.items():
            np.testing.assert_allclose(now[key].astype(float), tensor.astype(float), atol=1e-4, err_msg=key)
    assert (tmp_path / "again" / "heatmaps").exists() == bool(drawn)


def test_an_unfinished_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    run, data = unpacked("runs/vector-recall-unfinished", tmp_path), unpacked("data/vector", tmp_path)
    whole = unpacked("runs/vector-recall", tmp_path)
    begun = lines_of(run / "metrics.jsonl")
    words = ("train", "compat-vector", "--data", data, "--out", run, "--method", "recall", *TINY)
    assert command(*words, "--seed", 2) == 2  # another run's
    assert command(*words) == 0
    metrics, wanted = lines_of(run / "metrics.jsonl"), lines_of(whole / "metrics.jsonl")
    assert (len(begun), len(metrics)) == (2, 4)
    assert metrics[:2] == begun  # with their times: they were not trained again
    found = [known(epoch, then) for epoch, then in zip(without_times(metrics), without_times(wanted), strict=True)]
    now, then = load_file(run / "model.safetensors"), load_file(whole / "model.safetensors")
    assert list(now) == list(then)
    assert found == [pytest.approx(epoch, rel=5e-5) for epoch in without_times(wanted)]
    for key, tensor in then.items():
        np.testing.assert_allclose(now[key], tensor, atol=1e-5, err_msg=key)


# --- evaluations and records -----------------------------------------------------------------------------------------


def test_a_killed_evaluation_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = unpacked("runs/hallway-attentiontuner", tmp_path), unpacked("evaluation/killed", tmp_path)
    wanted = lines_of(MADE / "evaluation" / "finished" / "episodes.jsonl")
    summary = json.loads((folder / "summary.json").read_text())
    summary["of"]["version"] = at.__version__  # another version plays all episodes again, on purpose
    (folder / "summary.json").write_text(json.dumps(summary))
    marked = (
        (folder / "episodes.jsonl").read_text().replace('"return": 0.0, "length": 18', '"return": 0.25, "length": 18')
    )
    (folder / "episodes.jsonl").write_text(marked)
    wanted[0]["return"] = 0.25  # a finished episode is not played again
    options = ("--episodes", 12, "--workers", 0, "--device", "cpu", "--out", folder, "--json")
    assert command("evaluate", run, *options) == 0
    assert lines_of(folder / "episodes.jsonl") == wanted
    assert not (folder / "earlier").exists()
    told = json.loads(capsys.readouterr().out)
    assert (told["episodes"], told["successes"], told["mean_length"]) == (12, 0, 15.0)


def test_records_count_as_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = unpacked("records", tmp_path)
    words = ("--seeds", 1, "--scale", "smoke", "--records", records)
    assert command("reproduce", "table1", "--only", "hallway,attentiontuner", *words) == 0
    assert "1 cell: 1 with a record, 0 to run" in capsys.readouterr().err
    assert command("reproduce", "recall", "--only", "counting,recall", *words) == 2  # recall heads are others now
    assert "is of another experiment (weight_decay 0.0, not 1.0)" in capsys.readouterr().err
    assert sorted(path.name for path in records.rglob("*") if path.is_file()) == [
        "counting--recall--standard--seed1.json", "hallway--attentiontuner--standard--seed1.json",
    ]  # fmt: skip


def test_records_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = unpacked("records", tmp_path)
    assert command("report", "--records", records, "--out", tmp_path / "report") == 0
    assert capsys.readouterr().err.count("is of another experiment") == 1
    text = (tmp_path / "report" / "README.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| Hallway")]
    assert rows == expected("report", "rows")[:1]  # of the others recall heads are a part
    drawn = {path.name for path in (tmp_path / "report" / "figures").iterdir()}
    of_recall = {"recall.png", "recall-curves.png", "heads-counting.png"}
    assert drawn >= set(expected("report", "figures")) - of_recall
