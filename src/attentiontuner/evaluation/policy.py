"""A trained model as a policy that streams: each step attends over cached keys and values, nothing is recomputed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from attentiontuner.demos import Demonstration
from attentiontuner.errors import UserError
from attentiontuner.evaluation.players import ExpertPolicy, RandomPolicy
from attentiontuner.evaluation.rollout import DEFAULT_BATCH, Policy, rollout
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.recall import RECALL_HEAD, RecallConfig
from attentiontuner.seeds import SELECTION_SEED, evaluation_seed
from attentiontuner.tasks import Task, all_tasks, get_task, why_it_cannot_travel
from attentiontuner.training.checkpoint import load_model
from attentiontuner.training.devices import choose_device
from attentiontuner.wording import counted

__all__ = [
    "ExpertPolicy",
    "ModelPolicy",
    "Policy",
    "RandomPolicy",
    "load_policy",
    "recalled_steps",
    "success_during_training",
]

WARM_UP_STEPS = 3
"""Steps before a CUDA graph is captured, as PyTorch asks for."""


class ModelPolicy:
    """Plays the most likely action of a model, in float32, for any number of episodes at once.

    On a GPU a step is one copy of the observations there, one CUDA graph, and one copy of the actions back.

    Attributes:
        model: has `config`, `start` and `step`, see `models`. It is put into evaluation mode.
        max_steps: the longest episode the cache has room for.
        watch: heads whose attention is kept: after `act`, `weights[head]` is `[n, max_steps]`, the weight of each
            observation so far (what is missing to 1 lies on the actions; for a recall network the number of things
            recalled there).
        task: name of the task it was trained on, "" if unknown.
    """

    def __init__(self, model: nn.Module, max_steps: int, *, watch: Sequence[Head] = (), task: str = "") -> None:
        self.model: Any = model.eval()
        self.max_steps, self.watch, self.task = max_steps, tuple(watch), task
        config = self.model.config
        if isinstance(config, RecallConfig) and set(self.watch) - {RECALL_HEAD}:
            heads = ",".join(map(str, self.watch))
            raise UserError(f'watch="{heads}": a recall network has one head to watch, write watch="{RECALL_HEAD}"')
        self.device = next(model.parameters()).device
        self.weights: dict[Head, NDArray[np.float32]] = {}
        self._rows: int | None = None

    def clone(self) -> "ModelPolicy | None":
        """A second player with the same model and a cache of its own.

        None on a CPU, where network and environments would only take the cores from each other: they take turns.
        """
        if self.device.type == "cpu":
            return None
        return ModelPolicy(self.model, self.max_steps, watch=self.watch, task=self.task)

    def check(self, task: Task) -> None:
        """Refuse a task this model was not made for."""
        if self.task not in ("", task.name):
            raise UserError(f"the policy was trained on task {self.task!r}, this is task {task.name!r}")
        config = self.model.config
        if config.observation != task.observation or config.actions != len(task.actions):
            raise UserError(
                f"the policy takes {_describe(config.observation)} observations and has "
                f"{counted(config.actions, 'action')}, task {task.name!r} gives {_describe(task.observation)} "
                f"observations and has {counted(len(task.actions), 'action')}"
            )
        if task.max_steps > self.max_steps:
            raise UserError(
                f"the policy has room for {counted(self.max_steps, 'step')}, task {task.name!r} can take "
                f"{task.max_steps}: load it with max_steps"
            )

    @torch.inference_mode()
    def reset(self, n: int) -> None:
        """`n` episodes begin."""
        if n != self._rows:
            spec = self.model.config.observation
            self._cache = self.model.start(n, self.max_steps)
            pinned = self.device.type == "cuda"
            kind = torch.float32 if spec.kind == "vector" else torch.uint8
            self._observations_here = torch.zeros((n, *spec.shape), dtype=kind, pin_memory=pinned)
            self._actions_here = torch.zeros(n, dtype=torch.int64, pin_memory=pinned)
            self._observations = torch.zeros_like(self._observations_here, device=self.device)
            self._actions = torch.zeros(n, dtype=torch.int64, device=self.device)
            self._graph: torch.cuda.CUDAGraph | None = None
            self._rows = n
        self.weights = {}
        self._last = np.full(n, -1, np.int64)
        self._time = np.full(n, -1, np.int64)

    def _need_reset(self) -> None:
        if self._rows is None:
            raise UserError("the policy plays no episodes yet: call reset(n) first, with n the number of rows")

    def restart(self, rows: NDArray[np.int64] | Sequence[int]) -> None:
        """Those rows begin a new episode, the others go on."""
        self._need_reset()
        self._last[rows] = -1

    @torch.inference_mode()
    def keep(self, rows: NDArray[np.int64]) -> bool:
        """Go on with these rows only, as rows 0, 1, …. On a GPU all are kept: its graph has one shape."""
        if self.device.type == "cuda":
            return False
        cache, last, time = _take_rows(self._cache, torch.from_numpy(rows)), self._last[rows], self._time[rows]
        weights = {head: weight[rows] for head, weight in self.weights.items()}
        self.reset(len(rows))
        self._cache, self._last, self._time, self.weights = cache, last, time, weights
        return True

    def act(self, observations: ArrayLike) -> NDArray[np.int64]:
        """`[n, …]` observations → `[n]` actions."""
        actions: NDArray[np.int64] = self.logits(observations).argmax(1).cpu().numpy()
        self._last = actions.copy()
        return actions

    def recalled(self, threshold: float = 0.1) -> list[list[tuple[int, float]]]:
        """For each row what was recalled at the last `act`: (p, weight) of earlier steps, the largest weight first.

        Those on whose observation a watched head puts at least the weight `threshold`; with several heads the largest
        weight counts.
        """
        if not self.watch:
            raise UserError('the policy watches no head: load it with watch="supervised", or heads such as watch="1:1"')
        if not self.weights:
            raise UserError("nothing is recalled before the first step: call act first")
        largest = np.max([self.weights[head] for head in self.watch], axis=0)  # [n, max_steps]
        found = []
        for weights, now in zip(largest, self._time, strict=True):
            order = np.argsort(-weights[:now], kind="stable")
            found.append([(int(p), float(weights[p])) for p in order if weights[p] >= threshold])
        return found

    def observe(self, observations: ArrayLike, actions: NDArray[np.int64]) -> None:
        """One step in which somebody else chose the actions `[n]`."""
        self.act(observations)
        self._last = np.array(actions, np.int64)

    @torch.inference_mode()
    def logits(self, observations: ArrayLike) -> Tensor:
        """`[n, …]` observations → `[n, actions]` scores on the device, valid until the next step."""
        self._take(observations)
        self._time = np.where(self._last < 0, 0, self._time + 1)
        if self._time.max(initial=0) >= self.max_steps:
            room = counted(self.max_steps, "step")
            raise UserError(f"row {self._time.argmax()} is longer than the {room} the policy has room for")
        self._actions_here.numpy()[...] = self._last
        self._observations.copy_(self._observations_here, non_blocking=True)
        self._actions.copy_(self._actions_here, non_blocking=True)
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):  # graphs are recorded and replayed on the current device
                if self._graph is None:
                    self._capture()
                assert self._graph is not None
                self._graph.replay()
        else:
            self._think()
        self.weights = {head: weight.cpu().numpy() for head, weight in self._weights.items()}
        return self._logits

    def _take(self, observations: ArrayLike) -> None:
        """Copy `[n, …]` observations to where the step reads them, refusing those the model did not learn from."""
        self._need_reset()
        here: NDArray[Any] = self._observations_here.numpy()
        try:
            given = np.asarray(observations)
        except (TypeError, ValueError) as error:
            raise UserError(f"the observations are not an array of numbers: give one of shape {here.shape}") from error
        if given.shape != here.shape:
            raise UserError(f"the policy was reset for observations of shape {here.shape}, not {given.shape}")
        if given.dtype != here.dtype:
            self._check_type(given)
        with np.errstate(over="ignore"):  # what is too large is refused as infinite below
            here[...] = given
        if here.dtype.kind == "f" and not np.isfinite(here).all():
            row = int(np.argmin(np.isfinite(here).all(1)))
            raise UserError(f"the observation of row {row} has a value that is not a finite number (NaN or infinite)")

    def _check_type(self, given: NDArray[Any]) -> None:
        """Refuse numbers that would not be the same ones in the type the model learned from."""
        spec = self.model.config.observation
        learned = f"the policy learned from {spec.dtype} {spec.kind}s, these"
        if spec.kind == "vector":
            if given.dtype.kind not in "fiub":
                raise UserError(f"{learned} are {given.dtype}: give them as {spec.dtype}")
            return
        if given.dtype.kind not in "iub":
            raise UserError(f"{learned} are {given.dtype}: give them as the task does, whole numbers from 0 to 255")
        if given.size and not (given.min() >= 0 and given.max() <= 255):
            raise UserError(
                f"{learned} hold numbers from {given.min()} to {given.max()}: give whole numbers from 0 to 255"
            )

    def _think(self) -> None:
        self._logits: Tensor
        self._weights: dict[Head, Tensor]
        self._logits, self._weights = self.model.step(self._cache, self._observations, self._actions, self.watch)

    def _capture(self) -> None:
        """Record one step as a CUDA graph. The steps before it are undone by putting the clock of the cache back."""
        time = self._cache.time.clone()
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._think()
                self._cache.time.copy_(time)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._think()


def _take_rows(cache: Any, rows: Tensor) -> Any:
    """The same cache with only those rows: its tensors are `[rows, …]`, in tuples and lists."""
    if isinstance(cache, Tensor):
        return cache[rows]
    parts = [_take_rows(part, rows) for part in cache]
    return type(cache)(*parts) if hasattr(cache, "_fields") else type(cache)(parts)


def _describe(spec: Any) -> str:
    return f"{'×'.join(map(str, spec.shape))} {spec.kind}"


def load_policy(
    run: Path | str,
    *,
    best: bool = False,
    device: torch.device | str | None = None,
    max_steps: int | None = None,
    watch: str | Head | Sequence[Head] | None = None,
) -> ModelPolicy:
    """The policy a run trained.

    Args:
        run: the run's folder.
        best: the weights with the best success rate during training, not the latest.
        device: where it computes; the GPU if there is one.
        max_steps: the longest episode, where it is longer than the task it was trained on, or the task is not
            registered.
        watch: heads whose attention is kept for `policy.recalled()` and `policy.weights`: "supervised" (without any,
            those of the first layer), text such as "1:1" or "1:1,2:2" (`models.heads.parse_heads`), or `Head`s. None by
            default: each costs a little at every step.
    """
    model, config = load_model(Path(run), best=best)
    heads = _heads_to_watch(watch, config)
    if not max_steps and config.task not in all_tasks():
        raise UserError(
            f"{run} was trained on task {config.task!r}, which is not registered: import the file that registers it "
            "before load_policy (for commands: `attentiontuner --import FILE ...`), or give max_steps="
        )
    steps = max_steps or get_task(config.task, config.settings).max_steps
    model = model.to(choose_device(device))
    return ModelPolicy(model, steps, watch=heads, task=config.task)


def _heads_to_watch(watch: str | Head | Sequence[Head] | None, config: Any) -> tuple[Head, ...]:
    """The heads `watch` names, if the model of a run has them."""
    if watch is None:
        return ()
    if isinstance(watch, str) and watch == "supervised":
        return recall_heads(config)
    if isinstance(watch, Head):
        watch = (watch,)
    if not isinstance(watch, str):
        if not isinstance(watch, Sequence) or not all(isinstance(head, Head) for head in watch):
            raise UserError(f'watch={watch!r}: write watch="1:1", several as watch="1:1,2:2", or watch="supervised"')
        watch = ",".join(map(str, watch)) or "none"
    try:
        return parse_heads(watch, config.model.layers, config.model.heads)
    except UserError as error:
        raise UserError(f'{error}; watch="supervised" takes those of the run') from error


def recall_heads(config: Any) -> tuple[Head, ...]:
    """The heads whose attention is worth looking at: the supervised ones, else those of the first layer."""
    if isinstance(config.model, RecallConfig):
        return (RECALL_HEAD,)
    supervised: tuple[Head, ...] = config.supervised()
    return supervised or tuple(Head(0, head) for head in range(config.model.heads))


def recalled_steps(
    run: Path | str, demonstration: Demonstration, threshold: float = 0.1, best: bool = False
) -> list[tuple[int, int, float]]:
    """What a trained model recalls along a demonstration: (p, q, weight) in order of (q, p), p < q.

    At each step q of the demonstration, the earlier steps p on whose observation a supervised head puts at least the
    weight `threshold`; with several heads the largest weight counts. The demonstration's actions are taken as they are.
    """
    model, config = load_model(Path(run), best=best)
    policy = ModelPolicy(model.to(choose_device()), len(demonstration), watch=recall_heads(config))
    if model.config.observation.shape != demonstration.observations.shape[1:]:  # type: ignore[union-attr]
        raise UserError(
            f"{run} was trained on {_describe(model.config.observation)} observations, "  # type: ignore[union-attr]
            f"{demonstration.name} has {'×'.join(map(str, demonstration.observations.shape[1:]))}"
        )
    policy.reset(1)
    found = []
    for q in range(len(demonstration)):
        policy.observe(demonstration.observations[q : q + 1], demonstration.actions[q : q + 1])
        found += [(p, q, weight) for p, weight in sorted(policy.recalled(threshold)[0])]
    return found


def success_during_training(
    task: Task, episodes: int, seed: int = SELECTION_SEED, workers: int | None = None, batch: int = DEFAULT_BATCH
) -> Callable[[nn.Module], float]:
    """The function `evaluate(model) -> success rate` (0 to 1) that `training.train` calls now and then.

    It always plays the same episodes, which are not those of `evaluate` unless its seed is given; the model's training
    mode is left as it was. A task that cannot be sent to worker processes is played in this one.
    """
    if workers is None and why_it_cannot_travel(task):
        workers = 0
    seeds = [evaluation_seed(seed, index) for index in range(episodes)]

    def evaluate(model: nn.Module) -> float:
        training = model.training
        try:
            policy = ModelPolicy(model, task.max_steps)
            results = rollout(policy, task, seeds, batch=batch, workers=workers)
        finally:
            model.train(training)
        return sum(result.success for result in results) / len(results)

    return evaluate
