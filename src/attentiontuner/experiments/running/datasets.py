"""Data sets of the cells: collected once into a cache folder from their seeds, shared by every cell that needs them."""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attentiontuner.collecting.collection import collect
from attentiontuner.core.errors import UserError
from attentiontuner.core.files import locked, make_folder, read_json, remove_leftovers, write_json
from attentiontuner.core.wording import counted
from attentiontuner.demos import DemoStore
from attentiontuner.tasks.task import get_task


def dataset_path(cache: Path, task: str, settings: Mapping[str, Any], demos: int, seed: int) -> Path:
    """The folder of a data set in the cache: its name says task, size and seed, and has a digest of the settings."""
    full = get_task(task, settings).settings
    digest = hashlib.sha256(json.dumps(full, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return cache / f"{task}-{digest}-{demos}-seed{seed}"


def dataset(
    cache: Path, task: str, settings: Mapping[str, Any], demos: int, seed: int, workers: int = 1
) -> tuple[DemoStore, float]:
    """The data set, collected now unless it is there, and the seconds its collection took.

    Processes that want the same one wait for the first; an interrupted collection goes on, and what somebody deleted is
    collected again.
    """
    path = dataset_path(cache, task, settings, demos, seed)
    note = path.with_name(f"{path.name}.json")
    make_folder(cache)
    with locked(path.with_name(f".{path.name}.lock")):
        remove_leftovers(note)
        seconds = _collected_in(note, path)
        if seconds is None:
            started = time.monotonic()
            collect(get_task(task, settings), demos, seed, path, workers=workers)
            seconds = round(time.monotonic() - started, 3)
            write_json(note, {"seconds": seconds})
    store = DemoStore.open(path)
    if len(store) != demos:
        raise UserError(
            f"{path} holds {len(store)} of {counted(demos, 'demonstration')}: delete it, and it is collected again"
        )
    return store, seconds


def _collected_in(note: Path, path: Path) -> float | None:
    """The seconds a finished collection took; None where it is not finished, or not there any more."""
    try:
        seconds = float(read_json(note)["seconds"])
        return None if DemoStore.open(path).missing_files() else seconds
    except (OSError, UserError, KeyError, TypeError, ValueError):
        return None
