"""The plan of the house, checked: who imports whom, what needs torch, and that nothing unpickles."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "attentiontuner"
CELLAR = {"errors", "files", "seeds", "progress", "observations", "cores", "wording"}
MAY_IMPORT = {
    **dict.fromkeys(CELLAR, CELLAR),
    "demos": CELLAR,
    "envs": CELLAR,
    "experts": CELLAR | {"demos", "envs", "tasks"},  # envs for the meaning of a cell, tasks to collect them
    "tasks": CELLAR | {"experts"},
    "pictures": CELLAR | {"demos", "envs", "data"},
    "data": CELLAR | {"demos"},
    "models": CELLAR | {"data"},
    "losses": CELLAR | {"data", "models"},
    "training": CELLAR | {"demos", "data", "models", "losses", "tasks"},
    "evaluation": CELLAR | {"demos", "data", "models", "tasks", "pictures", "training", "experts"},
    "studio": CELLAR | {"demos", "tasks", "pictures", "experts", "evaluation"},
}
TORCH_STARTS_AT = {"data", "models", "losses", "training", "evaluation", "experiments"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The rooms of ours that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module] if node.module != "attentiontuner" else [f"attentiontuner.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("attentiontuner.")}
    return found - {"__version__"}


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_rooms_import_only_what_they_may(name):
    for path in SOURCE.rglob("*.py"):
        if room(path) == name:
            extra = imports(path) - MAY_IMPORT[name] - {name}
            assert not extra, f"{path.relative_to(SOURCE)} imports {sorted(extra)}"


def test_every_room_has_a_rule():
    rooms = {room(path) for path in SOURCE.rglob("*.py")}
    assert rooms - set(MAY_IMPORT) == {"__init__", "__main__", "cli", "experiments"}


def test_the_architecture_document_names_every_file():
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    by_verb_or_task = {"cli", "experts"}
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("__") and room(path) not in by_verb_or_task:
            assert path.name in text, f"docs/architecture.md does not name {path.relative_to(SOURCE)}"


def test_what_needs_no_torch_imports_none():
    """Importing the package, its data, tasks and studio is quick and works where torch is missing."""
    rooms = [name for name in MAY_IMPORT if name not in TORCH_STARTS_AT]
    modules = ", ".join(f"attentiontuner.{name}" for name in rooms)
    code = f"import sys, attentiontuner, attentiontuner.cli, {modules}; sys.exit('torch' in sys.modules)"
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
