"""A run's policy: opened by its folder, with the memory it plays with and the heads that are watched."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import SELECTION_SEED
from attentiontuner.demos import Demonstration
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.policy import ModelPolicy
from attentiontuner.models.bound import NOTHING_SAID, Asked, Bound, Keeping
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.network import Network
from attentiontuner.runs.devices import choose_device
from attentiontuner.runs.run import Run, Trained
from attentiontuner.spaces import SpaceError
from attentiontuner.tasks.task import Task, all_tasks, get_task


def load_policy(
    run: Path | str,
    *,
    best: bool = False,
    device: torch.device | str | None = None,
    max_steps: int | None = None,
    watch: str | Head | Sequence[Head] | None = None,
    execute: int = 1,
    recent: int | None = None,
    keep: int | None = None,
    keep_by: Keeping | None = None,
) -> ModelPolicy:
    """The policy a run trained.

    Args:
        run: the run's folder.
        best: the weights with the best success rate during training, not the latest.
        device: where it computes; the GPU if there is one.
        max_steps: the longest episode, where it is longer than those of the task it was trained on, or, if that is not
            registered, than the longest demonstration. `evaluate` makes room by itself.
        watch: heads whose attention is kept for `policy.recalled()` and `policy.weights`: "supervised" (without any,
            those of the first layer), text such as "1:1" or "1:1,2:2" (`models.heads.parse_heads`), or `Head`s. None by
            default: each costs a little at every step.
        execute: how many actions of a chunk are played before the next is read, at most the network's `chunk`.
        recent: a memory of so many newest steps, the present one among them, for episodes of any length. Where the run
            was trained on windows, as many as they are long if not given.
        keep: places of that memory for older steps; the same.
        keep_by: which older steps stay: those with the highest keep score, those most attended to (attention), the most
            recent, or all of them: the memory then grows.
    """
    trained, memory = Run(Path(run)).load_model(best), Asked(recent, keep, keep_by)
    return as_policy(trained, device=device, max_steps=max_steps, watch=watch, execute=execute, memory=memory)


def as_policy(
    trained: Trained,
    *,
    device: torch.device | str | None = None,
    max_steps: int | None = None,
    watch: str | Head | Sequence[Head] | None = None,
    execute: int = 1,
    memory: Asked = NOTHING_SAID,
) -> ModelPolicy:
    """The policy of a trained network; see `load_policy`."""
    heads = _heads_to_watch(watch, trained)
    network, bound = trained.model, bound_of(trained.model, trained.config.window, memory)
    steps = sys.maxsize if bound is not None else max_steps or _horizon(trained)
    network = (network if bound is None else network.bounded(bound)).to(choose_device(device))
    return ModelPolicy(network, steps, watch=heads, task=trained.config.task, execute=execute)


def bound_of(network: Network, window: int | None, memory: Asked = NOTHING_SAID) -> Bound | None:
    """The memory that a network trained on windows of `window` steps plays with; None: it keeps everything. See
    `load_policy`."""
    scores = bool(getattr(network.config, "keeps", False))
    return Bound.chosen(memory, window=window, scores=scores)


def _horizon(trained: Trained) -> int:
    """The longest episode of a run's task, where that is registered; else its longest demonstration."""
    config = trained.config
    if config.task in all_tasks():
        return get_task(config.task, config.settings).max_steps
    if (longest := trained.run.longest()) is None:
        raise UserError(
            f"{trained.run.path} was trained on task {config.task!r}, which is not registered: import the file that "
            "registers it before load_policy (for commands: `attentiontuner --import FILE ...`), or give max_steps="
        )
    return longest


def _heads_to_watch(watch: str | Head | Sequence[Head] | None, trained: Trained) -> tuple[Head, ...]:
    """The heads `watch` names, if the model of a run has them."""
    if watch is None:
        return ()
    if isinstance(watch, str) and watch == "supervised":
        return trained.config.way.watchable(trained.config)
    if isinstance(watch, Head):
        watch = (watch,)
    if not isinstance(watch, str):
        if not isinstance(watch, Sequence) or not all(isinstance(head, Head) for head in watch):
            raise UserError(f'watch={watch!r}: write watch="1:1", several as watch="1:1,2:2", or watch="supervised"')
        watch = ",".join(map(str, watch)) or "none"
    layers, heads = (1 + max(numbers) for numbers in zip(*trained.model.watchable, strict=True))
    try:
        return parse_heads(watch, layers, heads)
    except UserError as error:
        raise UserError(f'{error}; watch="supervised" takes those of the run') from error


def recalled_steps(
    run: Path | str, demonstration: Demonstration, threshold: float = 0.1, best: bool = False
) -> list[tuple[int, int, float]]:
    """What a trained model recalls along a demonstration: (p, q, weight) in order of (q, p), p < q.

    At each step q of the demonstration, the earlier steps p on whose observation a supervised head puts at least the
    weight `threshold`; with several heads the largest weight counts. The demonstration's actions are taken as they are.
    """
    trained = Run(Path(run)).load_model(best)
    policy = as_policy(trained, max_steps=len(demonstration), watch="supervised")
    try:
        seen = trained.config.model.observation.encode(demonstration.observations)
    except SpaceError as error:
        raise UserError(f"{demonstration.name} does not fit {run}: step {error.row} holds {error.problem}") from error
    policy.reset(1)
    found = []
    for q in range(len(demonstration)):
        policy.observe(trained.config.model.observation.decode(seen[q : q + 1]), demonstration.actions[q : q + 1])
        found += [(p, q, weight) for p, weight in sorted(policy.recalled(threshold)[0])]
    return found


def success_during_training(
    task: Task,
    episodes: int,
    seed: int = SELECTION_SEED,
    workers: int | None = None,
    window: int | None = None,
) -> Callable[[Network], float]:
    """The function model → success rate (0 to 1) that `training.train` calls now and then.

    It always plays the same episodes, which are not those of `evaluate` unless its seed is given; the model's training
    mode is left as it was. A model trained on windows of `window` steps has a memory bounded as they are.
    """

    def success(model: Network) -> float:
        training = model.training
        try:
            bound = bound_of(model, window)
            policy = ModelPolicy(model if bound is None else model.bounded(bound), task.max_steps)
            _, summary = evaluate(policy, task, episodes, seed, workers=workers)
        finally:
            model.train(training)
        return float(summary["success_rate"])

    return success
