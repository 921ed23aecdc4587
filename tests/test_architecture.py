"""The plan of the house, checked: who imports whom, what needs torch, what is called what; and nothing unpickles."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "attentiontuner"
PLAN = SOURCE.parents[1] / "docs" / "architecture.md"
MAY_IMPORT = {
    "core": set(),
    "spaces": {"core"},
    "demos": {"core", "spaces"},
    "envs": {"core"},
    "experts": {"core", "spaces", "envs"},  # envs for the meaning of a cell
    "tasks": {"core", "spaces", "experts"},  # environments and experts by address, when first needed
    "collecting": {"core", "spaces", "demos", "experts", "tasks"},
    "data": {"core", "spaces", "demos"},
    "viz": {"core", "spaces", "demos", "envs", "experts", "tasks", "data"},
    "models": {"core", "spaces", "data"},
    "losses": {"core", "data", "models"},
    "insight": {"core", "spaces", "demos", "tasks", "data", "models", "losses", "viz"},
    "methods": {"core", "spaces", "demos", "tasks", "data", "models", "losses", "insight"},
    "runs": {"core", "spaces", "demos", "tasks", "models", "methods"},
    "training": {"core", "demos", "tasks", "data", "models", "losses", "insight", "methods", "runs", "viz"},
    "evaluation": {"core", "spaces", "demos", "experts", "tasks", "data", "viz", "models", "methods", "runs"},
    "studio": {"core", "spaces", "demos", "experts", "tasks", "insight", "viz", "runs", "evaluation"},
}
MAY_IMPORT["experiments"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)
TORCH_STARTS_AT = {"data", "models", "losses", "insight", "training", "experiments", "evaluation"}
CHOOSING = {
    "models.sizes",
    "models.heads",
    "training.demonstrations",
    "experiments.running.reproduce",
    "insight.recommendations",
}
"""What chooses and checks before anything is computed: quick too, so that a mistake is told at once."""

OUTSIDE = {"__init__.py", "__main__.py"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name not in OUTSIDE)


def imports(path: Path) -> set[str]:
    """The rooms of ours that a file imports anywhere in it, but for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == "attentiontuner"
            names = [f"attentiontuner.{alias.name}" for alias in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("attentiontuner.")}
    return found - {"__version__"}


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_rooms_import_only_what_they_may(name):
    for path in files():
        if room(path) == name:
            extra = imports(path) - MAY_IMPORT[name] - {name}
            assert not extra, f"{path.relative_to(SOURCE)} imports {sorted(extra)}"


def test_imports_are_a_line():
    """No room imports one that, over however many others, imports it."""
    above = {name: set(below) for name, below in MAY_IMPORT.items()}
    while above:
        free = {name for name, below in above.items() if not below}
        assert free, f"these import one another: {sorted(above)}"
        above = {name: below - free for name, below in above.items() if name not in free}


def test_every_room_has_a_rule():
    assert {room(path) for path in files()} == set(MAY_IMPORT)


def planned() -> dict[str, set[str]]:
    """folder → the files that the plan in docs/architecture.md names in it."""
    tree = PLAN.read_text(encoding="utf-8").split("```")[1]
    found: dict[str, set[str]] = defaultdict(set)
    folder = ""
    for line in tree.splitlines()[2:]:
        if match := re.match(r" {2}([\w/]+)/ ", line):
            folder = match[1]
        elif match := re.match(r" {2}(\w+\.py)", line):
            folder = ""
        found[folder] |= set(re.findall(r"\b\w+\.py\b", line))
    return found


def test_the_plan_names_every_file_where_it_is():
    there: dict[str, set[str]] = defaultdict(set)
    for path in files():
        if path.name != "__init__.py":
            there[path.relative_to(SOURCE).parent.as_posix().removeprefix(".")].add(path.name)
    assert planned() == there


def test_no_two_files_share_a_name():
    """But a command and its room's file, an expert and its environment: there the name is the same thing's."""
    homes = defaultdict(list)
    for path in files():
        if path.name != "__init__.py" and room(path) not in ("cli", "experts"):
            homes[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
    others = {path.name for path in files() if room(path) not in ("experts", "envs", "cli")}
    assert not others & {path.name for path in files() if room(path) == "experts"} - {"__init__.py"}


def test_what_needs_no_torch_imports_none():
    """Importing the package, its data, tasks, methods, runs and studio is quick and works where torch is missing."""
    modules = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in files()}
    quick = [name for name in modules if name.split(".")[0] not in TORCH_STARTS_AT and "__init__" not in name]
    needs = {"runs.devices"}  # of torch itself
    code = "import sys, attentiontuner; "
    code += "".join(f"import attentiontuner.{name}; " for name in sorted({*quick, *CHOOSING} - needs))
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_files_never_run_code():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr.removesuffix("s")) not in (("torch", "load"), ("pickle", "load")), path


def test_public_names_are_there():
    import attentiontuner

    for name in attentiontuner.__all__:
        assert getattr(attentiontuner, name) is not None
    with pytest.raises(AttributeError, match="oracle"):
        _ = attentiontuner.oracle
