"""A run as others take it: what it is, its weights, and the episodes it is known by.

DIR/README.md            the card, for people
DIR/config.json          what the run is, and
DIR/model.safetensors    its weights, in float16 where they play as well: a folder that every command takes for a run
DIR/record.json          what was played: the summary, and the outcome of every episode as a string of 0 and 1
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attentiontuner.core.files import new_folder, write_json, write_text
from attentiontuner.core.seals import read_tensors
from attentiontuner.core.wording import counted, size
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.opening import as_policy
from attentiontuner.evaluation.rollout import EpisodeResult
from attentiontuner.methods import get_method
from attentiontuner.runs.run import Run, Trained
from attentiontuner.runs.states import weight_bytes, without_empty_rows
from attentiontuner.tasks import OURS
from attentiontuner.tasks.task import Task

CARD, RECORD = "README.md", "record.json"


@dataclass(frozen=True)
class Published:
    """A published run.

    Attributes:
        run: the folder.
        summary: what `evaluate` says of these very weights.
        precision: of the file of weights, float16 or float32.
        nbytes: its size.
    """

    run: Run
    summary: Mapping[str, Any]
    precision: str
    nbytes: int


def publish(
    run: Run,
    task: Task,
    out: Path | str,
    *,
    episodes: int = 1000,
    seed: int = 0,
    best: bool = False,
    device: str | None = None,
) -> Published:
    """Publish `run` in the new folder `out`.

    The run is evaluated as `evaluate` does, on `episodes` episodes of evaluation seed `seed`, and so are its weights in
    float16, which are taken unless they solve fewer; without the rows of tables for what the training set never had.
    Finished episodes are kept with the run, so that it goes on when it was stopped. `best` are the weights with the
    best success rate while training.
    """
    out = Path(out)
    with new_folder(out) as folder:
        trained = run.load_model(best)
        whole = _play(trained, task, episodes, seed, run.evaluation, device)
        trained.model.clear_unused()
        smaller = run.publish_to(folder, weight_bytes(without_empty_rows(halved(trained.model.state_dict()))))
        half = _play(smaller.load_model(), task, episodes, seed, run.evaluation / "float16", device)
        precision, (results, summary) = "float16", half
        if half[1]["successes"] < whole[1]["successes"]:
            run.publish_to(folder, read_tensors(run.weights(best)))
            precision, (results, summary) = "float32", whole
        outcomes = "".join(str(int(result.success)) for result in results)
        write_json(folder / RECORD, {**summary, "success": outcomes})
        nbytes = smaller.weights().stat().st_size
        weights = sum(tensor.numel() for tensor in trained.model.parameters())
        known = f"{weights:,} weights in {precision}, {size(nbytes)}"
        write_text(folder / CARD, _card(out.name, smaller, task, summary, known, _epochs(run, best)))
    return Published(Run.open(out), summary, precision, nbytes)


def halved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same in float16; in float32 what would become infinite, and as they are those that are no fractions."""
    return {name: _half(tensor) if tensor.dtype == torch.float32 else tensor for name, tensor in weights.items()}


def _half(tensor: Tensor) -> Tensor:
    half = tensor.half()
    return half if half.isfinite().all() else tensor


def _play(
    trained: Trained, task: Task, episodes: int, seed: int, folder: Path, device: str | None
) -> tuple[list[EpisodeResult], dict[str, Any]]:
    policy = as_policy(trained, device=device, max_steps=task.max_steps)
    return evaluate(policy, task, episodes, seed, folder, of={"policy": "model", "weights": trained.sha256})


def _epochs(run: Run, best: bool) -> str:
    """The epochs that the weights were trained for, and how many were planned where that is more."""
    planned, metrics = run.config().epochs, run.metrics()
    if not metrics:  # stopped in the first epoch, or published itself, without a log
        done = planned if run.progress() is None else 0
    elif best:
        done = max(metrics, key=lambda epoch: float(epoch.get("success_rate", -1)))["epoch"]
    else:
        done = metrics[-1]["epoch"]
    return f"{done}" if done == planned else f"{done} of {planned}"


def _what_file(task: Task) -> str:
    """What a card says of a task that this package does not have: how to make it known."""
    return (
        f". `FILE` makes its environment known to Gymnasium, as `{task.env_id}`, and the task to attentiontuner:\n"
        f'`attentiontuner.register_task(attentiontuner.Task.from_env("{task.env_id}", name="{task.name}"))`, '
        "in Python too"
    )


def _card(name: str, run: Run, task: Task, summary: Mapping[str, Any], weights: str, epochs: str) -> str:
    config, facts = run.config(), run.facts()
    demonstrations = counted(facts["data"]["demonstrations"], "demonstration", form=",")
    taught = f", {facts['data']['annotated']:,} of them annotated by `{config.annotator}`" if config.needs_pairs else ""
    settings = ", ".join(f"{key} = {value}" for key, value in task.settings.items()) or "none"
    versions = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    low, high = (100 * bound for bound in summary["interval"])
    rate = f"{100 * summary['success_rate']:.1f} %, 95 % interval {low:.1f} to {high:.1f}"
    seed, episodes = summary["of"]["seed"], summary["episodes"]
    own = config.task not in OURS
    how, what_file = ("--import FILE ", _what_file(task)) if own else ("", "")
    return f"""---
library_name: attentiontuner
pipeline_tag: robotics
tags: [imitation-learning, memory, {config.task}, {config.method}]
---

# {get_method(config.method).title} on {task.title}, {demonstrations}

Solves **{summary["successes"]:,} of {counted(episodes, "episode", form=",")}** ({rate})
of evaluation seed {seed}; `{RECORD}` has each of them. In this folder

```
attentiontuner {how}evaluate . --episodes {episodes} --seed {seed}
```

plays them again{what_file}. In Python the policy is `attentiontuner.load_policy("{name}")`, given where the folder is.

| | |
| --- | --- |
| task | `{config.task}`, settings: {settings} |
| environment | `{task.env_id}` |
| method | `{config.method}` |
| learned from | {demonstrations}{taught} |
| seed, epochs, batch | {config.seed}, {epochs}, {config.batch_size} |
| network | {weights} |
| made with | {versions} |

It plays this task and no other. `config.json` has every setting.
"""
