"""What every command shares: how help and mistakes read, `--import`, and errors in it."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from attentiontuner.cli import COMMANDS, main
from attentiontuner.cli.train import GROUPS
from attentiontuner.collecting.collection import collect
from attentiontuner.experiments.planning.recipes import RECIPES
from attentiontuner.runs.run import Run
from tests.cli.command import ROOT, STOPPED, TOY, assert_refused, command, run, wait_until_workers_import
from tests.toy_task import TOY as TASK


def said_and_left(capsys, *words: str) -> tuple[str, int]:
    """What a command says that ends while its options are read, and its exit code."""
    with pytest.raises(SystemExit) as left:
        main(words)
    printed = capsys.readouterr()
    return printed.out + printed.err, left.value.code


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_speaks_no_python_and_fits_the_terminal(monkeypatch, capsys, verb):
    monkeypatch.setenv("COLUMNS", "80")
    text, code = said_and_left(capsys, verb, "--help")
    assert code == 0
    usage, *lines = text.replace("{True,False}", "").splitlines()
    assert not re.search(r"\b(STR|INT|FLOAT|None|True|False)\b|\(default: (''|)\)", text.replace("{True,False}", ""))
    assert max(map(len, lines)) <= 80
    assert usage.startswith(f"usage: attentiontuner {verb} [-h]")


def test_the_help_of_reproduce_names_every_recipe(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    text, _ = said_and_left(capsys, "reproduce", "--help")
    assert set(RECIPES) <= set(re.findall(r"[a-z][a-z0-9-]+", text))


def test_help_names_values_and_defaults(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    text, _ = said_and_left(capsys, "collect", "--help")
    assert "collect [-h] [OPTIONS] TASK\n" in text
    for option in ("--out PATH ", "--episodes NUMBER ", "--set NAME=VALUE ... "):
        assert option in text
    text, _ = said_and_left(capsys, "evaluate", "--help")
    assert "[OPTIONS] [RUN]\n" in text
    assert "how many. (default: 1000)" in text


def test_the_help_of_train_is_in_boxes(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    text, _ = said_and_left(capsys, "train", "--help")
    boxes: dict[str, list[str]] = {}
    for line in text[text.index("positional arguments") :].splitlines():
        if title := re.fullmatch(r"\W*([\w ]+ options|options|positional arguments)\W*", line):
            boxes[title[1]] = []
        elif option := re.match(r".{,2}--([a-z][\w-]+)", line):
            boxes[list(boxes)[-1]].append(option[1].replace("-", "_").removeprefix("no_"))
    assert boxes.pop("positional arguments") == []
    assert boxes.pop("options") == ["data", "out"], "an option that is in no group stands with these"
    assert boxes == {f"{title} options": list(names) for title, names in GROUPS.items()}


def test_the_overview_fits_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"  {verb} " in text for verb in COMMANDS)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["collect", "toy", "--out", "d", "--episodes", "1.5"], "--episodes: '1.5' is not a whole number"),
        (["train", "toy", "--data", "d", "--out", "r", "--dropout", "x"], "--dropout: 'x' is not a number"),
        (["play", "toy", "--out", "d", "--seeds", "1", "x"], "--seeds: 'x' is not a whole number"),
        (
            ["train", "toy", "--data", "d", "--out", "r", "--precision", "half"],
            "one of ('auto', 'float32', 'bfloat16')",
        ),
        (["collect"], "Missing from attentiontuner collect"),
    ],
)
def test_mistaken_options_are_explained(monkeypatch, capsys, words, problem):
    monkeypatch.setenv("COLUMNS", "120")
    said, code = said_and_left(capsys, *words)
    assert code == 2
    assert problem in said
    assert not re.search(r"None|<class|int\(\)|STR", said)


@pytest.mark.parametrize(
    ("code", "line", "problem"),
    [
        ("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
        ("\nx = 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("import no_such_package\n", 1, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("import numpy\nnumpy.zeros(3).reshape(7)\n", 2, "ValueError: cannot reshape"),
        ("def f():\n    raise KeyError('x')\nf()\n", 2, "KeyError: 'x'"),
        ("from attentiontuner import ObservationSpec\nObservationSpec('grid', (1, 2, 3))\n", 2, "a grid of shape"),
    ],
)
def test_broken_code_of_the_user_is_one_line(tmp_path, monkeypatch, capsys, code, line, problem):
    monkeypatch.setattr("sys.path", [*sys.path])
    path = tmp_path / "broken.py"
    path.write_text(code)
    assert main(["--import", str(path), "tasks"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"attentiontuner: --import {path}: {path}, line {line}: {problem}")
    assert said.count("\n") == 1


PLAIN_TASK = """
import gymnasium as gym
from dataclasses import replace
from tests.toy_task import TOY, ToyEnv
from attentiontuner import register_task

