"""The README, the docs and the demo say what is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attentiontuner.cli import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^\s*attentiontuner (?:--import \S+ )?([a-z-]+)([^#\n]*)", re.MULTILINE)


def test_commands_in_the_pages_exist_with_their_options():
    wanted: dict[str, set[str]] = {}
    for page in PAGES:
        for verb, rest in COMMAND.findall(page.read_text()):
            assert verb in COMMANDS, f"{page.name}: attentiontuner {verb}"
            wanted.setdefault(verb, set()).update(re.findall(r"(--[a-z-]+)", rest))
    assert len(wanted) >= 8
    for verb, options in wanted.items():
        run = subprocess.run(
            [sys.executable, "-m", "attentiontuner", verb, "--help"], capture_output=True, text=True, check=True
        )
        there = set(re.findall(r"--[a-z-]+", run.stdout))
        assert options <= there, f"attentiontuner {verb}: {sorted(options - there)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_names_that_the_pages_import_are_there():
    line_of = re.compile(r"^(?:from attentiontuner\S* import|import attentiontuner)[^(\n]*$", re.MULTILINE)
    imports = [line for page in PAGES for line in line_of.findall(page.read_text())]
    assert len(imports) >= 8
    for line in imports:
        exec(line, {})


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for verb in COMMANDS:
        assert f"`{verb}`" in text, verb


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
    assert len(list((tmp_path / "demo" / "tasks").glob("*.png"))) == 6
