"""Evaluation, the one pipeline behind `evaluate`, `train --eval-every` and the experiments: play, list, summarise.

With a folder it is on disk, one JSON line per episode as it finishes, and a summary:

    OUT/episodes.jsonl    {"episode": 0, "seed": 1073741824, "success": true, "return": 1.0, "length": 68}
    OUT/summary.json      what was evaluated (`of`) and the figures over all episodes

Stopped at any moment, the same evaluation goes on after its finished episodes. Another evaluation in the same folder
moves what it finds to OUT/earlier/1, 2, ….
"""

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from attentiontuner import __version__
from attentiontuner.core.errors import UserError, at_least
from attentiontuner.core.files import (
    WRONG_CONTENT,
    locked,
    make_folder,
    read_bytes,
    read_json,
    reading,
    remove_leftovers,
    write_json,
    write_text,
)
from attentiontuner.core.progress import progress
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.core.wording import counted
from attentiontuner.evaluation.metrics import EPISODE_CONFIDENCE, wilson_interval
from attentiontuner.evaluation.rollout import DEFAULT_BATCH, EpisodeResult, Policy, rollout
from attentiontuner.evaluation.workers import PlaysAlone
from attentiontuner.runs.run import Run
from attentiontuner.tasks.task import Task, get_task

EPISODES_FILE, SUMMARY_FILE = "episodes.jsonl", "summary.json"


def evaluate(
    policy: Policy | PlaysAlone | Path | str,
    task: Task | str,
    episodes: int,
    seed: int = 0,
    out: Path | str | None = None,
    *,
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
    of: Mapping[str, Any] | None = None,
) -> tuple[list[EpisodeResult], dict[str, Any]]:
    """Play `episodes` episodes of evaluation seed `seed`; the results in order, and the summary.

    Args:
        policy: what plays, or the folder of a run.
        task: where, or its name; of a run's folder it then has the settings the run was trained with.
        episodes: how many. seed: their environment seeds follow from it.
        out: the folder that keeps each finished episode; without it nothing is written or shown.
        batch: episodes in flight at once. workers: processes that step the environments; None chooses.
        of: what the policy is (its name, the checksum of its weights); together with task, settings and seed it decides
            whether the episodes found in `out` are of this evaluation.
    """
    at_least("--episodes", episodes)
    policy, task = _opened(policy, task)
    what = {"task": task.name, "settings": dict(task.settings), "seed": seed, **(of or {}), "version": __version__}
    seeds = [evaluation_seed(seed, index) for index in range(episodes)]
    started = time.monotonic()
    if out is None:
        results = rollout(policy, task, seeds, batch=batch, workers=workers)
        return results, {"of": what, **summarise(results), "seconds": round(time.monotonic() - started, 2)}
    task.make_env().close()  # settings it does not take, or a missing package, are refused before anything is written
    folder = Path(out)
    make_folder(folder)
    with locked(folder / ".lock", wait=False):
        remove_leftovers(folder / EPISODES_FILE, folder / SUMMARY_FILE)
        known = _finished_before(folder, what)
        with reading(folder / SUMMARY_FILE):
            before = float(_read_summary(folder).get("seconds", 0.0))
            if not 0 <= before < math.inf:
                raise ValueError(f"{before} seconds cannot be")
        _play_missing(policy, task, seeds, folder, known, batch, workers)
        in_order = [known[index] for index in range(episodes)]
        _write_episodes(folder, [known[index] for index in sorted(known)])
        summary = {"of": what, **summarise(in_order), "seconds": round(before + time.monotonic() - started, 2)}
        write_json(folder / SUMMARY_FILE, summary)
    return in_order, summary


def _opened(policy: Policy | PlaysAlone | Path | str, task: Task | str) -> tuple[Policy | PlaysAlone, Task]:
    """What plays and where, with what is only named opened."""
    if not isinstance(policy, Path | str):
        return policy, Task.of(task)
    from attentiontuner.evaluation.opening import load_policy  # which imports torch, and this module

    trained_on, settings = Run.open(policy).task()
    return load_policy(policy), get_task(task, settings) if task == trained_on else Task.of(task)


