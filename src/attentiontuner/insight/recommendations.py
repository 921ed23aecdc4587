"""What a memory report says is to be annotated first, as its folder has it. No torch: the studio reads it too.

OUT/recommended.json    {"schema": 1, "task": …, "data": {"shards": 4, "fingerprint": …}, "headline": …,
                         "demonstrations": [{"episode": 7, "reason": …, "suggestions": […]}, …]}
OUT/pairs.jsonl         {"episode": 7, "suggestions": [{"q": 24, "p": 5, "weight": 0.9, "gain": 0.6, "reason": …}, …]}

Reports may come from others, so every number is compared with the data set.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import WRONG_CONTENT, content_of, reading, shortened
from attentiontuner.demos.store.manifest import ShardEntry
from attentiontuner.demos.store.reader import DemoStore

RECOMMENDED, PAIRS = "recommended.json", "pairs.jsonl"
SCHEMA = 1
AGAIN = "make the report again with `attentiontuner memory-report`, which takes over what it has computed"

LARGEST = 2**28
"""Bytes of a file that is read."""

LONGEST_REASON, LONGEST_HEADLINE = 1000, 300
"""Characters."""

MOST_NATS = 1e6


@dataclass(frozen=True)
class Suggestion:
    """A pair, without any label: at step q step p is recalled; None: no single frame tells what is.

    Attributes:
        weight: share of all that may be recalled, from 0 to 1.
        gain: nats by which the expert's action is likelier with p in view.
        reason: why, in words.
    """

    q: int
    p: int | None
    weight: float
    gain: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        weight, gain = round(self.weight, 4), round(self.gain, 4)
        return {"q": self.q, "p": self.p, "weight": weight, "gain": gain, "reason": self.reason}


@dataclass(frozen=True)
class Recommended:
    """A demonstration to annotate, and why."""

    episode: int
    reason: str
    suggestions: tuple[Suggestion, ...]

    def to_json(self) -> dict[str, Any]:
        pairs = [suggestion.to_json() for suggestion in self.suggestions]
        return {"episode": self.episode, "reason": self.reason, "suggestions": pairs}


@dataclass(frozen=True)
class Recommendations:
    """What a report says of a data set.

    Attributes:
        headline: its answer.
        first: the demonstrations to annotate, in order.
        suggestions: by episode, of all that have some.
    """

    headline: str
    first: tuple[Recommended, ...]
    suggestions: Mapping[int, tuple[Suggestion, ...]]


def fingerprint(shards: Sequence[ShardEntry]) -> str:
    """What tells these shards from others."""
    return hashlib.sha256("".join(shard.sha256 for shard in shards).encode()).hexdigest()[:16]


def data_mark(store: DemoStore) -> dict[str, Any]:
    """Of which demonstrations a report is. Those that are recorded afterwards do not make it another's."""
    shards = store.manifest.readable_shards()
    return {"shards": len(shards), "fingerprint": fingerprint(shards)}


def read_recommendations(folder: Path, store: DemoStore) -> Recommendations:
    """What the report in `folder` says of this data set; that of another one, or a damaged file, is a `UserError`."""
    path = folder / RECOMMENDED
    with reading(path, AGAIN):
        value = json.loads(_text_of(path))
        if value["schema"] != SCHEMA:
            raise ValueError(f"its schema is {value['schema']!r}, not {SCHEMA}")
        task, headline = _words(value["task"], LONGEST_HEADLINE), _words(value["headline"], LONGEST_HEADLINE)
        of, marked = value.get("data"), value["demonstrations"]
    if task != store.task:
        raise UserError(f"{folder} is a memory report of {task}, but {store.path} holds {store.task}: give another")
    _check_data(path, of, store)
    lengths = [int(length) for length in store.lengths]
    with reading(path, AGAIN):
        first: dict[int, Recommended] = {}
        for number, one in enumerate(_list(marked), 1):
            with _place(f"demonstration {number} of the list"):
                episode = _episode(one, lengths, first)
                reason = _words(one["reason"], LONGEST_REASON)
                first[episode] = Recommended(episode, reason, _suggestions(one["suggestions"], lengths[episode]))
    return Recommendations(headline, tuple(first.values()), _pairs(folder / PAIRS, lengths))


def _check_data(path: Path, of: Any, store: DemoStore) -> None:
    if of is None:
        raise UserError(f"{path} does not say of which demonstrations it is: {AGAIN}")
    shards = store.manifest.readable_shards()
    with reading(path, AGAIN):
        count, mark = _whole(of["shards"], 1, 10**9), _words(of["fingerprint"], 64)
    if count > len(shards) or fingerprint(shards[:count]) != mark:
        other = f"{path.parent} is a memory report of other demonstrations than {store.path} holds"
        raise UserError(f"{other}: make one of these in another folder with `attentiontuner memory-report`")


def _pairs(path: Path, lengths: Sequence[int]) -> dict[int, tuple[Suggestion, ...]]:
    found: dict[int, tuple[Suggestion, ...]] = {}
    with reading(path, AGAIN):
        for number, line in enumerate(_text_of(path).split("\n"), 1):
            if line:
                with _place(f"line {number}"):
                    value = json.loads(line)
                    episode = _episode(value, lengths, found)
                    found[episode] = _suggestions(value["suggestions"], lengths[episode])
    return found


@contextmanager
def _place(name: str) -> Iterator[None]:
    """What is wrong within this block is said with its place."""
    try:
        yield
    except WRONG_CONTENT as error:
        said = str(error) if isinstance(error, ValueError) else repr(error)
        raise UserError(f"{name}: {shortened(said)}") from error


def _text_of(path: Path) -> str:
    return content_of(path, LARGEST).decode()


def _suggestions(value: Any, length: int) -> tuple[Suggestion, ...]:
    found: dict[tuple[int, int | None], Suggestion] = {}
    for one in _list(value):
        q = _whole(one["q"], 0, length - 1, "q")
        p = None if one["p"] is None else _whole(one["p"], 0, q - 1, "p")
        if (q, p) in found:
            raise ValueError(f"the pair of q = {q} and p = {p} is there twice")
        weight, gain = _number(one["weight"], 0, 1, "weight"), _number(one["gain"], -MOST_NATS, MOST_NATS, "gain")
        found[q, p] = Suggestion(q, p, weight, gain, _words(one["reason"], LONGEST_REASON))
    return tuple(found.values())


def _episode(value: Any, lengths: Sequence[int], known: Mapping[int, object]) -> int:
    episode = _whole(value["episode"], 0, len(lengths) - 1, "episode")
    if episode in known:
        raise ValueError(f"episode {episode} is there twice")
    return episode


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{shortened(repr(value), 40)} stands where a list should be")
    return value


def _whole(value: Any, least: int, most: int, name: str = "number") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {shortened(repr(value), 40)}, not a whole number from {least} to {most}")
    return value


def _number(value: Any, least: float, most: float, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {shortened(repr(value), 40)}, not a number from {least:g} to {most:g}")
    return float(value)


def _words(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{shortened(repr(value), 40)} stands where a text of at most {most} characters should be")
    value.encode()  # half of a surrogate pair cannot be sent to a page
    return value
