"""`attentiontuner doctor`."""

import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from attentiontuner.core.processes import usable_cores
from attentiontuner.core.wording import counted

MEMORY_GYM = "pip install --no-deps memory-gym==1.0.2"
EXTRAS = {
    "studio": ("fastapi", "uvicorn"),
    "ray": ("ray",),
    "tensorboard": ("tensorboard",),
    "minari": ("minari", "h5py"),
}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Finding(NamedTuple):
    """One line: what was looked at, whether it is fine, what was found, the command that mends it."""

    name: str
    fine: bool
    found: str
    mend: str = ""
    core: bool = False


def doctor() -> int:
    """Say what is installed, what will be used, and how to mend what is missing.

    The exit code is 0 if everything the core needs is there; extras may be missing.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    findings = examine()
    table = Table("what", "", "found")
    for finding in findings:
        mark = "[green]ok[/]" if finding.fine else "[red]missing[/]" if finding.core else "[yellow]missing[/]"
        table.add_row(finding.name, mark, escape(finding.found))
    Console().print(table)
    # Commands stand below the table: broken over the lines of a cell they could not be copied.
    for finding in findings:
        if not (finding.fine or finding.core):
            print(f"{finding.name} is missing: {finding.mend}")
    broken = [finding for finding in findings if finding.core and not finding.fine]
    for finding in broken:
        print(f"attentiontuner: {finding.name}: {finding.found}; mend it with: {finding.mend}", file=sys.stderr)
    return 2 if broken else 0


def examine() -> list[Finding]:
    """Everything looked at, core first."""
    return [
        Finding("python", sys.version_info >= (3, 11), platform.python_version(), "install Python 3.11 or newer", True),
        *(core_package(name) for name in core_packages()),
        device(),
        optional_package("memory-gym", "memory_gym", MEMORY_GYM),
        *(
            optional_package(f"{package} (extra {extra})", package, f"pip install 'attentiontuner[{extra}]'")
            for extra, packages in EXTRAS.items()
            for package in packages
        ),
        chromium(),
    ]


def core_packages() -> list[str]:
    """The packages `attentiontuner` depends on, as its own metadata says."""
    try:
        lines = requires("attentiontuner") or []
    except PackageNotFoundError:
        return []
    return [line.split(">")[0].split("=")[0].strip() for line in lines if "extra ==" not in line]


def core_package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name), core=True)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"pip install {name}", True)


def optional_package(label: str, module: str, mend: str) -> Finding:
    name = module.replace("_", "-")
    try:
        return Finding(label, True, version(name))
    except PackageNotFoundError:
        return Finding(label, False, "not installed", mend)


def device() -> Finding:
    """The device and precision that training and evaluation will use."""
    try:
        import torch
    except Exception as error:  # a broken torch fails in many ways; each is worth a line, none a traceback
        return Finding("device", False, f"torch does not import: {error}", "pip install torch==2.13.0", True)
    if torch.cuda.is_available():
        from attentiontuner.models.kernels import why_no_kernels

        kernels = f", a third slower for want of kernels ({why})" if (why := why_no_kernels()) else ""
        return Finding("device", True, f"cuda: {torch.cuda.get_device_name()}, precision bf16{kernels}", core=True)
    return Finding("device", True, f"cpu: {counted(usable_cores(), 'core')}, precision float32", core=True)


def chromium() -> Finding:
    """A browser for the studio's browser tests and for nothing else."""
    names = [shutil.which(name) for name in CHROMIUM]
    found = next((Path(name).name for name in names if name), None)
    if found:
        return Finding("chromium (browser tests)", True, found)
    return Finding("chromium (browser tests)", False, "not installed", "apt-get install chromium")
