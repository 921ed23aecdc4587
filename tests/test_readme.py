"""The README, the docs and the demo say what is true."""

import functools
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attentiontuner.cli import COMMANDS
from attentiontuner.cli.options import call
from tests.cli.command import run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \S.* -->\s*$")

PREPARED = """
import torch
import attentiontuner
task = attentiontuner.get_task("hallway")
observations = task.make_env().reset(seed=0)[0][None].repeat(16, 0)
observation = observations[0]
lengths = [3, 2]
attention = torch.ones(2, 3, 3).tril() / torch.tensor([[1.0], [2.0], [3.0]])
expert = torch.eye(3).expand(2, 3, 3)
my_model = lambda demos: (torch.zeros(()), torch.eye(max(map(len, demos))).expand(len(demos), -1, -1))
"""
"""What blocks take for granted; they run one after the other, in a folder with data/hallway, runs/hallway and RUN."""

SMALLER = {", 1000, seed=0)": ", 2, seed=0, workers=0)", "seed=2)": "seed=2, epochs=1)"}
"""What is too much for a test → what is run in its place."""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in that language, but for those with a marker before them that says why not."""
    text = page.read_text()
    found = [block for block in BLOCK.finditer(text) if block[1] == language]
    return [block[2] for block in found if not NOT_RUN.search(text[: block.start()])]


def commands(page: Path) -> list[str]:
    """What a page tells to type: lines of its blocks, and `attentiontuner …` in its text where nothing is left out."""
    lines = [line for block in blocks(page, "") for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(attentiontuner [^`]* [^`]*)`", page.read_text())
    return [*lines, *(line for line in inline if not re.search(r"…|\.\.\.", line))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A place in which the pages' Python runs: a dozen demonstrations, and a run that saw them once."""
    folder = tmp_path_factory.mktemp("pages")
    run("collect", "hallway", "--episodes", 12, "--seed", 1, "--out", folder / "data" / "hallway")
    small = ("--epochs", 1, "--d-model", 16, "--device", "cpu")
    run("train", "hallway", "--data", folder / "data" / "hallway", "--out", folder / "runs" / "hallway", *small)
    shutil.copytree(folder / "runs" / "hallway", folder / "RUN")
    return folder


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_python_in_the_pages_runs(page, folder):
    code = "\n".join([PREPARED, *blocks(page, "python")])
    for much, less in SMALLER.items():
        code = code.replace(much, less)
    own = {"MINARI_DATASETS_PATH": str(folder / "minari"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{page.name}: {ran.stderr}"


def test_every_block_is_of_a_kind_that_is_checked():
    for page in PAGES:
        assert {block[1] for block in BLOCK.finditer(page.read_text())} <= {"", "python", "json"}, page
        for text in blocks(page, "json"):
            json.loads(text)


def test_commands_in_the_pages_are_understood_with_their_options(capsys):
    verbs, targets = set(), re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        for line in commands(page):
            program, *words = shlex.split(line, comments=True) if re.match("(attentiontuner|make) ", line) else [""]
            if program == "make":
                assert words[0] in targets, f"{page.name}: {line}"
            elif program == "attentiontuner":
                words = words[2:] if words[0] == "--import" else words
                verbs.add(words[0])
                assert is_understood(words), f"{page.name}: {line}: {capsys.readouterr().err}"
    assert len(verbs) >= 8


def is_understood(words: list[str]) -> bool:
    """Whether the command line takes `words`; the command itself is not run."""
    name = words[0].replace("-", "_")
    command = getattr(importlib.import_module(f"attentiontuner.cli.{name}"), name)
    try:
        call(functools.wraps(command)(lambda *_, **__: None), "attentiontuner", words[1:])
    except SystemExit as end:
        return not end.code
    return True


def test_the_site_has_every_page():
    navigation = (ROOT / "zensical.toml").read_text()
    for page in PAGES:
        assert f'"{page.relative_to(ROOT)}"' in navigation, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for verb in COMMANDS:
        assert f"`{verb}`" in text, verb


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["--fast"], 2), (["demo", "huge"], 2)])
def test_the_demo_begins_nothing_where_it_is_asked_for_help_or_told_nonsense(words, code, tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert "usage: demo.py [-h] [FOLDER] [SCALE]" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(600)
def test_the_demo_runs_from_collecting_to_the_page(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path / "demo"), "smoke"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = tmp_path / "demo" / "report" / "index.html"
    assert f"Open {page}" in run.stdout
    text = page.read_text()
    assert "data:image/gif" in text  # the recall film
    assert "no pairs" in text
    assert len(list((tmp_path / "demo" / "tasks").glob("*.png"))) == 9
