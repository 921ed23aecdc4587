"""How long people needed: active seconds per demonstration, and the paper's timing table made of them.

Annotating seconds live in the annotations themselves. Playing seconds live in `DIR/studio/playing.jsonl`, one line per
saved episode: `{"episode": 3, "player": "human", "seconds": 12.9}`. Idle time was left out by the page that measured.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import MOST_LINES, WRONG_CONTENT, append_line, read_bytes
from attentiontuner.demos.annotations import read_annotations
from attentiontuner.demos.store.reader import DemoStore

TABLE_DEMONSTRATIONS = 10
"""The paper's table gives the time for this many demonstrations."""

MAX_SECONDS = 24 * 3600.0
"""One report of active seconds above this is a mistake of the sender."""


@dataclass(frozen=True)
class TimeRow:
    """One line of the table: a person, how many demonstrations were timed, and active seconds in all."""

    who: str
    played: int
    playing_seconds: float
    annotated: int
    annotating_seconds: float


def check_seconds(seconds: float) -> float:
    """Seconds as reported by a page: finite, from 0 to a day."""
    if not math.isfinite(seconds) or not 0 <= seconds <= MAX_SECONDS:
        raise UserError(f"{seconds} active seconds cannot be right: give 0 to {MAX_SECONDS:.0f}")
    return seconds


def playing_file(root: Path) -> Path:
    return root / "studio" / "playing.jsonl"


def record_playing(root: Path, episode: int, player: str, seconds: float) -> None:
    """Append how long `player` played `episode`."""
    path = playing_file(root)
    line = json.dumps({"episode": episode, "player": player, "seconds": round(check_seconds(seconds), 2)})
    try:
        append_line(path, line)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def read_playing(root: Path) -> list[tuple[int, str, float]]:
    """(episode, player, seconds) of every recorded episode; a line cut short by a crash is left out."""
    path = playing_file(root)
    entries = []
    for line in read_bytes(path, MOST_LINES).splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            entries.append((int(entry["episode"]), str(entry["player"]), check_seconds(float(entry["seconds"]))))
        except WRONG_CONTENT:
            continue
    return entries


def times(root: Path) -> tuple[str, list[TimeRow]]:
    """The task's name, and one row per person who played or annotated with the clock running."""
    store = DemoStore.open(root)
    played: dict[str, list[float]] = defaultdict(list)
    for _, player, seconds in read_playing(root):
        played[player].append(seconds)
    annotated: dict[str, list[float]] = defaultdict(list)
    for annotator in store.annotators():
        for annotation in read_annotations(root, annotator).values():
            if annotation.seconds:
                annotated[annotator].append(annotation.seconds)
    rows = [
        TimeRow(who, len(played[who]), sum(played[who]), len(annotated[who]), sum(annotated[who]))
        for who in sorted({*played, *annotated})
    ]
    return store.task, rows


def for_ten(seconds: float, number: int) -> str:
    """Seconds for `number` demonstrations, scaled to ten, as the paper writes them: `8 min 20 sec`."""
    if number == 0:
        return "not timed"
    total = round(seconds / number * TABLE_DEMONSTRATIONS)
    return f"{total // 60} min {total % 60} sec"
