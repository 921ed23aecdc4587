"""`attentiontuner train`."""

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from attentiontuner.cli.options import borrows, grouped
from attentiontuner.cli.values import check_device, check_folder, parse_bytes, parse_duration, parse_settings
from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.runs.config import METHOD, RECIPE, NetworkOptions, TrainConfig, check_values
from attentiontuner.runs.log import checked_boards
from attentiontuner.spaces.encoders import parse_encoders

if TYPE_CHECKING:
    from attentiontuner.demos import DemoStore
    from attentiontuner.tasks.task import Task
    from attentiontuner.training.train import TrainResult

NetworkFields = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")]

DECIDED_HERE = ("task", "settings", "model", "memory_limit")
"""Fields of a run's configuration that are not options as they are."""

NOT_GIVEN = {
    **dict.fromkeys(RECIPE, "the method's own if not given"),
    "method": f"{METHOD} if not given",
}
"""What happens where these are not given. A run that goes on keeps what it began with."""

KEPT = (*RECIPE, "window")
"""What a run that goes on keeps where it is not given: the recipe, and the windows that its network is made for."""


GROUPS = {
    "data": ("test_data", "test_fraction", "demos", "include_failed", "memory_limit"),
    "recipe": (
        *("method", "epochs", "batch_size", "learning_rate", "schedule", "warmup_steps", "clip", "weight_decay"),
        *("window", "parts", "seed", "device", "precision"),
    ),
    "network": (*(item.name for item in fields(NetworkOptions)), "model"),
    "label": ("annotator", "labels", "memory_weight", "heads", "split_pairs", "attend_self"),
    "saving and showing": (
        *("budget", "keep", "checkpoint_seconds", "log", "eval_every", "eval_episodes", "heatmap_epochs"),
    ),
    "study": ("pairs", "annotated_fraction", "noise_p", "noise_q", "late", "learn_padding"),
}
"""What help shows together."""


@grouped(GROUPS)
@borrows("choices", TrainConfig, DECIDED_HERE, NOT_GIVEN)
@borrows("network", NetworkOptions)
def train(
    task: Positional[str | None] = None,
    /,
    *,
    data: Path,
    out: Path,
    choices: dict[str, Any],
    network: dict[str, Any],
    model: NetworkFields = (),
    memory_limit: str | None = None,
    test_data: Path | None = None,
    device: str | None = None,
    log: str = "",
    budget: str | None = None,
) -> int:
    """Train a policy on demonstrations and their memory pairs.

    Method recall, the default, is for work of your own and few demonstrations; recall-vanilla is its control without
    pairs.

    Method attentiontuner is the paper's, to the letter; vanilla is its control without pairs.

    Killed or stopped at any moment, the same command goes on where it was, with the method, network, recipe and window
    it began with. Several GPUs:
    torchrun --nproc-per-node N -m attentiontuner train ...

    Args:
        task: name of the task; the data set knows it if not given.
        data: folder of the demonstrations; its environment settings are the run's.
        out: folder of the run.
        model: other fields of the method's network as name=value, such as marks=0.
        memory_limit: frames held at once, such as 4GB; a larger data set is streamed.
        test_data: demonstrations to test on; the last of --data if not given.
        device: cpu, cuda or cuda:N; a GPU if there is one.
        log: show the metrics elsewhere too: tensorboard, or wandb (Weights & Biases, offline unless WANDB_MODE says
            otherwise), or tensorboard,wandb.
        budget: save and stop after this time, such as 90s, 9m or 2h.
    """
    from attentiontuner.demos import DemoStore
    from attentiontuner.runs.config import recipe
    from attentiontuner.runs.run import Run
    from attentiontuner.training.demonstrations import demonstrations_of

    # What can be refused without torch, which takes seconds to import, is refused before.
    check_values(choices)
    check_folder("--out", out)
    check_device(device)
    store = DemoStore.open(data, choices.get("annotator"))
    chosen = _task(task, store, data, out)
    test = None if test_data is None else DemoStore.open(test_data)
    sizes = {**NetworkOptions(**network).changes(), **parse_settings(model, "--model")}
    parse_encoders(str(sizes.get("encoders", "")), chosen.observation)
    if memory_limit is not None:
        choices["memory_limit"] = parse_bytes(memory_limit)
    seconds = None if budget is None else parse_duration(budget)
    boards = checked_boards(filter(None, log.split(",")))
    begun, epochs_said = Run(out).begun(), "epochs" in choices
    method = choices.pop("method", None) or (begun.method if begun else METHOD)
    if begun is not None and begun.method == method:
        choices = {name: getattr(begun, name) for name in KEPT} | choices
        sizes = begun.model.chosen() | sizes
    of_recipe = {name: value for name, value in choices.items() if name != "epochs"}
    config = recipe(chosen, method, sizes, store, **choices)
    demonstrations_of(Run(out).as_begun(config), store, test)
    if config.eval_every:
        chosen.make_env().close()  # one that cannot be played is refused before anything is trained
    from attentiontuner.core.signals import Interrupted
    from attentiontuner.training.train import train as train_run

    evaluate = None
    if config.eval_every:
        from attentiontuner.evaluation.opening import success_during_training

        evaluate = success_during_training(chosen, config.eval_episodes, window=config.window)
    circumstances: dict[str, Any] = {"device": device, "log": boards, "budget_seconds": seconds}
    try:
        result = train_run(config, store, out, test_data=test, evaluate=evaluate, **circumstances)
    except Interrupted as stop:
        print(f"attentiontuner: {stop}", file=sys.stderr)
        return stop.exit_code
    if os.environ.get("RANK", "0") == "0":
        proposed = config if epochs_said else recipe(chosen, method, sizes, store, **of_recipe)
        print(_summary(result, config, proposed.epochs))
    return 0


def _task(name: str | None, store: "DemoStore", data: Path, out: Path) -> "Task":
    """The task of the data set, if it is the one of that name."""
    from attentiontuner.demos.store.manifest import FILE as MANIFEST
    from attentiontuner.tasks.task import Task, get_task

    if name not in (None, store.task):
        get_task(name)
        raise UserError(f"--data {data} holds demonstrations of {store.task!r}, not of {name!r}")
    if (out / MANIFEST).exists():
        raise UserError(f"--out {out} is a data set: give another folder for the run")
    return Task.from_data(store)


def _summary(result: "TrainResult", config: TrainConfig, proposed: int) -> str:
    """What came of it; `proposed` are the epochs of the recipe, where the command says no others."""
    done, epochs = len(result.metrics), counted(config.epochs, "epoch")
    last = result.metrics[-1] if done else {}
    from attentiontuner.training.loop import tested

    figures = f", {tested(last)}" if tested(last) else ""
    minutes = f"{result.seconds / 60:.1f} min"
    if result.already_finished:
        way = f"--epochs {proposed}" if config.schedule == "constant" else "another --out"
        to_do = f"the recipe has {proposed}: for them give {way}" if proposed > config.epochs else "nothing to do"
        return f"{result.run} is finished: {epochs} of {config.method} in {minutes}{figures}; {to_do}"
    if not result.finished:
        return f"{result.run}: the budget ended after {done} of {epochs} of {config.method}; the same command goes on"
    return f"{result.run}: {epochs} of {config.method} in {minutes}{figures}"
