"""`attentiontuner train`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from attentiontuner.cli.options import borrows
from attentiontuner.cli.values import parse_bytes, parse_duration, parse_settings
from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.runs.config import RECIPE, NetworkOptions, TrainConfig

if TYPE_CHECKING:
    from attentiontuner.demos import DemoStore
    from attentiontuner.tasks.task import Task
    from attentiontuner.training.train import TrainResult

NetworkFields = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")]

DECIDED_HERE = ("task", "settings", "model", "memory_limit")
"""Fields of a run's configuration that are not options as they are."""

METHOD = "recall"
"""The method of a new run where none is given."""

NOT_GIVEN = {
    **dict.fromkeys(RECIPE, "the method's own if not given"),
    "method": f"{METHOD} if not given",
}
"""What happens where these are not given. A run that goes on keeps what it began with."""


@borrows("choices", TrainConfig, DECIDED_HERE, NOT_GIVEN)
@borrows("network", NetworkOptions)
def train(
    task: Positional[str],
    /,
    data: Path,
    out: Path,
    choices: dict[str, Any],
    network: dict[str, Any],
    model: NetworkFields = (),
    memory_limit: str | None = None,
    test_data: Path | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    budget: str | None = None,
) -> int:
    """Train a policy on demonstrations and their memory pairs.

    Method recall, the default, is for work of your own and few demonstrations; recall-vanilla is its control without
    pairs.

    Method attentiontuner is the paper's, to the letter; vanilla is its control without pairs.

    Killed or stopped at any moment, the same command goes on where it was, with the method, network and recipe it
    began with. Several GPUs:
    torchrun --nproc-per-node N -m attentiontuner train ...

    Args:
        task: name of the task, see `attentiontuner tasks`.
        data: folder of the demonstrations; its environment settings are the run's.
        out: folder of the run.
        model: other fields of the method's network as name=value, such as marks=0.
        memory_limit: frames held at once, such as 4GB; a larger data set is streamed.
        test_data: demonstrations to test on; the last of --data if not given.
        device: cpu, cuda or cuda:N; a GPU if there is one.
        tensorboard: also write TensorBoard's files.
        budget: save and stop after this time, such as 90s, 9m or 2h.
    """
    from attentiontuner.demos import DemoStore

    # What can be refused without torch, which takes seconds to import, is refused before.
    store = DemoStore.open(data, choices.get("annotator"))
    chosen = _task(task, store, data, out)
    test = None if test_data is None else DemoStore.open(test_data)
    fields = {**NetworkOptions(**network).changes(), **parse_settings(model, "--model")}
    if memory_limit is not None:
        choices["memory_limit"] = parse_bytes(memory_limit)
    seconds = None if budget is None else parse_duration(budget)
    from attentiontuner.core.signals import Interrupted
    from attentiontuner.runs.config import paper_config
    from attentiontuner.runs.run import Run
    from attentiontuner.training.train import facts_of
    from attentiontuner.training.train import train as train_run

    begun = Run(out).begun()
    method = choices.pop("method", None) or (begun.method if begun else METHOD)
    if begun is not None and begun.method == method:
        choices = {name: getattr(begun, name) for name in RECIPE} | choices
        fields = begun.model.chosen() | fields
    config = paper_config(chosen, method, fields, facts_of(store, choices.get("demos")), **choices)
    evaluate = None
    if config.eval_every:
        chosen.make_env().close()  # one that cannot be played is refused before anything is trained
        from attentiontuner.evaluation.policy import success_during_training

        evaluate = success_during_training(chosen, config.eval_episodes)
    circumstances: dict[str, Any] = {"device": device, "tensorboard": tensorboard, "budget_seconds": seconds}
    try:
        result = train_run(config, store, out, test_data=test, evaluate=evaluate, **circumstances)
    except Interrupted as stop:
        print(f"attentiontuner: {stop}", file=sys.stderr)
        return stop.exit_code
    if os.environ.get("RANK", "0") == "0":
        print(_summary(result, config))
    return 0


def _task(name: str, store: "DemoStore", data: Path, out: Path) -> "Task":
    """The task of that name under the settings of the data set, if the two fit each other."""
    from attentiontuner.demos.store.manifest import FILE as MANIFEST
    from attentiontuner.tasks.task import get_task

    get_task(name)
    if store.task != name:
        raise UserError(f"--data {data} holds demonstrations of {store.task!r}, not of {name!r}")
    if (out / MANIFEST).exists():
        raise UserError(f"--out {out} is a data set: give another folder for the run")
    task = get_task(name, store.settings)
    if store.actions.to_json() != task.actions.to_json():
        there, wanted = (", ".join(spec.names) or str(spec) for spec in (store.actions, task.actions))
        raise UserError(f"--data {data} has the actions {there}, task {name!r} has {wanted}")
    if (longest := int(store.lengths.max(initial=0))) > task.max_steps:
        raise UserError(
            f"--data {data} has an episode of {counted(longest, 'step')}, task {name!r} a horizon of {task.max_steps}: "
            "raise the task's horizon"
        )
    return task


def _summary(result: "TrainResult", config: TrainConfig) -> str:
    done, epochs = len(result.metrics), counted(config.epochs, "epoch")
    last = result.metrics[-1] if done else {}
    from attentiontuner.training.loop import tested

    figures = f", {tested(last)}" if "test_accuracy" in last else ""
    minutes = f"{result.seconds / 60:.1f} min"
    if result.already_finished:
        return f"{result.run} is finished: {epochs} of {config.method} in {minutes}{figures}; nothing to do"
    if not result.finished:
        return f"{result.run}: the budget ended after {done} of {epochs} of {config.method}; the same command goes on"
    return f"{result.run}: {epochs} of {config.method} in {minutes}{figures}"
