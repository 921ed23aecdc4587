"""Agreement between two annotators, for the page: over all demonstrations both marked, and where they differ in one."""

from collections.abc import Mapping
from typing import Any

from attentiontuner.demos.agreement import agreement
from attentiontuner.demos.annotations import Annotation


def compare(
    first: Mapping[int, Annotation], second: Mapping[int, Annotation], tolerance: int, episode: int | None
) -> dict[str, Any]:
    """F1 over the pairs of all common demonstrations, each demonstration's own F1, and the differences in `episode`.

    A pair of one annotator matches a pair of the other whose p and q are each at most `tolerance` steps away; it counts
    as often as it matters.
    """
    results = {
        number: agreement(first[number].pairs, second[number].pairs, tolerance)
        for number in sorted(first.keys() & second.keys())
    }
    matched = sum(result.matched for result in results.values())
    whole_first, whole_second = (
        sum(times for number in results for _, _, times in labels[number].pairs) for labels in (first, second)
    )
    total = whole_first + whole_second
    here = results.get(episode) if episode is not None else None
    return {
        "common": len(results),
        "f1": (2 * matched / total if total else 1.0) if results else None,
        "matched": matched,
        "onlyFirst": whole_first - matched,
        "onlySecond": whole_second - matched,
        "worst": [
            {"episode": number, "f1": result.f1}
            for number, result in sorted(results.items(), key=lambda item: (item[1].f1, item[0]))
            if result.f1 < 1
        ][:12],
        "here": None
        if here is None
        else {
            "f1": here.f1,
            "precision": here.precision,
            "recall": here.recall,
            "matched": here.matched,
            "onlyFirst": here.only_first,
            "onlySecond": here.only_second,
            "counts": here.counts,
        },
    }
