"""A memory report of any data set, without any annotation.

OUT/index.html          the page; loads nothing from elsewhere
OUT/recommended.json    demonstrations to annotate first, with reasons and suggested pairs
OUT/pairs.jsonl         the suggested pairs of every demonstration that has some, one line each
OUT/findings.json       the numbers
OUT/work/               what was computed, to go on from (`evidence`)
"""

import json
import shlex
from pathlib import Path
from typing import Any

import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import (
    WRONG_CONTENT,
    locked,
    make_folder,
    read_json,
    remove_leftovers,
    write_json,
    write_text,
)
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.insight.evidence import STAGES, Evidence, gather
from attentiontuner.insight.findings import PHASES, Findings, judge
from attentiontuner.insight.recommendations import PAIRS, RECOMMENDED, SCHEMA, data_mark, fingerprint
from attentiontuner.insight.report_page import report_page

COUNT = 20
"""Demonstrations that are recommended."""

ERROR_AND_GAINS = ("error", "gain_of_frames", "gain_of_whole_past")
"""What is told of a phase where actions are numbers."""

RESULTS = ("index.html", RECOMMENDED, PAIRS, "findings.json")


def memory_report(
    data: Path, out: Path, *, seed: int = 0, device: torch.device | str = "cpu", count: int = COUNT
) -> Findings:
    """Write the report of the data set in `data` to the folder `out`, and return what it says.

    Args:
        data: folder of the data set. out: a new folder, or that of its report, which then goes on.
        seed: fixes everything drawn.
        device: where policies learn.
        count: demonstrations that are recommended.
    """
    store = DemoStore.open(data).annotated_by(None)
    work = out / "work"
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not work.is_dir())):
        raise UserError(f"{out} is there already and holds no memory report: give a new folder")
    _check_whose(out, store)
    make_folder(work)
    with locked(work / ".lock", wait=False):
        remove_leftovers(*(out / name for name in RESULTS), *(work / name for name in STAGES))
        evidence = gather(store, work, seed=seed, device=device)
        findings = judge(evidence, store.actions, count=count)
        write_text(out / "index.html", report_page(store, evidence, findings, studio_command(data, out)))
        write_json(out / RECOMMENDED, _recommended(store, findings))
        write_text(out / PAIRS, _pairs(evidence, findings))
        write_json(out / "findings.json", _numbers(store, evidence, findings))
    return findings


def _check_whose(out: Path, store: DemoStore) -> None:
    """Refuse a folder with the finished report of another data set. One that has grown since is the same."""
    try:
        of = read_json(out / RECOMMENDED)["data"]
        same = fingerprint(store.manifest.readable_shards()[: of["shards"]]) == of["fingerprint"]
    except (UserError, OSError, *WRONG_CONTENT):  # none yet, or it is damaged: it is made again
        return
    if not same:
        raise UserError(
            f"{out} holds the memory report of other demonstrations than {store.path} holds: give a new folder"
        )


def studio_command(data: Path, out: Path) -> str:
    """What to type to annotate what is recommended."""
    return shlex.join(["attentiontuner", "annotate", str(data), "--suggest", str(out)])


def _recommended(store: DemoStore, findings: Findings) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "task": store.task,
        "data": data_mark(store),
        "verdict": findings.verdict,
        "headline": findings.headline,
        "reasons": list(findings.reasons),
        "demonstrations": [each.to_json() for each in findings.recommended],
    }


def _pairs(evidence: Evidence, findings: Findings) -> str:
    lines = [
        json.dumps({"episode": int(evidence.episodes[place]), "suggestions": [each.to_json() for each in own]})
        for place, own in sorted(findings.suggestions.items())
    ]
    return "".join(f"{line}\n" for line in lines)


def _numbers(store: DemoStore, evidence: Evidence, findings: Findings) -> dict[str, Any]:
    gains = {
        name: {"nats": round(gain.mean, 5), "standard_error": round(gain.error, 5)}
        for name, gain in (("frames", findings.frames), ("whole_past", findings.past))
    }
    shown = ("surprise", "surprise_with_frames", "surprise_with_whole_past")
    columns = ("steps", "need_a_memory", *(ERROR_AND_GAINS if findings.numbers else shown))
    phases = [
        {"phase": name, **{column: round(value, 5) for column, value in zip(columns, row, strict=True)}}
        for name, row in zip(PHASES, findings.phases, strict=True)
    ]
    found_by = [[place and {place.kind: place.number} for place in thing.found_by] for thing in evidence.things]
    return {
        "schema": SCHEMA,
        "task": store.task,
        "verdict": findings.verdict,
        "demonstrations": len(evidence.episodes),
        "steps": int(evidence.lengths.sum()),
        "surprise": round(findings.surprise, 5),
        **({"error": round(findings.error, 5)} if findings.numbers else {}),
        "gains": gains,
        "found_by": found_by,
        "things": {str(number): episodes for number, episodes in findings.things.items()},
        "phases": phases,
    }
