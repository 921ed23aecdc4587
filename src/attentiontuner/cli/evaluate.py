"""`attentiontuner evaluate`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from attentiontuner.cli.options import Settings
from attentiontuner.cli.values import check_device, check_folder, parse_settings
from attentiontuner.core.errors import UserError, at_least
from attentiontuner.core.seeds import evaluation_seed
from attentiontuner.models.bound import NOTHING_SAID, Asked, Keeping
from attentiontuner.runs.run import CONFIG, MODEL, Run

if TYPE_CHECKING:
    from attentiontuner.runs.run import Trained
    from attentiontuner.tasks.task import Task


def evaluate(
    run: Positional[Path | None] = None,
    /,
    episodes: int = 1000,
    seed: int = 0,
    policy: Literal["model", "random", "expert"] = "model",
    task: str | None = None,
    settings: Settings = (),
    best: bool = False,
    execute: int = 1,
    recent: int | None = None,
    keep: int | None = None,
    keep_by: Keeping | None = None,
    video: int = 0,
    workers: int | None = None,
    batch: int = 128,
    device: str | None = None,
    out: Path | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Play many episodes with a trained policy (or the random one, or the expert) and count successes.

    The episodes' seeds are those of no training demonstration. Interrupted, the same command goes on after the finished
    episodes. Results: OUT/episodes.jsonl, one line per episode, and OUT/summary.json.

    Args:
        run: folder of a run made by `attentiontuner train`; not needed with --policy random or expert.
        episodes: how many.
        seed: evaluation seed; the environment seeds follow from it.
        policy: the run's model, or the floor (random) or ceiling (expert) of its task.
        task: which task to play with --policy random or expert where no run is given.
        settings: environment settings as name=value, in place of those the run was trained with.
        best: the weights with the best success rate during training, not the latest.
        execute: actions of a chunk that are played before the next chunk is read, where the run learned chunks.
        recent: newest steps that the policy remembers; those of a window if not given, where the run was trained on
            windows.
        keep: older steps that it has room for beside them; as many if not given.
        keep_by: which older steps stay: by their keep score, by how much was recalled of them (attention), the most
            recent, or all: as everywhere but where a run was trained on windows.
        video: how many recall films to make, failures and successes in turn.
        workers: processes that step the environments; chosen by the number of cores if not given, 0 for none.
        batch: episodes in flight at once.
        device: where the model computes, such as cpu or cuda; the GPU if there is one.
        out: folder of the results; RUN/evaluation if not given.
        as_json: print the summary as JSON.
    """
    # What can be refused without torch, which takes seconds to import, is refused before.
    at_least("--episodes", episodes)
    evaluation_seed(seed, episodes - 1)
    check_folder("--out", out)
    check_device(device)
    at_least("--batch", batch)
    at_least("--workers", workers, 0)
    at_least("--execute", execute)
    if execute > 1 and policy != "model":
        raise UserError(f"--execute is for the chunks of a trained model; it does not go with --policy {policy}")
    memory = Asked(recent, keep, keep_by)
    for option, given, least in (("--recent", recent, 1), ("--keep", keep, 0)):
        if given is not None and given < least:
            raise UserError(f"{option} {given}: give {least} or more")
    if policy != "model" and memory != NOTHING_SAID:
        raise UserError(f"--recent and --keep are for a trained model; they do not go with --policy {policy}")
    at_least("--video", video, 0)
    if video and policy != "model":
        raise UserError(f"--video shows what a trained model recalls; it does not go with --policy {policy}")
    opened = None if run is None else Run.open(run)
    chosen = _task(opened, policy, task, settings)
    folder = out or _folder(opened, policy, chosen.name)
    if opened is not None and policy == "model":
        opened.weights(best)
    from attentiontuner.evaluation.evaluate import describe
    from attentiontuner.evaluation.evaluate import evaluate as play

    # The weights are read once: what plays, what is filmed and the checksum in the summary are the same bytes.
    trained = opened.load_model(best) if opened is not None and policy == "model" else None
    player, of = _policy(trained, policy, chosen, device, seed, execute, memory)
    results, summary = play(player, chosen, episodes, seed, folder, batch=batch, workers=workers, of=of)
    films: list[str] = []
    if video and trained is not None:
        from attentiontuner.evaluation.filming import make_films

        made = make_films(trained, chosen, results, video, folder, device=device, execute=execute, memory=memory)
        films = [str(path) for path in made]
    if as_json:
        print(json.dumps({**summary, "films": films}, indent=2))
        return
    print(f"{run or chosen.name}: {describe(summary)}")
    for film in films:
        print(f"film: {film}")


def _task(run: Run | None, policy: str, name: str | None, words: tuple[str, ...]) -> "Task":
    from attentiontuner.tasks.task import get_task

    settings = parse_settings(words)
    if run is None:
        if policy == "model":
            raise UserError("give the folder of a run, or --policy random or expert with --task")
        if name is None:
            raise UserError(f"--policy {policy} needs --task, or the folder of a run")
        return get_task(name, settings)
    trained_on = run.task()[0]
    if name not in (None, trained_on):
        raise UserError(f"{run.path} was trained on task {trained_on!r}: it cannot be evaluated on {name!r}")
    return task_of(run, settings)


def task_of(run: Run, settings: dict[str, Any], verb: str = "evaluate") -> "Task":
    """The task a run was trained on, with these settings in place of its own; one that cannot be played is refused by
    the command `verb`."""
    from attentiontuner.tasks.task import all_tasks, get_task

    trained_on, trained_with = run.task()
    if trained_on not in all_tasks():
        otherwise = "or ask it step by step from Python, with load_policy"
        if verb == "publish":
            otherwise = f"else there is nothing to record: give away {CONFIG} and {MODEL}, which load_policy takes"
        raise UserError(
            f"{run.path} was trained on task {trained_on!r}, of which no environment is known here: register one in a "
            f"file, such as register_task(Task.from_env(ENVIRONMENT, name={trained_on!r})), and write "
            f"`attentiontuner --import FILE {verb} ...`; {otherwise}"
        )
    chosen = get_task(trained_on, {**trained_with, **settings})
    if settings:
        chosen.make_env().close()  # settings the environment does not take are refused before the horizon is asked for
    return chosen


def _folder(run: Run | None, policy: str, task: str) -> Path:
    """RUN/evaluation; the floor and the ceiling of a run's task lie in folders of their own in it."""
    if run is None:
        return Run(Path("runs") / f"{task}-{policy}").evaluation
    return run.evaluation if policy == "model" else run.evaluation / policy


def _policy(
    trained: "Trained | None",
    name: str,
    task: "Task",
    device: str | None,
    seed: int,
    execute: int,
    memory: Asked,
) -> tuple[Any, dict[str, Any]]:
    """The policy, and what tells it from others."""
    from attentiontuner.evaluation.players import ExpertPolicy, RandomPolicy

    if name == "random":
        return RandomPolicy(seed), {"policy": name}
    if name == "expert":
        return ExpertPolicy(), {"policy": name}
    assert trained is not None
    from attentiontuner.evaluation.opening import as_policy, bound_of

    of: dict[str, Any] = {"policy": name, "weights": trained.sha256, **({"execute": execute} if execute > 1 else {})}
    if (bound := bound_of(trained.model, trained.config.window, memory)) is not None:
        of["memory"] = asdict(bound)
    return as_policy(trained, device=device, max_steps=task.max_steps, execute=execute, memory=memory), of
