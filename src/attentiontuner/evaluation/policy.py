"""A trained model as a policy that streams: each step attends over cached keys and values, nothing is recomputed."""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.evaluation.step_function import StepFunction, StepInputs, map_leaves
from attentiontuner.models.heads import Head
from attentiontuner.models.network import Network
from attentiontuner.spaces import ObservationSpec, SpaceError
from attentiontuner.tasks.task import Task

WARM_UP_STEPS = 3
"""Steps before a CUDA graph is captured, as PyTorch asks for."""


class ModelPolicy:
    """Plays the most likely action of a model, in float32, for any number of episodes at once.

    On a GPU a step is one copy of the observations there, one CUDA graph, and one copy of the actions back.

    Attributes:
        model: has `config`, `start` and `step`, see `models`. It is put into evaluation mode.
        max_steps: the longest episode the cache has room for; a task that `check` finds longer gets more.
        watch: heads whose attention is kept: after `act`, `weights[head]` is `[n, max_steps]`, the weight of each
            observation so far (what is missing to 1 lies on the actions; for a recall network the number of things
            recalled there). A bounded memory has as many as it has places; `steps` says which.
        task: name of the task it was trained on, "" if unknown.
        execute: how many actions of a chunk are played before the next is read; the network sees every step.
    """

    def __init__(
        self, model: Network, max_steps: int, *, watch: Sequence[Head] = (), task: str = "", execute: int = 1
    ) -> None:
        self.model = model.eval()
        self.max_steps, self.watch, self.task, self.execute = max_steps, tuple(watch), task, execute
        if not 1 <= execute <= model.action_head.chunk:
            there = counted(model.action_head.chunk, "action")
            raise UserError(f"execute {execute}: the network reads {there} at a step: give 1 to that many")
        if set(self.watch) - set(model.watchable):
            heads, there = (",".join(map(str, some)) for some in (self.watch, model.watchable))
            raise UserError(f'watch="{heads}": the heads of this network that can be watched are {there}')
        self.device = next(model.parameters()).device
        self.weights: dict[Head, NDArray[np.float32]] = {}
        self._rows: int | None = None
        self._distribution: Tensor | None = None
        self._weights: dict[Head, Tensor] = {}

    def __repr__(self) -> str:
        room = "any length" if self.max_steps == sys.maxsize else f"at most {counted(self.max_steps, 'step', form=',')}"
        network, task = self.model.config.architecture, self.task or "unknown"
        return f"ModelPolicy(task {task}, network {network}, episodes of {room}, on {self.device})"

    def clone(self) -> "ModelPolicy | None":
        """A second player with the same model and a cache of its own.

        None on a CPU, where network and environments would only take the cores from each other: they take turns.
        """
        if self.device.type == "cpu":
            return None
        return ModelPolicy(self.model, self.max_steps, watch=self.watch, task=self.task, execute=self.execute)

    def check(self, task: Task) -> None:
        """Refuse a task this model was not made for; make room for its episodes."""
        if self.task not in ("", task.name):
            raise UserError(f"the policy was trained on task {self.task!r}, this is task {task.name!r}")
        config = self.model.config
        if config.observation != task.observation or config.actions != task.actions:
            raise UserError(
                f"the policy takes {config.observation} observations and has {config.actions}, task {task.name!r} "
                f"gives {task.observation} observations and has {task.actions}"
            )
        if task.max_steps > self.max_steps:
            self.max_steps, self._rows = task.max_steps, None

    @torch.inference_mode()
    def reset(self, n: int) -> None:
        """`n` episodes begin."""
        if n < 0:
            raise UserError(f"reset: {n} rows: give the number of episodes played at once")
        if n != self._rows:
            actions = self.model.config.actions
            self._cache = self.model.start(n, self.max_steps)
            self._here, self._there = (
                StepInputs.of(n, self.model.config, None),
                StepInputs.of(n, self.model.config, self.device),
            )
            self._last = np.zeros((n, *actions.shape), actions.dtype)
            self._chunk = np.zeros((n, self.execute, *actions.shape), actions.dtype)
            self._graph: torch.cuda.CUDAGraph | None = None
            self._rows = n
        self.weights = {}
        self._begins = np.ones(n, bool)
        self._time = np.full(n, -1, np.int64)
        self._played = np.full(n, self.execute)  # actions of the chunk

    def _need_reset(self) -> None:
        if self._rows is None:
            raise UserError("the policy plays no episodes yet: call reset(n) first, with n the number of rows")

    def restart(self, rows: NDArray[np.int64] | NDArray[np.bool_] | Sequence[int]) -> None:
        """Those rows, their numbers or a mask `[n]`, begin a new episode, the others go on."""
        self._need_reset()
        try:
            self._begins[rows] = True
        except IndexError as error:
            raise UserError(f"restart: the policy plays {counted(self._rows or 0, 'row')}, from 0: {error}") from error

    @torch.inference_mode()
    def keep(self, rows: NDArray[np.int64]) -> bool:
        """Go on with these rows only, as rows 0, 1, …. On a GPU all are kept: its graph has one shape."""
        if self.device.type == "cuda":
            return False
        chosen = torch.from_numpy(rows)
        cache = map_leaves(self._cache, lambda tensor: tensor[chosen])
        kept = [own[rows] for own in (self._last, self._begins, self._time, self._chunk, self._played)]
        distribution = None if self._distribution is None else self._distribution[chosen]
        weights = {head: weight[rows] for head, weight in self.weights.items()}
        self.reset(len(rows))
        self._last, self._begins, self._time, self._chunk, self._played = kept
        self._cache, self.weights, self._distribution = cache, weights, distribution
        return True

    def act(
        self,
        observations: Any,
        *,
        sample: bool = False,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> NDArray[Any]:
        """Observations `[n, …]`, or a dictionary of them, → the likeliest actions `[n, …]`.

        Args:
            sample: draw the actions from the model's distribution instead.
            temperature: what the logits are divided by before, and of actions that are numbers their variance
                multiplied by: towards 0 the likeliest action, above 1 more at random.
            generator: where the draws come from, such as `torch.Generator().manual_seed(0)`; PyTorch's own by default.
                It stands on the CPU, wherever the model does.
        """
        _check_sampling(sample, temperature, generator)
        self._need_reset()
        begins = self._begins.copy()
        distribution = self.distribution(observations)
        plan = self.model.action_head.plan(distribution, temperature if sample else 0.0, generator)
        fresh = begins | (self._played >= self.execute)
        self._chunk[fresh] = plan[:, : self.execute].cpu().numpy()[fresh]
        self._played = np.where(fresh, 0, self._played)
        actions: NDArray[Any] = self._chunk[np.arange(len(fresh)), self._played]
        self._played += 1
        self._last[...] = actions
        return actions

    @property
    def logits(self) -> NDArray[np.float32]:
        """The action distributions `[n, P]` of the last step: of each discrete action its logit, of several choices at
        once those of all choices side by side."""
        if self.model.config.actions.kind == "box":
            raise UserError("there are no logits of actions that are numbers: read `policy.model.action_head`")
        if self._rows is None or self._time.max(initial=-1) < 0:
            raise UserError("there are no logits before the first step: call act first")
        assert self._distribution is not None
        logits: NDArray[np.float32] = self._distribution.float().cpu().numpy()
        return logits

    @property
    def steps(self) -> NDArray[np.int64]:
        """Which step of its episode each weight is of, `[n, …]` as the weights; -1: none."""
        bounded: Any = getattr(self._cache, "steps", None)
        if bounded is not None:
            found: NDArray[np.int64] = bounded.cpu().numpy().copy()
            return found
        longest = max((weights.shape[1] for weights in self.weights.values()), default=0)
        return np.broadcast_to(np.arange(longest), (self._rows or 0, longest))

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
        for weights, steps, now in zip(largest, self.steps, self._time, strict=True):
            past = np.flatnonzero((steps >= 0) & (steps < now) & (weights >= threshold))
            order = past[np.argsort(-weights[past], kind="stable")]
            found.append([(int(steps[place]), float(weights[place])) for place in order])
        return found

    def observe(self, observations: Any, actions: Any) -> None:
        """One step in which somebody else chose the actions `[n, …]`."""
        self.distribution(observations)
        self.took(actions)

    def took(self, actions: Any) -> None:
        """The actions `[n, …]` that were chosen from `distribution`: the next step knows them."""
        self._need_reset()
        try:
            encoded = self.model.config.actions.encode(actions)
        except SpaceError as error:
            raise UserError(f"the action of row {error.row} does not fit the policy: {error.problem}") from error
        if len(encoded) != self._rows:
            given = counted(len(encoded), "row")
            raise UserError(f"the policy was reset for {counted(self._rows or 0, 'row')}, these are actions of {given}")
        self._last[...] = encoded
        self._played[...] = self.execute  # what was planned is no longer what comes

    def step_function(self) -> StepFunction:
        """One step as a function of tensors alone, for `torch.export` and programs without this class."""
        return StepFunction(self.model, self.max_steps)

    @torch.inference_mode()
    def distribution(self, observations: Any) -> Tensor:
        """One step whose actions are chosen elsewhere, and then told with `took`: observations `[n, …]` → the action
        distributions `[n, P]` (of discrete actions their logits) on the device, valid until the next step."""
        self._take(observations)
        self._time = np.where(self._begins, 0, self._time + 1)
        if self._time.max(initial=0) >= self.max_steps:
            room = counted(self.max_steps, "step")
            longer = f"row {self._time.argmax()} is longer than the {room} the policy has room for"
            raise UserError(f"{longer}: load it with a larger max_steps")
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
        assert self._distribution is not None
        return self._distribution

    def _take(self, observations: Any) -> None:
        """Copy observations to where the step reads them, refusing those the model did not learn from."""
        self._need_reset()
        try:
            encoded = self.model.config.observation.encode(observations)
        except SpaceError as error:
            problem = _one_alone(self.model.config.observation, observations) or error.problem
            raise UserError(f"the observation of row {error.row} does not fit the policy: {problem}") from error
        if len(encoded) != self._rows:
            before, now = counted(self._rows or 0, "row"), counted(len(encoded), "row")
            raise UserError(f"the policy was reset for {before}, these are observations of {now}: call reset(n) first")
        self._here.observations.numpy()[...] = encoded

    def _think(self) -> None:
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


def _one_alone(spec: ObservationSpec, given: Any) -> str:
    """How a single observation becomes a batch of one; "" where it is not that."""
    try:
        spec.one(given)
    except SpaceError:
        return ""
    if isinstance(given, Mapping):
        return "it is one alone; give a batch: {name: part[None] for name, part in observation.items()}"
    return f"it is one alone; give a batch: {'observation[None]' if isinstance(given, np.ndarray) else '[observation]'}"


def _check_sampling(sample: bool, temperature: float, generator: torch.Generator | None) -> None:
    """Refuse what actions cannot be drawn with."""
    if not sample and (temperature != 1 or generator is not None):
        raise UserError("act: temperature and generator are for drawn actions: add sample=True")
    if not 0 < temperature < math.inf:
        raise UserError(f"act: temperature {temperature} is not a number above 0; the likeliest action is sample=False")
    if generator is not None and (not isinstance(generator, torch.Generator) or generator.device.type != "cpu"):
        raise UserError("act: generator: give one of the CPU, such as torch.Generator().manual_seed(0)")