def _play_missing(
    policy: Policy | PlaysAlone,
    task: Task,
    seeds: Sequence[int],
    out: Path,
    results: dict[int, EpisodeResult],
    batch: int,
    workers: int | None,
) -> None:
    """Play the episodes that `results` lacks into it, each on the disk as soon as it is finished."""
    missing = [index for index in range(len(seeds)) if index not in results]
    with ExitStack() as stack:
        stream = stack.enter_context(open(out / EPISODES_FILE, "a", encoding="utf-8"))
        bar = stack.enter_context(progress(f"evaluate {task.name}", total=len(seeds)))
        bar.advance(len(seeds) - len(missing), _running_rate(results))

        def on_result(result: EpisodeResult) -> None:
            stream.write(_line(result))
            stream.flush()
            results[result.episode] = result
            bar.advance(1, _running_rate(results))

        left = [seeds[index] for index in missing]
        try:
            rollout(policy, task, left, batch=batch, workers=workers, on_result=on_result, episodes=missing)
        except UserError as error:
            kept = f"; {counted(len(results), 'finished episode')} kept in {out / EPISODES_FILE}" if results else ""
            raise UserError(f"{error}{kept}") from error


def summarise(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Success rate with its 95 % Wilson interval, mean return and mean length, as a JSON value."""
    successes = sum(result.success for result in results)
    interval = wilson_interval(successes, len(results))
    return {
        "episodes": len(results),
        "successes": successes,
        "success_rate": successes / len(results),
        "interval": [interval.low, interval.high],
        "confidence": EPISODE_CONFIDENCE,
        "mean_return": float(np.mean([result.return_ for result in results])),
        "mean_length": float(np.mean([result.length for result in results])),
    }


def describe(summary: Mapping[str, Any]) -> str:
    """The summary as one line for people."""
    low, high = (100 * end for end in summary["interval"])
    return (
        f"{summary['successes']} of {counted(summary['episodes'], 'episode')} solved: "
        f"{100 * summary['success_rate']:.1f} % "
        f"(95 % interval {low:.1f} to {high:.1f}), mean return {summary['mean_return']:.3f}, "
        f"mean length {summary['mean_length']:.1f} steps"
    )


def _running_rate(results: Mapping[int, EpisodeResult]) -> str:
    if not results:
        return ""
    return f"{100 * sum(result.success for result in results.values()) / len(results):.1f} % solved"


def _finished_before(out: Path, what: Mapping[str, Any]) -> dict[int, EpisodeResult]:
    """Episodes that an earlier run of the same evaluation finished, by number; the files are put in order."""
    results: dict[int, EpisodeResult] = {}
    path = out / EPISODES_FILE
    if path.exists() and _read_summary(out).get("of") != json.loads(json.dumps(what)):
        _set_aside(out)
    if path.exists():
        for line in read_bytes(path).splitlines():
            try:
                result = EpisodeResult.from_json(json.loads(line))
            except WRONG_CONTENT:
                continue  # a line cut off when the process was killed; its episode is played again
            if result.seed == evaluation_seed(what["seed"], result.episode):
                results[result.episode] = result
    if not results:
        write_json(out / SUMMARY_FILE, {"of": what, "episodes": 0})
    _write_episodes(out, results.values())
    return results


def _read_summary(out: Path) -> dict[str, Any]:
    value = read_json(out / SUMMARY_FILE)
    if not isinstance(value, dict):
        raise UserError(f"{out / SUMMARY_FILE} is damaged: it holds no summary; move it and {EPISODES_FILE} away")
    return value


def _write_episodes(out: Path, results: Iterable[EpisodeResult]) -> None:
    write_text(out / EPISODES_FILE, "".join(_line(result) for result in results))


def _line(result: EpisodeResult) -> str:
    return json.dumps(result.to_json()) + "\n"


def _set_aside(out: Path) -> None:
    """Move another evaluation's files, films included, into the next free folder of `out/earlier`."""
    number = 1 + max((int(path.name) for path in (out / "earlier").glob("*") if path.name.isdecimal()), default=0)
    folder = out / "earlier" / str(number)
    folder.mkdir(parents=True)
    for path in (out / EPISODES_FILE, out / SUMMARY_FILE, *out.glob("episode-*.gif")):
        path.rename(folder / path.name)
    print(
        f"attentiontuner: the evaluation before, of other weights, seed or settings, is now in {folder}",
        file=sys.stderr,
    )
