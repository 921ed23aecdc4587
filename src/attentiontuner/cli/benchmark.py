"""`attentiontuner benchmark`: what a policy scores on a task, and the leaderboard of all that have."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from attentiontuner.cli.options import Settings
from attentiontuner.cli.values import check_folder, parse_settings
from attentiontuner.core.errors import UserError, at_least

if TYPE_CHECKING:
    from attentiontuner.tasks.task import Task


def benchmark(
    policy: Positional[str | None] = None,
    /,
    task: str | None = None,
    settings: Settings = (),
    name: str | None = None,
    demonstrations: int | None = None,
    told: str | None = None,
    by: str = "",
    note: str = "",
    episodes: int = 1000,
    board: Path = Path("board"),
    records: Path | None = None,
) -> None:
    """Play a task with any policy, on the episodes that all are judged on, and keep its score; without a policy, print
    the leaderboard of all scores.

    Args:
        policy: folder of a run, random, expert, or the address of a policy of your own, FILE.py:NAME or MODULE:NAME: an
            object with act(observation), and reset() before each episode; a class or function is called with the task.
        task: which task to play; that of the run if not given.
        settings: environment settings as name=value, in place of the task's own.
        name: what the policy is called (the method of a run, or the last word of the address).
        demonstrations: how many it learned from (those of a run are known).
        told: what it was told besides observations and actions, such as pairs (of a run it is known).
        by: who made it, or where it can be read about.
        note: what else must be known to compare.
        episodes: how many; scores of fewer than 1000 say so.
        board: folder of the scores.
        records: also show the experiments in this folder of records, such as results.
    """
    if policy is None:
        _print_leaderboard(board, records)
        return
    at_least("--episodes", episodes)
    check_folder("--board", board)
    from attentiontuner.experiments.records import evaluation_part
    from attentiontuner.experiments.scores import EVALUATION_SEED, Score, free_place, write_score

    player, chosen, known = _player(policy, task, parse_settings(settings))
    known |= {key: value for key, value in (("name", name), ("told", told)) if value is not None}
    known |= {} if demonstrations is None else {"demonstrations": demonstrations}

    def score(evaluation: dict[str, Any]) -> Score:
        from attentiontuner.core.versions import software

        return Score(
            task=chosen.name,
            settings=dict(chosen.settings),
            by=by,
            note=note,
            evaluation=evaluation,
            versions=software(),
            **known,
        )

    from attentiontuner.evaluation.evaluate import describe, evaluate
    from attentiontuner.evaluation.outside import OneByOne

    free_place(board, score(_nothing_yet()).file)  # refused before a thousand episodes, not after
    alone: dict[str, Any] = {"batch": 1, "workers": 0} if isinstance(player, OneByOne) else {}
    with TemporaryDirectory() as folder:
        results, summary = evaluate(player, chosen, episodes, EVALUATION_SEED, folder, **alone)
    path = write_score(board, score(evaluation_part(results, EVALUATION_SEED)))
    print(f"{known['name']} on {chosen.name}: {describe(summary)}")
    print(path)


def _nothing_yet() -> dict[str, Any]:
    from attentiontuner.core.seeds import evaluation_seed

    return {"success": "", "episodes": 0, "successes": 0, "first_environment_seed": evaluation_seed(0, 0)}


def _player(policy: str, task: str | None, settings: dict[str, Any]) -> tuple[Any, "Task", dict[str, Any]]:
    """What plays, where, and what is known of it: name, demonstrations, told."""
    from attentiontuner.evaluation.outside import is_address, load_outside
    from attentiontuner.evaluation.players import ExpertPolicy, RandomPolicy
    from attentiontuner.tasks.task import get_task

    if policy not in ("random", "expert") and not is_address(policy):
        if policy.endswith(".py"):
            raise UserError(f"POLICY {policy} does not say which policy in the file: write FILE.py:NAME, {policy}:NAME")
        return _of_run(policy, task, settings)
    if task is None:
        raise UserError(f"{policy} needs --task: `attentiontuner tasks` lists them")
    chosen = get_task(task, settings)
    known = {"name": policy.rpartition(":")[2], "demonstrations": None, "told": ""}
    if policy == "random":
        return RandomPolicy(), chosen, known
    return ExpertPolicy() if policy == "expert" else load_outside(policy, chosen), chosen, known


def _of_run(policy: str, task: str | None, settings: dict[str, Any]) -> tuple[Any, "Task", dict[str, Any]]:
    from attentiontuner.runs.run import Run
    from attentiontuner.tasks.task import get_task

    run = Run.open(policy)
    trained_on, trained_with = run.task()
    if task not in (None, trained_on):
        raise UserError(f"{policy} was trained on task {trained_on!r}: it cannot play {task!r}")
    chosen = get_task(trained_on, {**trained_with, **settings})
    from attentiontuner.evaluation.opening import as_policy

    trained = run.load_model()
    config = trained.config
    known = {
        "name": config.way.title,
        "demonstrations": run.facts()["data"].get("demonstrations"),
        "told": "pairs" if config.needs_pairs else "",
    }
    return as_policy(trained, max_steps=chosen.max_steps), chosen, known


def _print_leaderboard(board: Path, records: Path | None) -> None:
    from attentiontuner.experiments.records import read_records
    from attentiontuner.experiments.reporting.leaderboard import leaderboard, lines_of
    from attentiontuner.experiments.scores import read_scores

    if records is not None and not records.is_dir():
        raise UserError(f"--records {records}: there is no such folder")
    lines = lines_of(read_scores(board), [] if records is None else read_records(records))
    if not lines:
        raise UserError(f"{board} has no scores: give a policy, as in `attentiontuner benchmark random --task hallway`")
    print(leaderboard(lines).to_markdown())
