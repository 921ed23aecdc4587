"""The wheel, installed outside the repository: what a user without a clone has."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import attentiontuner

ROOT = Path(__file__).parent.parent
COLLECT = "collect hallway --set length=3 --episodes 6 --out data"
EXTRAS = {
    "fastapi": ("annotate data", "attentiontuner[studio]"),
    "ray": ("reproduce few --executor ray --records records", "attentiontuner[ray]"),
    "tensorboard": ("train hallway --data data --out run --log tensorboard", "attentiontuner[tensorboard]"),
    "wandb": ("train hallway --data data --out run --log wandb", "attentiontuner[wandb]"),
    "minari": ("convert data --out ours/hallway-v0 --to minari", "attentiontuner[minari]"),
    "pyarrow": ("convert data --out theirs --to lerobot", "attentiontuner[lerobot]"),
    "mujoco": ("collect blink-count --episodes 1 --out blinks", "attentiontuner[robots]"),
    "memory_gym": ("collect mystery-path --episodes 1 --out path", "--no-deps memory-gym"),
}
"""A package that may be missing → a command that needs it, and what the command says of the way to it."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment of its own, in which the wheel is installed; dependencies are this one's."""
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", home / "dist"]
    subprocess.run([*build, ROOT], check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "env"], check=True)
    packages = next((home / "env").glob("lib/python*/site-packages"))
    [wheel] = (home / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", home / "env", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, wheel], check=True, capture_output=True)
    # Folders that a line of a .pth names come last, and no .pth in them is read: an editable install stays unseen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def run(home: Path, *words: object, without: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the installed Python there, with a package made to look as if it were not installed."""
    hidden = f"import sys; sys.modules[{without!r}] = None; " if without else ""
    (home / "sitecustomize.py").write_text(hidden)
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [home / "env" / "bin" / "python", *map(str, words)],
        cwd=home,
        env={**keep, "PYTHONPATH": str(home), "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_of_the_package_is_in_it(home):
    where = run(home, "-c", "import attentiontuner; print(attentiontuner.__version__, attentiontuner.__file__)")
    version, path = where.stdout.split()
    assert Path(path).is_relative_to(home), path
    assert version == attentiontuner.__version__
    source, installed = ROOT / "src" / "attentiontuner", Path(path).parent
    tracked = subprocess.run(["git", "ls-files", "."], cwd=source, capture_output=True, text=True, check=True)
    missing = [name for name in tracked.stdout.split() if not (installed / name).exists()]
    assert not missing


def test_importing_it_registers_the_environments_without_torch(home):
    code = """
import sys, gymnasium, attentiontuner
assert gymnasium.make("LTMB-Hallway-v0", length=3).reset(seed=0)
assert "torch" not in sys.modules
"""
    assert run(home, "-c", code).stderr == ""
    assert run(home, "-c", 'import gymnasium; gymnasium.make("attentiontuner:LTMB-Counting-v0")').stderr == ""


@pytest.mark.slow
def test_core_commands_work(home):
    command = ("-m", "attentiontuner")
    for words in (
        COLLECT,
        "train hallway --data data --out run --epochs 1 --d-model 16 --device cpu",
        "evaluate run --episodes 2 --workers 0",
        "doctor",
    ):
        done = run(home, *command, *words.split())
        assert done.returncode == 0, f"{words}: {done.stderr}"
    assert (home / "run" / "evaluation" / "summary.json").exists()


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_extra_is_named_with_its_command(home, package):
    words, way = EXTRAS[package]
    run(home, "-m", "attentiontuner", *COLLECT.split())
    done = run(home, "-m", "attentiontuner", *words.split(), without=package)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert "pip install" in line
    assert way in line


def test_the_version_is_the_same_everywhere():
    version = attentiontuner.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
