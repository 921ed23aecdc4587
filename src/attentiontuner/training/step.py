"""One optimisation step: eager on a CPU, a recorded CUDA graph on a GPU, gradients summed over processes.

The step never waits for the device: what it measures is added up there and read once an epoch by `collect`.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.data.batch import Batch
from attentiontuner.data.dataset import BatchShape, DemoData
from attentiontuner.losses import imitation_loss, measured, recalled_as_wanted
from attentiontuner.models.network import Network, Output
from attentiontuner.runs.config import TrainConfig
from attentiontuner.training.abandoning import Attentive

ComputedIn = Literal["float32", "bfloat16"]

GLOBAL_SUMS = 3
"""How many of `TrainStep.sums`, the last ones (gradient norm, batches, first bad batch), are the same in every process;
of the others (the loss's terms, what the action head measures, steps) each has only its share."""

_NEVER = 1e30

TESTED_ENTRIES = 2**24
"""Episodes are tested together as long as they have fewer weights of steps on steps than these."""

TESTED_IN_A_BLOCK = 2**22
"""So many of these weights are looked at together."""


def first_bad_step(sums: Tensor) -> int:
    """The first step since the sums began whose loss or gradient was not finite, from 0; -1 where all were."""
    bad = float(sums[-1])
    return -1 if bad == _NEVER else int(bad)


def batches_counted(sums: Tensor) -> int:
    """How many batches the sums cover."""
    return int(sums[-2])


class TrainStep:
    """Call it with the rows of a global batch; each process computes its share of them.

    Args:
        model: the network, in training mode, on its device.
        optimiser: made by `models.optimiser`.
        data: the demonstrations, on the same device.
        config: the run; its method gives the loss, which is always float32.
        precision: of the network's matrix products.

    A batch that does not fit into memory is computed in parts (`TrainConfig.parts`), one after another, whose gradients
    are added up: every part is divided by what the whole batch has.
    """

    def __init__(
        self,
        model: Network,
        optimiser: torch.optim.Optimizer,
        data: DemoData,
        config: TrainConfig,
        precision: ComputedIn = "float32",
    ) -> None:
        self.model, self.optimiser, self.data, self.config = model, optimiser, data, config
        self.method, self.heads = config.way, config.supervised()
        self.terms = self.method.terms_of(config)
        self.parameters: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.processes = dist.get_world_size() if dist.is_initialized() else 1
        rank, parts = dist.get_rank() if dist.is_initialized() else 0, config.parts or 1
        every = self.processes * parts
        self.shares = [slice(first, None, every) for first in range(rank, every, self.processes)]
        self.attentive = Attentive()
        # Matrix products in bfloat16 read a copy of the weights that is refreshed every step; the weights themselves,
        # what the optimiser adds to and what is saved, stay float32.
        self.working = copy.deepcopy(model).bfloat16() if precision == "bfloat16" else model
        self.measures = model.action_head.measures
        places = len(self.terms) + len(self.measures) + 1 + GLOBAL_SUMS
        self.sums = torch.zeros(places, dtype=torch.float64, device=data.device)
        self.sums[-1] = _NEVER
        self._graphs: dict[BatchShape, _Graph | None] = {}
        if data.device.type == "cuda":
            torch.set_float32_matmul_precision("high" if precision == "bfloat16" else "highest")
            torch.backends.cudnn.allow_tf32 = precision == "bfloat16"  # convolutions have a switch of their own

    def __call__(self, rows: NDArray[np.int64], wish: Callable[[], bool] | None = None) -> None:
        """One step on the episodes `rows` (of all processes together). No synchronisation.

        A step of a CPU that takes long is thrown away where `wish` comes true meanwhile: `Abandoned`."""
        if self.data.device.type == "cuda" and self.processes == 1 and len(self.shares) == 1:
            self._recorded(rows)
            return
        shares = [share for share in self.shares if len(rows[share])] or self.shares[:1]
        self._run((self.data.batch(rows, share) for share in shares), wish)

    def _run(self, parts: Iterable[Batch], wish: Callable[[], bool] | None = None) -> None:
        working: list[Tensor] = [parameter for parameter in self.working.parameters() if parameter.requires_grad]
        if self.working is not self.model:
            with torch.no_grad():
                torch._foreach_copy_(working, self.parameters)
        self.working.zero_grad(set_to_none=True)
        with self.attentive.to(wish):
            found = torch.stack([self._learn_from(part) for part in parts])
        total, share = found[:, 0].sum(), found[:, 1:].sum(0)
        if self.working is not self.model:
            self._copy_gradients(working)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if self.processes > 1:
            sum_over_processes(gradients)
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip, norm)
        self.optimiser.step()
        count = self.sums[-2]
        good = torch.isfinite(total) & torch.isfinite(norm)
        first_bad = torch.where(good, self.sums[-1], torch.minimum(self.sums[-1], count))
        self.sums[:-1] += torch.cat([share, torch.stack([norm.double(), torch.ones_like(count)])])
        self.sums[-1] = first_bad

    def _learn_from(self, batch: Batch) -> Tensor:
        """Add the gradient of a part; its loss, terms, measures and number of steps, float64 `[...]`."""
        loss = self.method.loss(self.working(batch, self.heads), batch, self.config)
        if set(loss.terms) != set(self.terms):
            has, named = ", ".join(loss.terms), ", ".join(self.terms)
            raise UserError(f"method {self.method.name!r}: its loss has the terms {has}, its `terms` are {named}")
        loss.total.backward()
        found = [loss.total, *(loss.terms[name] for name in self.terms)]
        found += [*(loss.measures[name] for name in self.measures), loss.steps]
        return torch.stack([own.detach().double() for own in found])

    def _copy_gradients(self, working: Sequence[Tensor]) -> None:
        """The gradients of the working copy, as float32, to the weights themselves."""
        used = [
            (own, copied.grad) for own, copied in zip(self.parameters, working, strict=True) if copied.grad is not None
        ]
        for own, _ in used:
            own.grad = torch.empty_like(own) if own.grad is None else own.grad
        torch._foreach_copy_([own.grad for own, _ in used if own.grad is not None], [gradient for _, gradient in used])

    def _recorded(self, rows: NDArray[np.int64]) -> None:
        """The first batch of a shape is an ordinary step, which warms everything up; later ones replay a recording."""
        host, shape = self.data.numbers(rows, rounded=True)
        numbers = torch.from_numpy(host).pin_memory().to(self.data.device, non_blocking=True)
        if shape not in self._graphs:
            self._graphs[shape] = None
            self._run([self.data.assemble(numbers, shape)])
            return
        graph = self._graphs[shape]
        if graph is None:
            graph = self._graphs[shape] = _Graph(self, numbers, shape)
        graph.numbers.copy_(numbers)
        graph.recording.replay()

    def collect(self) -> dict[str, float]:
        """Means since the last call, by the names they have in a run's metrics; waits for the device."""
        sums = self.sums.clone()
        self.sums.zero_()
        self.sums[-1] = _NEVER
        if self.processes > 1:
            together = sums[:-GLOBAL_SUMS].clone()
            dist.all_reduce(together)
            sums[:-GLOBAL_SUMS] = together
        *shares, steps, norm, batches, _ = sums.tolist()
        batches, terms = max(batches, 1), len(self.terms)
        losses = {f"{name}_loss": term / batches for name, term in zip(self.terms, shares[:terms], strict=True)}
        means = [share / max(steps, 1) for share in shares[terms:]]
        measures = {f"train_{name}": mean for name, mean in zip(self.measures, means, strict=True)}
        return {**losses, **measures, "gradient_norm": norm / batches}


