"""Memory reports as their folder has them, made by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attentiontuner.core.files import make_folder, write_json, write_text
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight.recommendations import SCHEMA, data_mark

WHY = "what is in view does not tell what to do at step"


def one(q: int, p: int | None) -> dict[str, Any]:
    return {"q": q, "p": p, "weight": 0.0 if p is None else 0.9, "gain": 0.6, "reason": f"{WHY} {q}"}


def write_report(
    folder: Path, data: Path, suggestions: Mapping[int, Sequence[dict[str, Any]]], order: Sequence[int]
) -> Path:
    """A report of the data set in `data` that recommends demonstrations in an order."""
    store = DemoStore.open(data)
    first = [
        {
            "episode": episode,
            "reason": f"demonstration {episode} teaches most",
            "suggestions": list(suggestions.get(episode, ())),
        }
        for episode in order
    ]
    said = {"schema": SCHEMA, "task": store.task, "data": data_mark(store), "verdict": "needed"}
    make_folder(folder)
    write_json(folder / "recommended.json", {**said, "headline": "A memory is needed.", "demonstrations": first})
    lines = [json.dumps({"episode": episode, "suggestions": list(own)}) for episode, own in suggestions.items()]
    write_text(folder / "pairs.jsonl", "".join(f"{line}\n" for line in lines))
    return folder
