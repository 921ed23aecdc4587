"""Annotations as LeRobot's language events, and back without loss.

An event is a row on a frame: role, content, style. Ours have the style `recall`. On frame q stands what one annotator
recalled there, p as frame indices of the episode, so that cutting and joining data sets keeps them true:

```json
{"by": "anna", "p": [1, 5], "m": [1, 2]}
```

says that step 1 was recalled once and step 5 twice. Where they are not what everybody has, `p_last` and `q_last` (the
ends of intervals) and `w` (weights) stand beside them. No decision is at frame 0, which recalls nothing: there each
annotator has a row that says that the episode is annotated, with note, flag, seconds, revision and origins.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.demos.annotations import Annotation, check_annotator
from attentiontuner.demos.exchange.lerobot.layout import StepError
from attentiontuner.demos.pair_rules import LARGEST, PairError
from attentiontuner.demos.pairs import PairTable

STYLE, ROLE = "recall", "annotator"
COLUMNS = {"p": "p", "m": "multiplicity", "p_last": "p_last", "q_last": "q_last", "w": "weight"}
"""What a content calls a column → what the table does."""

Event = dict[str, Any]


def events_of(annotations: Mapping[str, Annotation], length: int) -> list[list[Event]]:
    """The rows of each of the `length` frames of an episode; `annotations` by annotator."""
    frames: list[list[Event]] = [[] for _ in range(length)]
    for name, annotation in sorted(annotations.items()):
        frames[0].append(_event({"by": name, **_remarks(annotation)}))
        pairs = annotation.pairs
        for q in np.unique(pairs.q).tolist():
            chosen = np.flatnonzero(pairs.q == q)
            frames[q].append(_event({"by": name, **_recalled(pairs, q, chosen)}))
    return frames


def _event(content: Mapping[str, Any]) -> Event:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return {"role": ROLE, "content": text, "style": STYLE, "camera": None, "tool_calls": None}


def _remarks(annotation: Annotation) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if annotation.origins:
        said["origins"] = {name: sorted(map(list, pairs)) for name, pairs in sorted(annotation.origins.items())}
    for key, empty in (("note", ""), ("flagged", False), ("seconds", 0.0), ("revision", 0)):
        if getattr(annotation, key) != empty:
            said[key] = getattr(annotation, key)
    return said


def _recalled(pairs: PairTable, q: int, chosen: Any) -> dict[str, Any]:
    row = {key: getattr(pairs, column)[chosen] for key, column in COLUMNS.items()}
    usual = {"p_last": row["p"], "q_last": q, "w": 1}
    kept = {key: values for key, values in row.items() if key not in usual or np.any(values != usual[key])}
    # The shortest text that is the same float32: 0.1, not 0.10000000149011612.
    return {key: [float(str(n)) for n in values] if key == "w" else values.tolist() for key, values in kept.items()}


def annotations_of(frames: Sequence[Sequence[Mapping[str, Any]] | None], nameless: str) -> dict[str, Annotation]:
    """annotator → what they said, of the rows of every frame of an episode; styles of others are passed over.

    Who does not say their name is called `nameless`. A row that cannot be is a `StepError`.
    """
    columns: dict[str, dict[str, list[Any]]] = {}
    remarks: dict[str, dict[str, Any]] = {}
    for step, rows in enumerate(frames):
        for row in rows or ():
            if row.get("style") != STYLE:
                continue
            content = _content(row, step)
            name = _name(content, nameless, step)
            remarks.setdefault(name, {}).update(_read_remarks(content, step))
            recalled = _read_recalled(content, step)
            _table(recalled, len(frames), step)  # a pair that cannot be is found here, where its step is known
            into = columns.setdefault(name, {key: [] for key in recalled})
            for key, values in recalled.items():
                into[key] += values
    return {name: Annotation(_table(of, len(frames), 0), **remarks[name]) for name, of in columns.items()}


def _content(row: Mapping[str, Any], step: int) -> dict[str, Any]:
    try:
        content = json.loads(str(row.get("content")))
    except (ValueError, RecursionError) as error:
        raise StepError(f"a recall event that is no JSON: {error}", step) from error
    if not isinstance(content, dict):
        raise StepError('a recall event that is no object, such as {"by": "anna", "p": [3], "m": [1]}', step)
    return content


def _name(content: Mapping[str, Any], nameless: str, step: int) -> str:
    try:
        return check_annotator(str(content.get("by", nameless)))
    except UserError as error:
        raise StepError(f"a recall event of {error}", step) from error


def _read_recalled(content: Mapping[str, Any], step: int) -> dict[str, list[Any]]:
    """The columns of one row; empty lists where it recalls nothing."""
    steps = content.get("p", [])
    count = len(steps) if isinstance(steps, list) else 0
    usual = {"m": [1] * count, "p_last": steps, "q_last": [step] * count, "w": [1.0] * count}
    found: dict[str, list[Any]] = {"q": [step] * count}
    for key in COLUMNS:
        values = content.get(key, usual.get(key, []))
        kinds = (int, float) if key == "w" else (int,)
        good = isinstance(values, list) and len(values) == count
        if not good or any(type(n) not in kinds or not 0 <= n <= LARGEST for n in values):
            kind = "numbers" if key == "w" else "whole numbers"
            raise StepError(f"a recall event whose {key} is no list of {kind} from 0, one for each p", step)
        found[key] = values
    return found


def _read_remarks(content: Mapping[str, Any], step: int) -> dict[str, Any]:
    said: dict[str, Any] = {}
    try:
        for key, kind in (("note", str), ("flagged", bool), ("seconds", float), ("revision", int)):
            if key in content:
                said[key] = kind(content[key])
        if "origins" in content:
            said["origins"] = {
                check_annotator(str(name)) if "," not in name else str(name): frozenset((int(p), int(q)) for p, q in of)
                for name, of in content["origins"].items()
            }
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StepError(f"a recall event with remarks that cannot be read: {error}", step) from error
    return said


def _table(columns: Mapping[str, list[Any]], length: int, step: int) -> PairTable:
    whole = {COLUMNS.get(key, key): np.array(values) for key, values in columns.items()}
    integers = {name: column.astype(np.int64) for name, column in whole.items() if name != "weight"}
    weight = whole["weight"].astype(np.float32)
    try:
        return PairTable(np.array([length]), np.array([True]), np.zeros(len(weight), int), **integers, weight=weight)
    except PairError as error:
        raise StepError(f"a recall event with {error.problem}", step) from error
