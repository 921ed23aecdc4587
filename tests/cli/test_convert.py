"""`convert` as people run it."""

import json

import pytest

from tests.cli.command import assert_refused, run
from tests.demos.examples import write_store
from tests.demos.lerobot.examples import MADE, change_info, copy_of
from tests.demos.lerobot.make_fixture import TASKS


def test_in_and_out_again(tmp_path):
    done = run("convert", MADE, "--out", tmp_path / "robot", "--task", "cube")
    assert done.returncode == 0, done.stderr
    assert "left out: language_persistent (neither an observation nor 'action')" in done.stdout
    assert "robot: 3 episodes (21 steps) of cube: top image 64×96×3" in done.stdout
    assert "from LeRobot: 3/3" in done.stderr
    for words, images in ((("--video",), 2), ((), 0)):
        out = tmp_path / f"theirs{images}"
        done = run("convert", tmp_path / "robot", "--out", out, "--to", "lerobot", "--fps", 5, *words)
        assert done.returncode == 0, done.stderr
        assert "3 episodes (21 steps) of cube for LeRobot, with the pairs of anna" in done.stdout
        assert len(list(out.rglob("*.mp4"))) == images
        assert json.loads((out / "meta" / "info.json").read_text())["fps"] == 5
    done = run("convert", tmp_path / "theirs0", "--out", tmp_path / "again")
    assert "again: 3 episodes (21 steps) of cube" in done.stdout
    shown = run("inspect", tmp_path / "again", "--verify")
    assert shown.returncode == 0
    assert "fps 5, robot " in shown.stdout
    assert f"0: {TASKS[0]}; 1: " in shown.stdout
    assert "2 numbers " in shown.stdout
    assert "within bounds" not in shown.stdout


def test_minari_goes_the_same_way(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    write_store(tmp_path / "d", 6)
    assert_refused(run("convert", tmp_path / "d", "--out", "made-up", "--to", "minari"), "'made-up'", "ends in -v")
    done = run("convert", tmp_path / "d", "--out", "ours/made-up-v0", "--to", "minari")
    assert done.returncode == 0, done.stderr
    assert "6 episodes (" in done.stdout
    assert "of made-up for Minari, with the pairs of expert" in done.stdout
    done = run("convert", "ours/made-up-v0", "--out", tmp_path / "back", "--annotator", "expert")
    assert done.returncode == 0, done.stderr
    assert "of made-up: grid 3×3×3; 3 actions" in done.stdout


def test_mistakes_are_one_line(tmp_path):
    ours = tmp_path / "d"
    write_store(ours, 2)
    old = copy_of(tmp_path)
    change_info(old, codebase_version="v2.1")
    out = ("--out", tmp_path / "out")
    assert_refused(run("convert", old, *out), "version v2.1", "convert_dataset_v21_to_v30")
    assert_refused(run("convert", ours, *out), "is an AttentionTuner data set: say --to lerobot or --to minari")
    assert_refused(run("convert", ours, *out, "--to", "rlds"), "--to rlds: there are lerobot and minari")
    assert_refused(run("convert", MADE, *out, "--to", "lerobot"), "is not a data set: it has no manifest.json")
    assert_refused(run("convert", tmp_path, *out), "neither a LeRobot data set (it has no meta/info.json)")
    assert_refused(run("convert", tmp_path / "nothing", *out), "there is no such folder")
    assert_refused(run("convert", MADE, *out, "--video"), "--video is for --to lerobot")
    assert_refused(run("convert", ours, *out, "--to", "lerobot", "--task", "x"), "--task is for what comes in")
    assert_refused(run("convert", MADE, "--out", ours), "d is there already: give a new folder")
    assert not (tmp_path / "out").exists()
