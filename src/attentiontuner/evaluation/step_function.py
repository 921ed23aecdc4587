"""One step of a policy as a function of tensors alone: all it remembers goes in and comes out."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attentiontuner.core.errors import UserError
from attentiontuner.models.network import Network
from attentiontuner.models.sizes import NetworkConfig


class StepInputs(NamedTuple):
    """What a step reads: observations `[n, bytes]`, the actions before them `[n, …]`, and which rows begin `[n]`."""

    observations: Tensor
    last_actions: Tensor
    begins: Tensor

    @classmethod
    def of(cls, n: int, config: NetworkConfig, device: torch.device | None) -> "StepInputs":
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


class StepFunction(nn.Module):
    """One step of n episodes as a function of tensors alone: all it remembers goes in and comes out as the cache.

    `step(cache, observations, last_actions, begins)` gives the logits `[n, P]` (of actions that are numbers the
    likeliest chunk of them, `[n, k, …]`) and the cache of the next step; what was given is not changed. Unlike
    `ModelPolicy.act` it checks the shapes and types of observations, not their values. Episodes have at most
    `max_steps` steps.
    """

    def __init__(self, model: Network, max_steps: int) -> None:
        super().__init__()
        self.model, self.max_steps = model, max_steps
        self._form = map_leaves(model.start(1, 1), lambda _: None)

    def inputs(self, n: int) -> tuple[list[Tensor], Tensor | dict[str, Tensor], Tensor, Tensor]:
        """What the first step of n episodes takes, with observations of zeros."""
        config = self.model.config
        device = next(self.model.parameters()).device
        decoded = config.observation.decode(np.zeros((n, config.observation.nbytes), np.uint8))
        seen: Tensor | dict[str, Tensor]
        if isinstance(decoded, Mapping):
            seen = {name: torch.from_numpy(rows).to(device) for name, rows in decoded.items()}
        else:
            seen = torch.from_numpy(decoded).to(device)
        _, last_actions, begins = StepInputs.of(n, config, device)
        return _tensors(self.model.start(n, self.max_steps)), seen, last_actions, ~begins

    @torch.no_grad()
    def forward(
        self,
        cache: list[Tensor],
        observations: Tensor | dict[str, Tensor],
        last_actions: Tensor,
        begins: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """One step.

        Args:
            cache: what the step before gave, or `inputs`.
            observations: `[n, …]` uint8 or float32, of several parts a dictionary of them.
            last_actions: `[n, …]`, those of the step before; they mean nothing in rows that begin.
            begins: bool `[n]`, the rows whose episode begins.
        """
        own = iter([tensor.clone() for tensor in cache])
        past = map_leaves(self._form, lambda _: next(own))
        distribution, _ = self.model.step(past, self._bytes(observations), last_actions, begins)
        return self.model.action_head.plain(distribution), _tensors(past)

    def _bytes(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Observations as a network takes them, `[n, nbytes]`."""
        spec = self.model.config.observation
        given = {"": observations} if isinstance(observations, Tensor) else observations
        if set(given) != {name for name, _ in spec.parts}:
            raise UserError(f"observations are {spec}: give a tensor, or of named parts a dictionary of tensors")
        parts = []
        for name, part in spec.parts:
            values, wanted = given[name], f"torch.{part.dtype}"
            if str(values.dtype) != wanted or tuple(values.shape[1:]) != part.shape:
                there = f"{values.dtype} of shape {tuple(values.shape)}"
                raise UserError(f"observations {name}".strip() + f": {there}, not {wanted} of shape (n, *{part.shape})")
            parts.append(values.contiguous().view(torch.uint8).flatten(1))
        return torch.cat(parts, 1)


def map_leaves(cache: Any, change: Callable[[Any], Any]) -> Any:
    """The same cache with what stands in its tuples and lists changed: tensors `[rows, …]`."""
    if not isinstance(cache, list | tuple):
        return change(cache)
    parts = [map_leaves(part, change) for part in cache]
    return type(cache)(*parts) if hasattr(cache, "_fields") else type(cache)(parts)


def _tensors(cache: Any) -> list[Tensor]:
    """The tensors of a cache, in order."""
    if isinstance(cache, Tensor):
        return [cache]
    return [tensor for part in cache for tensor in _tensors(part)]
