"""What any policy, ours or another's, scored on a task: one file each, which a leaderboard is made from.

BOARD/<task>--<name>.json
"""

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError, at_least
from attentiontuner.core.files import (
    WRONG_CONTENT,
    locked,
    make_folder,
    read_json,
    remove_leftovers,
    shortened,
    write_parts,
)
from attentiontuner.core.seals import sealed, unsealed
from attentiontuner.core.seeds import evaluation_seed

SCHEMA = 1
KIND = "attentiontuner score"

EVALUATION_SEED = 0
EPISODES = 1000
"""The episodes that all policies are judged on."""


@dataclass(frozen=True)
class Score:
    """One policy on one task.

    Attributes:
        name: of the policy. task, settings: what it played; `settings` in full.
        demonstrations: how many it learned from; None: from none, or nobody said.
        told: what it was told besides observations and actions, such as "pairs"; "" for nothing.
        by: who says so, a person or an address. note: whatever else must be known to compare.
        evaluation: as a record of an experiment has it (`records.evaluation_part`).
        versions: of the software it was played with.
    """

    name: str
    task: str
    settings: Mapping[str, Any]
    demonstrations: int | None
    told: str
    by: str
    note: str
    evaluation: Mapping[str, Any]
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+ -]+", self.name):
            raise UserError(f"--name {self.name!r}: give letters, digits, spaces and . _ + -")
        at_least("--demonstrations", self.demonstrations, 0)
        outcome = self.evaluation["success"]
        if len(outcome) != self.evaluation["episodes"] or outcome.count("1") != self.evaluation["successes"]:
            raise UserError("the list of episodes does not fit their number and the number of successes")
        if self.evaluation["first_environment_seed"] != evaluation_seed(EVALUATION_SEED, 0):
            raise UserError("it was not played on the episodes of evaluation seed 0")

    @property
    def file(self) -> str:
        return f"{self.task}--{re.sub(r'[^a-z0-9.+]+', '-', self.name.lower()).strip('-')}.json"

    def to_json(self) -> dict[str, Any]:
        return {"kind": KIND, "schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, value: Any) -> "Score":
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise UserError("it is not an attentiontuner score")
        if value.get("schema") != SCHEMA:
            raise UserError(f"it has schema {value.get('schema')}, this version reads {SCHEMA}")
        try:
            score = cls(**{name: value[name] for name in cls.__dataclass_fields__})
            score._check()
        except WRONG_CONTENT as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{type(error).__name__}: {shortened(str(error))}") from error
        return score

    def _check(self) -> None:
        """What a leaderboard is computed from, if it has the types it must have."""
        for name in ("name", "task", "told", "by", "note"):
            if not isinstance(getattr(self, name), str):
                raise UserError(f"{name} is no text")
        dict(self.settings), dict(self.versions)
        if not isinstance(self.demonstrations, int | None):
            raise UserError("demonstrations is no whole number")
        if self.evaluation["episodes"] < 1 or set(self.evaluation["success"]) - {"0", "1"}:
            raise UserError("its list of episodes is none")
        if not isinstance(returned := self.evaluation["mean_return"], int | float) or not math.isfinite(returned):
            raise UserError("its mean return is no number")


def write_score(board: Path, score: Score) -> Path:
    """Write a new score."""
    value = sealed(score.to_json())
    make_folder(board)
    with locked(board / ".lock"):
        path = free_place(board, score.file)
        remove_leftovers(path)
        write_parts(path, value)
    return path


def free_place(board: Path, file: str) -> Path:
    """Where a score will be; somebody's score that is there already is never overwritten."""
    path = board / file
    if path.exists():
        raise UserError(f"{path} is there already: give another --name, or move it away")
    return path


def read_scores(board: Path) -> list[Score]:
    """Every score in `board`, sorted by path; files that are none are named on stderr and left where they are."""
    found = []
    for path in sorted(board.glob("*--*.json")):
        try:
            value = read_json(path)
            score = Score.from_json(value)
            unsealed(value, path)
            found.append(score)
        except UserError as error:
            named = "" if str(path) in str(error) else f"{path}: "
            print(f"attentiontuner: left out: {named}{error}", file=sys.stderr)
    return found