class _Graph:
    """A recorded step for batches of one shape."""

    def __init__(self, step: TrainStep, numbers: Tensor, shape: BatchShape) -> None:
        self.numbers = numbers.clone()
        self.recording = torch.cuda.CUDAGraph()
        # Recordings of one run never replay at once, so they may share the memory of the first.
        first = next((graph for graph in step._graphs.values() if graph is not None), None)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.recording, pool=first.recording.pool() if first else None):
            step._run([step.data.assemble(self.numbers, shape)])


def sum_over_processes(tensors: Sequence[Tensor]) -> None:
    """Add up the tensors of all processes, in place, in one message."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))


@torch.no_grad()
def held_out_metrics(
    model: Network, pieces: Iterable[DemoData], config: TrainConfig, precision: ComputedIn = "float32"
) -> dict[str, float]:
    """How a network does on all demonstrations, which come in pieces, without dropout and without gradients, by the
    names of a run's metrics.

    What the action head measures over all steps hides guessing where few of them need memory. So it is said for the
    steps that have pairs, too, and how often the supervised heads recall there what the expert did; nothing of it where
    there are no pairs.
    """
    training, heads, measures = model.training, config.supervised(), model.action_head.measures
    reading = copy.deepcopy(model).bfloat16() if precision == "bfloat16" else model
    reading.eval()
    sums = torch.zeros(4 + 2 * len(measures), dtype=torch.float64, device=next(model.parameters()).device)
    tells = bool(heads)  # what is recalled; of a batch without pairs nobody is asked
    for batch in _batches_to_test(pieces, model, config):
        output = reading(batch, heads)
        deciding = batch.deciding
        as_wanted = _recalled_as_wanted(output, batch, config) if heads else None
        tells = tells and as_wanted is not None
        found = [
            imitation_loss(output, batch) * batch.totals.steps,
            batch.learned.sum() * 0 if as_wanted is None else as_wanted,
            *(which.sum() for which in (batch.learned, deciding)),
            *(share for which in (batch.learned, deciding) for share in measured(output, batch, which).values()),
        ]
        sums += torch.stack([part.double() for part in found])
    model.train(training)
    imitation, recalled, steps, deciding_steps, *shares = sums.tolist()
    metrics = {f"test_{name}": share / steps for name, share in zip(measures, shares, strict=False)}
    metrics["test_imitation_loss"] = imitation / steps
    if deciding_steps:
        at_pairs = zip(measures, shares[len(measures) :], strict=True)
        metrics |= {f"test_{name}_at_pairs": share / deciding_steps for name, share in at_pairs}
        if tells:
            metrics["test_recall"] = recalled / deciding_steps
    return metrics


def _batches_to_test(pieces: Iterable[DemoData], model: Network, config: TrainConfig) -> Iterator[Batch]:
    for data in pieces:
        at_once = -(-config.batch_size // (config.parts or 1))
        if data.device.type == "cuda":  # without gradients there is room, and launching costs more than computing
            at_once = max(at_once, model.tested_at_once)
        at_once = max(1, min(at_once, TESTED_ENTRIES // data.longest**2))
        for start in range(0, len(data), at_once):
            yield data.batch(np.arange(start, min(start + at_once, len(data))))


def _recalled_as_wanted(output: Output, batch: Batch, config: TrainConfig) -> Tensor | None:
    """How many steps recall what the expert did; None where the method does not tell."""
    entries, found = batch.entries(), torch.zeros((), dtype=torch.int64, device=batch.lengths.device)
    for block in batch.blocks(TESTED_IN_A_BLOCK):
        if not len(entries.within(block)[0]):
            continue
        strength = config.way.recall_strength(output, block)
        if strength is None:
            return None
        found += recalled_as_wanted(strength, entries.matrix(block), block.start).sum()
    return found
