"""Commands that would work, but for one or two of their options: they end in one line, or do what is said."""

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attentiontuner.cli import COMMANDS, main
from attentiontuner.studio import server
from attentiontuner.training.train import train
from tests.bad_input.limits import in_time
from tests.bad_input.test_bad_commands import WORDS, outcome
from tests.demos.examples import write_store
from tests.experiments.made import write_all
from tests.toy_task import TOY
from tests.training.toys import toy_config, toy_store

SECONDS = 30
"""Of the processor; a command that waits for ever is ended by the limit of the test."""

ROOM = 4 * 2**30
"""Bytes that a command may take beyond what the tests have already."""

MORE = [
    "9" * 400,
    "9" * 5000,
    "9" * 400 + "GB",
    "x=" + "9" * 5000,
    "x=NaN",
    "length=" + "[" * 9000,
    "1-5,3",
    "²",
    "٣",
    "1_0",
]
PATHS = [
    "",
    "/proc/nothing/there",
    "a" * 300,
    "data",
    "run",
    "data/manifest.json",
    "nowhere",
    "\udcff",
    "ü",
]
NEVER = {
    *("--help", "--import"),
    *("--epochs", "--workers", "--jobs"),  # who asks for much of these gets it
    *("--executor", "--log", "--device"),  # packages and machines that have tests of their own
}
TRAIN = "--epochs 1 --batch-size 4 --d-model 8 --layers 1 --feedforward 8 --method recall --labels exact"
BASES = {
    "tasks": "",
    "doctor": "",
    "collect": "toy --out new --episodes 2 --workers 1",
    "convert": "data --out new --to lerobot",
    "inspect": "data",
    "train": f"--data learned --out new {TRAIN}",
    "evaluate": "run --episodes 2 --workers 0 --out new",
    "reproduce": "table1 --scale smoke --dry-run",
    "report": "--records records",
    "annotate": "data",
    "play": "toy --out new",
    "merge": "data --annotators expert,other --as new",
    "studio-times": "data",
    "memory-report": "data --out new",
    "publish": "run --out new --episodes 2",
    "benchmark": "random --task toy --episodes 2 --board new",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the commands read."""
    root = tmp_path_factory.mktemp("options")
    write_store(root / "data", 4)
    shutil.copytree(root / "data" / "annotations" / "expert", root / "data" / "annotations" / "other")
    train(toy_config(epochs=1), toy_store(root / "learned", episodes=12), root / "run", device="cpu")
    write_all(root / "records", ["table1"], "smoke", keep=lambda cell: cell.task == "hallway")
    assert TOY.name == "toy"
    return root


def options_of(verb: str, capsys: Any) -> dict[str, str]:
    """The options that help names, and what it calls their values ("" where they have none)."""
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    found = re.findall(
        r"^\W*(--[a-z][a-z0-9-]*)(?:, --[a-z-]+)* ?([A-Z{|\[]\S*)?", capsys.readouterr().out, re.MULTILINE
    )
    return {name: value for name, value in found if name not in NEVER}


def check(numbers: range, place: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    home = tmp_path / "home"
    known = {verb: options_of(verb, capsys) for verb in BASES}
    verbs, wrong = sorted(BASES), []
    for number in numbers:
        rng = random.Random(f"option {number}")
        verb = rng.choice(verbs)
        words = [verb, *BASES[verb].split()]
        for name in rng.sample(sorted(known[verb]), min(len(known[verb]), rng.choice([1, 1, 2]))):
            value = known[verb][name]
            words += [name, *([rng.choice(PATHS if "PATH" in value else [*WORDS, *MORE])] if value else [])]
        shutil.copytree(place, home)
        monkeypatch.chdir(home)
        monkeypatch.setattr(server, "serve", lambda *given, **named: None)
        if rng.random() < 0.2:
            spoiled = rng.choice([word for word in WORDS if "\n" not in word and "\0" not in word])
            monkeypatch.setenv(rng.choice(["WORLD_SIZE", "OMP_NUM_THREADS", "RANK", "LOCAL_RANK", "COLUMNS"]), spoiled)
        try:
            with in_time(SECONDS, ROOM):
                code = outcome(words)
        except BaseException as error:
            wrong.append(f"{short(words)}: {type(error).__name__}: {str(error)[:200]}")
            code = None
        said = capsys.readouterr().err
        if code not in (0, 2, None) or "Traceback" in said:
            wrong.append(f"{short(words)}: exit code {code}: {said[-300:]}")
        if code == 2 and not said.strip():
            wrong.append(f"{short(words)}: nothing was said")
        if sorted(tmp_path.iterdir()) != [home]:
            wrong.append(f"{short(words)}: written elsewhere: {sorted(tmp_path.iterdir())}")
        monkeypatch.undo()
        shutil.rmtree(home)
    assert not wrong, f"{len(wrong)} of {len(numbers)}:\n" + "\n".join(wrong)


def short(words: list[str]) -> str:
    return " ".join(word if len(word) < 40 else f"{word[:20]}…({len(word)})" for word in words)


@pytest.mark.timeout(120)
def test_a_bad_option_is_one_line(place: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    assert set(BASES) == set(COMMANDS)
    check(range(60), place, tmp_path, capsys, monkeypatch)


@pytest.mark.slow
def test_many_bad_options_are_one_line_each(place: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    check(range(60, 2500), place, tmp_path, capsys, monkeypatch)
