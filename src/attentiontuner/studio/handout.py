"""What the table shows of some demonstrations, as a file: a line for each annotator of each, or one where nobody is."""

import csv
import io
import json
from collections.abc import Collection, Iterator
from typing import Any, Literal

from attentiontuner.demos.annotations import format_line, read_shard_annotations
from attentiontuner.studio.catalogue import Catalogue
from attentiontuner.studio.desk import Desk
from attentiontuner.studio.remarks import Remark, read_remarks
from attentiontuner.studio.review import read_review

Format = Literal["jsonl", "csv"]

COLUMNS = (
    *("episode", "steps", "solved", "assigned", "state", "agreement"),
    *("annotator", "count", "pairs", "flagged", "note", "seconds"),
)
"""Of a CSV file; `count` is the number of pairs, "" where there is no annotation. JSON lines have more."""


def handout(desk: Desk, catalogue: Catalogue, episodes: Collection[int], form: Format, tolerance: int = 0) -> str:
    """The chosen demonstrations as JSON lines or as CSV, in order of their numbers, then of names."""
    rows = _rows(desk, catalogue, episodes, tolerance)
    if form == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        pairs = json.dumps(row["pairs"]) if "pairs" in row else ""
        writer.writerow({**row, "pairs": pairs, "assigned": " ".join(row["assigned"])})
    return text.getvalue()


def _rows(desk: Desk, catalogue: Catalogue, episodes: Collection[int], tolerance: int) -> Iterator[dict[str, Any]]:
    table, review, store = catalogue.table(tolerance, patience=None), read_review(desk.root), desk.store
    failed, chosen = set(table["failed"]), set(episodes)
    remarks = {name: read_remarks(desk.root, name) for name in table["people"]}
    for shard in store.manifest.readable_shards():
        inside = sorted(episode for episode in chosen if shard.first <= episode < shard.end)
        if not inside:
            continue
        said = {name: read_shard_annotations(desk.root, name, shard) for name in table["people"]}
        for episode in inside:
            about = {
                "episode": episode,
                "steps": shard.lengths[episode - shard.first],
                "solved": episode not in failed,
                "assigned": sorted(name for name, theirs in review.assigned.items() if episode in theirs),
                "state": review.state(episode),
                "agreement": table["agreement"][episode],
            }
            lines = []
            for name, theirs in said.items():
                annotation, remark = theirs.annotation(episode), remarks[name].get(episode, Remark())
                if annotation is not None:
                    line = json.loads(format_line(episode, annotation))
                    lines.append({"annotator": name, "count": len(annotation.pairs), **line})
                elif remark != Remark():
                    lines.append({"annotator": name, "note": remark.note, "flagged": remark.flagged})
            yield from ({**about, **line} for line in lines or [{}])
