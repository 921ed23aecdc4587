"""With what a run was made: versions and the git revision of the source, for its `config.json`."""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OF_DATA = ("attentiontuner", "numpy", "safetensors", "zstandard", "gymnasium", "minigrid", "memory-gym")
"""The packages that shape a data set."""

OF_RUNS = ("attentiontuner", "torch", "numpy", "safetensors", "gymnasium", "minigrid")


def installed_versions(packages: Iterable[str] = OF_DATA) -> dict[str, str]:
    """Versions of Python and of those of `packages` that are installed; by default the ones that shape a data set."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def software() -> dict[str, str]:
    """Name → version of Python and the packages a result depends on, and `git` where the source is a checkout."""
    found, revision = installed_versions(OF_RUNS), git_revision()
    return {**found, "git": revision} if revision else found


def git_revision() -> str:
    """The commit of the source this package runs from, with `+` where it was changed since; "" outside a checkout.

    A copy of the source without its history is told by the variable ATTENTIONTUNER_REVISION.
    """
    if told := os.environ.get("ATTENTIONTUNER_REVISION"):
        return told
    here = Path(__file__).parents[1]
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
