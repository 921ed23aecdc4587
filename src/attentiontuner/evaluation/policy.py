"""A trained model as a policy that streams: each step attends over cached keys and values, nothing is recomputed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import SELECTION_SEED
from attentiontuner.core.wording import counted
from attentiontuner.demos import Demonstration
from attentiontuner.evaluation.evaluate import evaluate
from attentiontuner.evaluation.rollout import DEFAULT_BATCH
from attentiontuner.models.heads import Head, parse_heads
from attentiontuner.models.network import Network, NetworkConfig
from attentiontuner.runs.devices import choose_device
from attentiontuner.runs.run import Run, Trained
from attentiontuner.spaces import SpaceError
from attentiontuner.tasks.task import Task, all_tasks, get_task, why_it_cannot_travel

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

    def __init__(self, model: Network, max_steps: int, *, watch: Sequence[Head] = (), task: str = "") -> None:
        self.model = model.eval()
        self.max_steps, self.watch, self.task = max_steps, tuple(watch), task
        if set(self.watch) - set(model.watchable):
            heads, there = (",".join(map(str, some)) for some in (self.watch, model.watchable))
            raise UserError(f'watch="{heads}": the heads of this network that can be watched are {there}')
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
        if config.observation != task.observation or config.actions != task.actions:
            raise UserError(
                f"the policy takes {config.observation} observations and has {config.actions}, task {task.name!r} "
                f"gives {task.observation} observations and has {task.actions}"
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
            actions = self.model.config.actions
            self._cache = self.model.start(n, self.max_steps)
            self._here, self._there = (
                _Inputs.of(n, self.model.config, None),
                _Inputs.of(n, self.model.config, self.device),
            )
            self._last = np.zeros((n, *actions.shape), actions.dtype)
            self._graph: torch.cuda.CUDAGraph | None = None
            self._rows = n
        self.weights = {}
        self._begins = np.ones(n, bool)
        self._time = np.full(n, -1, np.int64)

    def _need_reset(self) -> None:
        if self._rows is None:
            raise UserError("the policy plays no episodes yet: call reset(n) first, with n the number of rows")

    def restart(self, rows: NDArray[np.int64] | Sequence[int]) -> None:
        """Those rows begin a new episode, the others go on."""
        self._need_reset()
        self._begins[rows] = True

    @torch.inference_mode()
    def keep(self, rows: NDArray[np.int64]) -> bool:
        """Go on with these rows only, as rows 0, 1, …. On a GPU all are kept: its graph has one shape."""
        if self.device.type == "cuda":
            return False
        cache = _take_rows(self._cache, torch.from_numpy(rows))
        kept = self._last[rows], self._begins[rows], self._time[rows]
        weights = {head: weight[rows] for head, weight in self.weights.items()}
        self.reset(len(rows))
        self._last, self._begins, self._time = kept
        self._cache, self.weights = cache, weights
        return True

    def act(self, observations: Any) -> NDArray[Any]:
        """Observations `[n, …]`, or a dictionary of them, → the likeliest actions `[n, …]`."""
        actions: NDArray[Any] = self.model.action_head.choose(self.distribution(observations)).cpu().numpy()
        self._last[...] = actions
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

    def observe(self, observations: Any, actions: NDArray[Any]) -> None:
        """One step in which somebody else chose the actions `[n, …]`."""
        self.distribution(observations)
        self._last[...] = actions

    @torch.inference_mode()
    def distribution(self, observations: Any) -> Tensor:
        """Observations `[n, …]` → the action distributions `[n, P]` (of discrete actions their logits) on the device,
        valid until the next step."""
        self._take(observations)
        self._time = np.where(self._begins, 0, self._time + 1)
        if self._time.max(initial=0) >= self.max_steps:
            room = counted(self.max_steps, "step")
            raise UserError(f"row {self._time.argmax()} is longer than the {room} the policy has room for")
        self._here.last_actions.numpy()[...] = self._last
        self._here.begins.numpy()[...] = self._begins
        for there, here in zip(self._there, self._here, strict=True):
            there.copy_(here, non_blocking=True)
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):  # graphs are recorded and replayed on the current device
                if self._graph is None:
                    self._capture()
                assert self._graph is not None
                self._graph.replay()
        else:
            self._think()
        self._begins[...] = False
        self.weights = {head: weight.cpu().numpy() for head, weight in self._weights.items()}
        return self._distribution

    def _take(self, observations: Any) -> None:
        """Copy observations to where the step reads them, refusing those the model did not learn from."""
        self._need_reset()
        try:
            encoded = self.model.config.observation.encode(observations)
        except SpaceError as error:
            raise UserError(f"the observation of row {error.row} does not fit the policy: {error.problem}") from error
        if len(encoded) != self._rows:
            before, now = counted(self._rows or 0, "row"), counted(len(encoded), "row")
            raise UserError(f"the policy was reset for {before}, these are observations of {now}: call reset(n) first")
        self._here.observations.numpy()[...] = encoded

    def _think(self) -> None:
        self._distribution: Tensor
        self._weights: dict[Head, Tensor]
        self._distribution, self._weights = self.model.step(self._cache, *self._there, self.watch)

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


class _Inputs(NamedTuple):
    """What a step reads: observations `[n, bytes]`, the actions before them `[n, …]`, and which rows begin `[n]`."""

    observations: Tensor
    last_actions: Tensor
    begins: Tensor

    @classmethod
    def of(cls, n: int, config: NetworkConfig, device: torch.device | None) -> "_Inputs":
        """Zeros on a device; None: on the host, where a GPU can fetch them."""
        actions = torch.zeros((n, *config.actions.shape), dtype=getattr(torch, config.actions.dtype.name))
        inputs = (
            torch.zeros(n, config.observation.nbytes, dtype=torch.uint8),
            actions,
            torch.zeros(n, dtype=torch.bool),
        )
        if device is None and torch.cuda.is_available():
            return cls(*(tensor.pin_memory() for tensor in inputs))
        return cls(*(tensor.to(device or "cpu") for tensor in inputs))


def _take_rows(cache: Any, rows: Tensor) -> Any:
    """The same cache with only those rows: its tensors are `[rows, …]`, in tuples and lists."""
    if isinstance(cache, Tensor):
        return cache[rows]
    parts = [_take_rows(part, rows) for part in cache]
    return type(cache)(*parts) if hasattr(cache, "_fields") else type(cache)(parts)


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
    return as_policy(Run(Path(run)).load_model(best), device=device, max_steps=max_steps, watch=watch)


def as_policy(
    trained: Trained,
    *,
    device: torch.device | str | None = None,
    max_steps: int | None = None,
    watch: str | Head | Sequence[Head] | None = None,
) -> ModelPolicy:
    """The policy of a trained network; see `load_policy`."""
    config = trained.config
    heads = _heads_to_watch(watch, trained)
    if not max_steps and config.task not in all_tasks():
        raise UserError(
            f"{trained.run.path} was trained on task {config.task!r}, which is not registered: import the file that "
            "registers it before load_policy (for commands: `attentiontuner --import FILE ...`), or give max_steps="
        )
    steps = max_steps or get_task(config.task, config.settings).max_steps
    return ModelPolicy(trained.model.to(choose_device(device)), steps, watch=heads, task=config.task)


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
    task: Task, episodes: int, seed: int = SELECTION_SEED, workers: int | None = None, batch: int = DEFAULT_BATCH
) -> Callable[[Network], float]:
    """The function model → success rate (0 to 1) that `training.train` calls now and then.

    It always plays the same episodes, which are not those of `evaluate` unless its seed is given; the model's training
    mode is left as it was. A task that cannot be sent to worker processes is played in this one.
    """
    if workers is None and why_it_cannot_travel(task):
        workers = 0

    def success(model: Network) -> float:
        training = model.training
        try:
            policy = ModelPolicy(model, task.max_steps)
            _, summary = evaluate(policy, task, episodes, seed, batch=batch, workers=workers)
        finally:
            model.train(training)
        return float(summary["success_rate"])

    return success
