"""`attentiontuner doctor`."""

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from attentiontuner.core.processes import usable_cores
from attentiontuner.core.terminal import console
from attentiontuner.core.wording import counted

MEMORY_GYM = "pip install --no-deps memory-gym==1.0.2"
EXTRAS = {
    "studio": ("fastapi", "uvicorn"),
    "ray": ("ray",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "minari": ("minari", "h5py"),
    "lerobot": ("pyarrow", "av"),
    "robots": ("mujoco",),
    "popgym": ("popgym",),
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
    """Say what is installed, what will be used, how to mend what is missing, and what will be slow and why.

    The exit code is 0 if everything the core needs is there; extras may be missing.
    """
    from rich.table import Table
    from rich.text import Text

    findings = examine()
    table = Table("what", "", "found")
    for finding in findings:
        colour = "green" if finding.fine else "red" if finding.core else "yellow"
        table.add_row(finding.name, Text("ok" if finding.fine else "missing", colour), finding.found)
    console().print(table)
    # Commands stand below the table: broken over the lines of a cell they could not be copied.
    for finding in findings:
        if not (finding.fine or finding.core):
            print(f"{finding.name} is missing: {finding.mend}")
    if all(finding.fine for finding in findings if finding.name == "device"):
        for line in what_is_slow(machine()):
            print(f"slow: {line}")
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
        return Finding("device", True, f"cuda: {torch.cuda.get_device_name()}, precision bf16", core=True)
    return Finding("device", True, f"cpu: {counted(usable_cores(), 'core')}, precision float32", core=True)


class Machine(NamedTuple):
    """What decides how fast this machine is.

    Attributes:
        gpu: "used", "none", "no driver" (torch cannot use the one that is there) or "torch without CUDA".
        no_kernels: why a GPU has to do without our kernels, "" where it has them.
        cores: CPU cores this process may use.
        threads: that torch computes with.
        load: processes that want a core, over the last minute.
    """

    gpu: str
    no_kernels: str
    cores: int
    threads: int
    load: float


def machine() -> Machine:
    """This one; torch must import."""
    import torch

    gpu, no_kernels = "used" if torch.cuda.is_available() else "none", ""
    if gpu == "used":
        from attentiontuner.models.kernels import why_no_kernels

        no_kernels = why_no_kernels()
    elif shutil.which("nvidia-smi") or Path("/proc/driver/nvidia/version").exists():
        gpu = "no driver" if torch.version.cuda else "torch without CUDA"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Machine(gpu, no_kernels, usable_cores(), torch.get_num_threads(), load)


def what_is_slow(machine: Machine) -> list[str]:
    """What will take longer than it could, why, and what helps; a line each."""
    slow = []
    cores = counted(machine.cores, "core")
    if machine.gpu == "torch without CUDA":
        slow.append("there is an NVIDIA GPU, but this torch is made for CPUs: install one made for CUDA (pytorch.org)")
    elif machine.gpu == "no driver":
        slow.append("there is an NVIDIA GPU, but torch cannot use it: see what nvidia-smi says, and update the driver")
    if machine.gpu != "used":
        slow.append(
            "no GPU: a step of methods attentiontuner and vanilla at the paper's size takes many seconds; method "
            "recall learns from 100 to 300 demonstrations of symbols in minutes, of images in longer"
        )
    elif machine.no_kernels:
        slow.append(f"training on the GPU, by a third, for want of kernels: {machine.no_kernels}")
    if machine.threads < machine.cores and machine.gpu != "used":
        said = os.environ.get("OMP_NUM_THREADS")
        why = f"OMP_NUM_THREADS={said} is set: unset it" if said else f"set OMP_NUM_THREADS={machine.cores}"
        slow.append(f"torch computes with {counted(machine.threads, 'thread')} on {cores}: {why}")
    if machine.threads > machine.cores:
        why = f"they wait for each other: set OMP_NUM_THREADS={machine.cores}"
        slow.append(f"torch computes with {counted(machine.threads, 'thread')} on {cores}: {why}")
    if machine.cores == 1:
        slow.append("collect and evaluate: with one core environments have no processes of their own")
    if machine.load > machine.cores + 1:
        slow.append(f"everything: other programs keep the {cores} busy (load {machine.load:.1f})")
    return slow


def chromium() -> Finding:
    """A browser for the studio's browser tests and for nothing else."""
    names = [shutil.which(name) for name in CHROMIUM]
    found = next((Path(name).name for name in names if name), None)
    if found:
        return Finding("chromium (browser tests)", True, found)
    return Finding("chromium (browser tests)", False, "not installed", "apt-get install chromium")
