"""What a loss of power would take: everything that was not put on the disk before its work was said to be done."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def lost_without_power(work: Callable[[], Any], root: Path) -> list[str]:
    """Do `work`, and what of the files under `root` a disk may lose that keeps only what it was told to keep.

    A file has to be synced after its last change and before it is given its name, and a folder after its names were.
    """
    contents: dict[int, tuple[int, int]] = {}  # of synced files, by inode: when they were changed, and their size
    names: dict[int, dict[str, int]] = {}  # of synced folders, by inode: what lay in them
    too_early: list[str] = []
    watching = [True]

    def kept(path: Path) -> bool:
        found = path.lstat()
        return contents.get(found.st_ino) == (found.st_mtime_ns, found.st_size)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if watching and event == "os.rename" and str(given[1]).startswith(str(root)):
            source = Path(given[0])
            inside = [source] if source.is_file() else filter(Path.is_file, source.rglob("*"))
            too_early.extend(
                f"{path}: named before it was synced" for path in inside if needed(path) and not kept(path)
            )

    sync = os.fsync

    def fsync(handle: int) -> None:
        sync(handle)
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            folder = Path(f"/proc/self/fd/{handle}").resolve()
            names[found.st_ino] = {entry.name: entry.inode() for entry in os.scandir(folder)}
        else:
            contents[found.st_ino] = (found.st_mtime_ns, found.st_size)

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(os, "fsync", fsync)
        sys.addaudithook(hook)
        try:
            work()
        finally:
            watching.clear()  # a hook stays for ever
    lost = list(too_early)
    for path in (root, *root.rglob("*")):
        if path.is_file() and needed(path) and not kept(path):
            lost.append(f"{path}: its content")
        there = names.get(path.parent.lstat().st_ino, {})
        if needed(path) and there.get(path.name) != path.lstat().st_ino:
            lost.append(f"{path}: its name")
    return [words.replace(f"{root}/", "") for words in lost]


def needed(path: Path) -> bool:
    """Locks are held by processes, and empty."""
    return not path.name.endswith(".lock")
