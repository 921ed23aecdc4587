"""Notes and flags on demonstrations that nobody has annotated yet: `DIR/studio/remarks/<annotator>.json`.

An annotation line always says which pairs there are, so a remark alone cannot stand there: it would claim that there is
nothing to remember. Once the demonstration is annotated its note and flag live in the annotation, and leave this file.
"""

from pathlib import Path
from typing import NamedTuple

from attentiontuner.core import files
from attentiontuner.demos.annotations import NAME
from attentiontuner.demos.store.manifest import LOCK


class Remark(NamedTuple):
    """What somebody wrote beside a demonstration."""

    note: str = ""
    flagged: bool = False


def read_remarks(root: Path, annotator: str) -> dict[int, Remark]:
    """Remarks by episode."""
    path = _file(root, annotator)
    if not path.exists():
        return {}
    with files.reading(path, "move it away to go on without these remarks"):
        return {
            int(episode): Remark(str(value["note"]), bool(value["flagged"]))
            for episode, value in files.read_json(path).items()
        }


def remarking(root: Path) -> list[str]:
    """The names of those who have remarks, in alphabetical order."""
    return sorted(path.stem for path in _file(root, "").parent.glob("*.json") if NAME.fullmatch(path.stem))


def write_remark(root: Path, annotator: str, episode: int, remark: Remark) -> None:
    """Replace one remark; an empty one leaves the file. Nothing is written where nothing changes."""
    with files.locked(root / LOCK):  # another studio may be writing beside the same remarks
        remarks = read_remarks(root, annotator)
        if remarks.get(episode, Remark()) == remark:
            return
        files.remove_leftovers(_file(root, annotator))
        remarks.pop(episode, None)
        if remark != Remark():
            remarks[episode] = remark
        files.write_json(_file(root, annotator), {str(key): value._asdict() for key, value in sorted(remarks.items())})


def _file(root: Path, annotator: str) -> Path:
    return root / "studio" / "remarks" / f"{annotator}.json"