class Plain(ToyEnv):
    def __init__(self): super().__init__()

gym.register("Plain-v0", entry_point=Plain)
register_task(replace(TOY, name="plain", env_id="Plain-v0", settings={}, horizon=5, register=None))
"""


def test_worker_processes_know_a_task_that_only_the_command_line_imported(tmp_path):
    (tmp_path / "plain_task.py").write_text(PLAIN_TASK)
    words = ("collect", "plain", "--episodes", 4, "--out", tmp_path / "data", "--workers", 2, "--shard-episodes", 2)
    done = run("--import", tmp_path / "plain_task.py", *words)
    assert done.returncode == 0, done.stderr


def test_the_broken_file_is_named_and_not_the_one_that_imports_it(tmp_path):
    (tmp_path / "helper.py").write_text("x = (\n")
    (tmp_path / "mine.py").write_text("import helper\n")
    done = run("--import", tmp_path / "mine.py", "tasks")
    assert_refused(done, "mine.py: ", f"{tmp_path / 'helper.py'}, line 1: SyntaxError")


def test_what_cannot_be_imported(tmp_path, capsys):
    for words, problem in {
        ("--import", "no_such_module", "tasks"): "there is no module 'no_such_module'; a file is named by its path",
        ("--import", str(tmp_path / "none.py"), "tasks"): "there is no such file",
        ("--import",): "--import needs a module name",
        ("tasks", "--import", "mine.py"): "--import stands before the command",
    }.items():
        assert main(words) == 2
        assert problem in capsys.readouterr().err
    assert main([*TOY, "tasks"]) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("evaluate RUN --workers -1", "--workers -1: give 0 or more"),
        ("evaluate RUN --batch 0", "--batch 0: give at least 1"),
        ("evaluate RUN --video -1", "--video -1: give 0 or more"),
        ("evaluate RUN --set length=abc", "length must be a whole number from 1 to 500, not 'abc'"),
        ("report --records FOLDER --pages FOLDER/none.md", "--pages FOLDER/none.md: there is no such file"),
        ("reproduce table1 --records FILE", "--records FILE is a file: give a folder"),
        ("reproduce table1 --records FOLDER --data FILE", "--data FILE is a file: give a folder"),
        ("train toy --data DATA --out DATA", "--out DATA is a data set: give another folder for the run"),
        (
            "annotate DATA --suggest FOLDER",
            "--suggest FOLDER holds neither a trained run (config.json) nor a memory report (recommended.json)",
        ),
        ("collect toy --out FOLDER/d --shard-episodes 0", "--shard-episodes 0: give at least 1"),
    ],
)
def test_a_plausible_mistake_is_one_line(tmp_path, monkeypatch, capsys, words, problem):
    """Each of these once ended in a traceback, after much work, or not at all."""
    trained = SimpleNamespace(path=tmp_path / "run", task=lambda: ("hallway", {"length": 3}))
    open_run = Run.open
    monkeypatch.setattr(Run, "open", lambda path: trained if path == trained.path else open_run(path))
    monkeypatch.setattr("attentiontuner.studio.server.serve", lambda *args, **options: pytest.fail("it was served"))
    collect(TASK, 2, 1, tmp_path / "data", workers=1)
    (tmp_path / "file").touch()
    places = {"RUN": "run", "FOLDER": "", "FILE": "file", "DATA": "data"}
    for word, place in places.items():
        words, problem = (text.replace(word, str(tmp_path / place)) for text in (words, problem))
    capsys.readouterr()
    assert main([*TOY, *words.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attentiontuner: ")
    assert problem in said
    assert said.count("\n") == 1


MADE = ROOT / "tests" / "compat" / "made"
TRAIN = f"train hallway --data {MADE / 'data' / 'hallway'}"
EVALUATE = f"evaluate {MADE / 'runs' / 'hallway-vanilla'}"
MISTAKES = {
    "train hallway --data nowhere --out run": "nowhere",
    "evaluate nowhere": "nowhere",
    "inspect nowhere": "nowhere",
    "annotate nowhere": "nowhere",
    "report --records nowhere": "nowhere",
    "report --records . --pages nowhere": "nowhere",
    "reproduce table1 --records file": "--records file is a file",
    "reproduce table1 --scale huge": "unknown scale 'huge'",
    "reproduce table1 --budget soon": "--budget soon",
    "reproduce table1 --jobs 0": "--jobs 0",
    "reproduce nonsense": "unknown recipe 'nonsense'",
    "reproduce table1 --only nonsense": "--only nonsense",
    "trian hallway": "unknown command 'trian': did you mean train? the commands are tasks, ",
    f"{TRAIN} --out run --method recal": "unknown method 'recal': did you mean recall? the methods are ",
    "reproduce table1 --methods nonsense": "unknown method 'nonsense'",
    "report --records . --scale huge": "unknown scale 'huge'",
    f"{TRAIN} --out file": "--out file is a file",
    f"{TRAIN} --out run --epochs 0": "--epochs is 0: give at least 1",
    f"{TRAIN} --out run --test-fraction 2": "--test-fraction is 2.0",
    f"{TRAIN} --out run --heatmap-epochs -1": "--heatmap-epochs is (-1,)",
    f"{TRAIN} --out run --eval-every 1 --eval-episodes 0": "--eval-episodes is 0",
    f"{TRAIN} --out run --device tpu": "--device tpu",
    f"{TRAIN} --out run --log mlflow": "--log mlflow",
    f"{TRAIN} --out run --method nonsense": "unknown method 'nonsense'",
    f"{TRAIN} --out run --model colour=red": "has no colour",
    f"{TRAIN} --out run --d-model 7": "model d_model: 7",
    f"{TRAIN} --out run --model products=maybe": "model products: 'maybe' is not true or false",
    f"{TRAIN} --out run --model marks=x": "model marks: 'x' is not a whole number",
    f"{TRAIN} --out run --model teacher=yes": "model teacher: 'yes' is not a number",
    f"{TRAIN} --out run --heads 9:9": "there is no head 9:9",
    f"{TRAIN} --out run --method vanilla --memory-weight 1": "leave out --memory-weight",
    f"{TRAIN} --out run --precision bfloat16": "give float32 with method 'recall'",
    f"{TRAIN} --out run --annotator nobody": "has no annotator 'nobody'",
    f"{TRAIN} --out run --demos 9999": "--demos 9999",
    f"{TRAIN} --out run --test-data {MADE / 'data' / 'counting'}": "holds demonstrations of 'counting'",
    f"{EVALUATE} --episodes 0": "--episodes 0",
    f"{EVALUATE} --seed -1": "seed -1",
    f"{EVALUATE} --device tpu": "--device tpu",
    f"{EVALUATE} --out file": "--out file is a file",
    f"{EVALUATE} --best": "best.safetensors",
    f"{EVALUATE} --set colour=red": "there is no setting 'colour'",
    f"{EVALUATE} --task counting": "was trained on task 'hallway'",
}
"""What can be told to be wrong without torch → part of what is said."""


def test_a_mistake_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "file").touch()
    code = f"""
import sys
from attentiontuner.cli import main
for words in {list(MISTAKES)}:
    assert main(words.split()) == 2, words
    assert "torch" not in sys.modules, words
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    for line, part in zip(done.stderr.splitlines(), MISTAKES.values(), strict=True):
        assert part in line


def test_ctrl_c_while_the_workers_of_an_evaluation_start_is_one_line(tmp_path):
    words = command(*TOY, "evaluate", "--policy", "expert", "--task", "toy", "--workers", 2, "--out", tmp_path / "e")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOY_PAUSE": "0.05"}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until_workers_import(process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, STOPPED)
