"""The episode somebody is playing, on the disk: its seed and its actions, from which it is played again after a kill.

`DIR/studio/underway/<player>.jsonl` has a line that says what is played, then a line for each action:
`{"task": "hallway", "settings": {"length": 6}, "seed": 3}`, `2`, `0`, … A line counts once it is whole.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from attentiontuner.core import files
from attentiontuner.core.errors import UserError

MOST_AT_ONCE = 100
"""Studios that one player may have open on one folder."""


class Underway(NamedTuple):
    """What was played when the studio ended: the seed, and which of the playable actions were taken."""

    seed: int
    played: list[int]


class Journal:
    """The journal of one player in one folder; a second studio of the same player has one of its own.

    Args:
        root: data set folder.
        player: whose.
        task: name of the task; what was played of another one, or with other settings, is not gone on with.
        settings: its settings.
    """

    def __init__(self, root: Path, player: str, task: str, settings: Mapping[str, Any]) -> None:
        self._what = {"task": task, "settings": json.loads(json.dumps(dict(settings)))}
        self._held = ExitStack()
        folder = root / "studio" / "underway"
        files.make_folder(folder)
        for number in range(1, MOST_AT_ONCE + 1):
            name = player if number == 1 else f"{player}-{number}"
            try:
                self._held.enter_context(files.locked(folder / f".{name}.lock", wait=False))
            except UserError:
                if number == MOST_AT_ONCE:
                    raise
                continue
            self._path = folder / f"{name}.jsonl"
            files.remove_leftovers(self._path)
            return

    def read(self) -> Underway | None:
        """What was played last, or None where that was nothing, or something else."""
        try:
            first, *lines = files.content_of(self._path, files.MOST_JSON).decode().split("\n")[:-1]
            what = json.loads(first)
            seed = what.pop("seed")
            played = [int(line) for line in lines]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return Underway(seed, played) if what == self._what and isinstance(seed, int) else None

    def start(self, seed: int) -> None:
        """An episode begins."""
        files.write_text(self._path, json.dumps({**self._what, "seed": seed}) + "\n")

    def add(self, action: int) -> None:
        """An action is about to be taken. It outlives the process, if not a loss of power."""
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(f"{action}\n")
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}; the step was not made") from error

    def close(self) -> None:
        self._held.close()
