"""`attentiontuner train`."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from attentiontuner.errors import UserError
from attentiontuner.wording import counted

if TYPE_CHECKING:
    from attentiontuner.training.trainer import TrainResult


def train(
    task: Positional[str],
    /,
    data: Path,
    out: Path,
    method: str = "attentiontuner",
    seed: int = 1,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    memory_weight: float | None = None,
    heads: str = "1:1",
    split_pairs: bool = False,
    attend_self: bool | None = None,
    d_model: int | None = None,
    layers: int | None = None,
    model_heads: int | None = None,
    feedforward: int | None = None,
    dropout: float | None = None,
    embedder: Literal["paper", "lookup"] | None = None,
    positions: bool = True,
    test_data: Path | None = None,
    test_fraction: float = 0.05,
    annotator: str = "expert",
    annotated_fraction: float = 1.0,
    noise_p: float = 0.0,
    noise_q: float = 0.0,
    pairs: Literal["given", "random", "shuffled"] = "given",
    demos: int | None = None,
    device: str | None = None,
    precision: Literal["auto", "float32", "bfloat16"] | None = None,
    memory_limit: str | None = None,
    eval_every: int = 0,
    eval_episodes: int = 100,
    heatmap_epochs: tuple[int, ...] = (),
    tensorboard: bool = False,
    keep: int = 2,
    checkpoint_seconds: float = 30.0,
    budget: str | None = None,
) -> int:
    """Train a policy on demonstrations and their memory pairs. The defaults are the paper's.

    Killed or stopped at any moment, the same command goes on where it was. Several GPUs:
    torchrun --nproc-per-node N -m attentiontuner train ...

    Args:
        task: name of the task, see `attentiontuner tasks`.
        data: folder of the demonstrations; its environment settings are the run's.
        out: folder of the run.
        method: attentiontuner, or recall (a head that counts); vanilla and recall-vanilla are the same without pairs.
        seed: fixes first weights, batches, dropout and every drawn label.
        epochs: passes over the demonstrations; those of the recipe for the task and method if not given. More than a
            finished run had make it longer.
        batch_size: demonstrations in a step; 64 if not given, 32 for recall.
        learning_rate: of Adam; 1e-4 if not given; for recall 1e-3, falling.
        memory_weight: weight λ of the memory loss; 10 if not given, 1 for recall.
        heads: supervised heads as layer:head from 1, such as 1:1 or 1:1,2:2 or 1:all or all or none.
        split_pairs: distribute each row's pairs over the supervised heads.
        attend_self: the expert's matrix has ones on the diagonal of the observations; yes if not given, not for recall.
        d_model: width of the network; 512 if not given, 128 for recall.
        layers: layers of the network; 4 if not given; for recall 4 with images, else 2.
        model_heads: attention heads per layer; 2 if not given.
        feedforward: width of the feed-forward networks; 2048 if not given, 512 for recall.
        dropout: share of dropped activations; 0.1 if not given.
        embedder: of observations: the paper's, or lookup, a cheap one for symbol grids.
        positions: steps of a recall network do not know their number, so that it works in longer worlds than it saw.
        test_data: demonstrations to test on; the last of --data if not given.
        test_fraction: share of --data kept for testing (at most 500 episodes) where --test-data is not given.
        annotator: whose memory pairs to use.
        annotated_fraction: share of the training demonstrations that keep their annotation.
        noise_p: standard deviation in steps of a perturbation of each recalled step.
        noise_q: the same for each recalling step.
        pairs: the given ones, or as controls random ones or ones shuffled between demonstrations.
        demos: train on this many demonstrations, drawn from the seed.
        device: cpu, cuda or cuda:N; a GPU if there is one.
        precision: bfloat16 on a GPU and float32 on a CPU if not given; float32 for recall.
        memory_limit: frames held at once, such as 4GB; a larger data set is streamed.
        eval_every: epochs between evaluations in the environment; 0 for none. The best model is kept.
        eval_episodes: episodes of each evaluation.
        heatmap_epochs: draw the attention of all heads after these epochs (0: before the first).
        tensorboard: also write TensorBoard's files.
        keep: how many full states are kept.
        checkpoint_seconds: seconds between two states.
        budget: save and stop after this time, such as 90s, 9m or 2h.
    """
    if method.endswith("vanilla") and memory_weight:
        raise UserError(f"--method {method} has no memory loss: leave out --memory-weight")
    if not positions and not method.startswith("recall"):
        raise UserError(f"--no-positions is for recall networks, not for --method {method}")
    network = {
        "d_model": d_model,
        "layers": layers,
        "heads": model_heads,
        "feedforward": feedforward,
        "dropout": dropout,
        "embedder": embedder,
        "positions": None if positions else False,
    }
    given = {
        "epochs": epochs,
        "memory_weight": memory_weight,
        "demos": demos,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "attend_self": attend_self,
        "precision": precision,
    }
    return _train(
        task,
        data,
        out,
        test_data,
        method,
        {name: value for name, value in network.items() if value is not None},
        {
            **{name: value for name, value in given.items() if value is not None},
            "seed": seed,
            "heads": heads,
            "split_pairs": split_pairs,
            "test_fraction": test_fraction,
            "annotator": annotator,
            "annotated_fraction": annotated_fraction,
            "noise_p": noise_p,
            "noise_q": noise_q,
            "pairs": pairs,
            "memory_limit": None if memory_limit is None else parse_bytes(memory_limit),
            "eval_every": eval_every,
            "eval_episodes": eval_episodes if eval_every else 0,
            "heatmap_epochs": heatmap_epochs,
            "keep": keep,
            "checkpoint_seconds": checkpoint_seconds,
        },
        {"device": device, "tensorboard": tensorboard, "budget_seconds": _seconds(budget)},
    )


def _train(
    name: str,
    data: Path,
    out: Path,
    test_data: Path | None,
    method: str,
    network: dict[str, Any],
    choices: dict[str, Any],
    circumstances: dict[str, Any],
) -> int:
    from attentiontuner.demos import DemoStore
    from attentiontuner.demos.manifest import FILE as MANIFEST
    from attentiontuner.tasks import get_task
    from attentiontuner.training.config import paper_config
    from attentiontuner.training.stopping import Interrupted
    from attentiontuner.training.trainer import train as train_run

    get_task(name)
    store = DemoStore.open(data)
    if store.task != name:
        raise UserError(f"--data {data} holds demonstrations of {store.task!r}, not of {name!r}")
    if (out / MANIFEST).exists():
        raise UserError(f"--out {out} is a data set: give another folder for the run")
    task = get_task(name, store.settings)
    if store.action_names != task.actions:
        raise UserError(f"--data {data} has the actions {', '.join(store.action_names)}, task {name!r} others")
    if (longest := int(store.lengths.max(initial=0))) > task.max_steps:
        raise UserError(
            f"--data {data} has an episode of {counted(longest, 'step')}, task {name!r} a horizon of {task.max_steps}: "
            "raise the task's horizon"
        )
    config = paper_config(task, method, network, **choices)
    evaluate = None
    if config.eval_every:
        task.make_env().close()  # one that cannot be played is refused before anything is trained
        from attentiontuner.evaluation.policy import success_during_training

        evaluate = success_during_training(task, config.eval_episodes)
    test = None if test_data is None else DemoStore.open(test_data)
    try:
        result = train_run(config, store, out, test_data=test, evaluate=evaluate, **circumstances)
    except Interrupted as stop:
        print(f"attentiontuner: {stop}", file=sys.stderr)
        return stop.exit_code
    if os.environ.get("RANK", "0") == "0":
        print(_summary(result, config.epochs))
    return 0


def _summary(result: "TrainResult", epochs: int) -> str:
    done = len(result.metrics)
    last = result.metrics[-1] if done else {}
    figures = f", test accuracy {100 * last['test_accuracy']:.2f} %" if "test_accuracy" in last else ""
    minutes = f"{result.seconds / 60:.1f} min"
    if result.already_finished:
        return f"{result.run} is finished: {counted(epochs, 'epoch')} in {minutes}{figures}; nothing to do"
    if not result.finished:
        return f"{result.run}: the budget ended after {done} of {counted(epochs, 'epoch')}; the same command goes on"
    return f"{result.run}: {counted(epochs, 'epoch')} in {minutes}{figures}"


def _seconds(budget: str | None) -> float | None:
    from attentiontuner.experiments.budget import parse_duration

    return parse_duration(budget) if budget else None


_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str) -> int:
    """`4GB` → 4 000 000 000."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
    if match is None or (match[2].lower() or "b") not in _UNITS:
        raise UserError(f"--memory-limit {text!r}: write a number of bytes such as 4GB or 500MB")
    return int(float(match[1]) * _UNITS[match[2].lower() or "b"])
