"""The loop around `TrainStep` that logs, saves, stops when asked and goes on where it was."""

import math
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from attentiontuner.core.errors import UserError
from attentiontuner.core.progress import Bar, progress
from attentiontuner.core.signals import Interrupted, stop_signals
from attentiontuner.core.wording import counted
from attentiontuner.data.attended import attended
from attentiontuner.data.dataset import DemoData
from attentiontuner.data.source import Source
from attentiontuner.models.network import Network
from attentiontuner.models.optimiser import make_optimiser, set_learning_rate
from attentiontuner.runs.config import TrainConfig, learning_rate_at
from attentiontuner.runs.devices import Processes
from attentiontuner.runs.log import MetricsLog
from attentiontuner.runs.run import Run
from attentiontuner.runs.states import State, optimiser_tensors, restore_optimiser
from attentiontuner.training.abandoning import Abandoned, Attentive
from attentiontuner.training.step import (
    GLOBAL_SUMS,
    ComputedIn,
    TrainStep,
    batches_counted,
    first_bad_step,
    held_out_metrics,
)
from attentiontuner.viz.heatmaps import write_heatmaps

GO, SAVE, STOP = 0, 1, 2
"""What happens after a batch; the processes of a run agree on the largest."""

Evaluate = Callable[[Network], float]
"""model → success rate in [0, 1]"""


class TrainLoop:
    """From a fresh `model`, on the CPU, or a saved state to the last epoch, a deadline or a signal."""

    def __init__(
        self,
        config: TrainConfig,
        model: Network,
        run: Run,
        source: Source,
        test: Source | None,
        device: torch.device,
        team: Processes,
        state: State | None,
    ) -> None:
        self.config, self.run, self.source, self.test, self.device, self.team = config, run, source, test, device, team
        self.epoch, self.batch, self.best = 0, 0, -1.0
        self.seconds = self.epoch_seconds = 0.0
        self.metrics: list[dict[str, Any]] = []
        if state is None and model.fits:
            model.fit(source.observed(), source.frames())
        if state is None and model.action_head.fits:
            model.action_head.fit(source.actions())
        self.model = model.to(device).train()
        torch.manual_seed(config.seed * 1000 + team.rank)
        self.optimiser = make_optimiser(self.model, config.learning_rate, config.weight_decay)
        self.step: TrainStep | None = None
        self._testing = Attentive()
        self._sums: Tensor | None = None
        self._saved_name = ""
        if state is not None:
            self._restore(state)
        self._saved_at = self._counted_to = time.monotonic()

    # --- the loop ----------------------------------------------------------------------------------------------------

    def go(self, evaluate: Evaluate | None, deadline: float | None, boards: Iterable[str] = ()) -> bool:
        """Train until the last epoch (True) or until the deadline, in `time.monotonic()` seconds (False)."""
        log = self.run.log(self.epoch, boards) if self.team.first else None
        self.metrics = log.epochs if log is not None else []
        done = min(self.batch * self.config.batch_size, len(self.source))
        remaining = (self.config.epochs - self.epoch) * len(self.source) - done
        label = f"train {self.config.task}, {self.config.method}, seed {self.config.seed}"
        try:
            shown = progress(label, max(remaining, 0)) if self.team.first else nullcontext(SilentBar(label, 0, None))
            with shown as bar, stop_signals() as signals:
                bar.advance(0, f"epoch {self.epoch}/{self.config.epochs}")
                if self.epoch == self.batch == 0:
                    self._draw()
                while self.epoch < self.config.epochs:
                    if not self._train_epoch(bar, signals, deadline, log):
                        return False
                    try:
                        tested = self._test(self._wish(signals, deadline))
                    except Abandoned:
                        return self._leave(signals, log)
                    self._finish_epoch(evaluate, log, bar, tested)
                if signals:  # it came when the last epoch had been trained
                    raise self._interrupted(signals[0])
                return True
        finally:
            if log is not None:
                log.close()

    def _train_epoch(self, bar: Bar, signals: list[int], deadline: float | None, log: MetricsLog | None) -> bool:
        """The rest of the present epoch; False where the deadline ended it (saved)."""
        self._counted_to = time.monotonic()
        batches = self.source.batches(self.epoch)
        for chunk in self.source.chunks(self.epoch, self.batch):
            step = self._step_on(chunk.data)
            for rows in chunk.batches:
                set_learning_rate(self.optimiser, self._learning_rate(batches))
                try:
                    step(rows, self._wish(signals, deadline))
                except Abandoned:
                    return self._leave(signals, log)
                self.batch += 1
                bar.advance(len(rows))
                request = self.team.agree(self._request(signals, deadline))
                if request == SAVE:
                    self._save(log)
                if request == STOP:
                    return self._leave(signals, log)
        return True

    def _wish(self, signals: list[int], deadline: float | None) -> Callable[[], bool] | None:
        """Whether to leave, for whoever computes for long; None where processes have to agree on it first."""
        if self.team.world > 1:
            return None
        return lambda: bool(signals) or (deadline is not None and time.monotonic() >= deadline)

    def _leave(self, signals: list[int], log: MetricsLog | None) -> bool:
        """Save and leave: with `Interrupted` where a signal asked for it, else False."""
        if State(self.epoch, self.batch, {}, {}, {}).name != self._saved_name:
            self._save(log)
        if signals:
            raise self._interrupted(signals[0])
        return False

    def _step_on(self, data: DemoData) -> TrainStep:
        """The step on these demonstrations; sums go on where the last one's were."""
        if self.step is None or self.step.data is not data:
            sums = self.step.sums if self.step is not None else self._sums
            self.step = TrainStep(self.model, self.optimiser, data, self.config, self.precision)
            if sums is not None:
                self.step.sums.copy_(sums)
        return self.step

    def _learning_rate(self, batches: int) -> float:
        """Of the present batch, one of `batches` in this epoch; streamed epochs may have a few more than others."""
        usual = math.ceil(len(self.source) / self.config.batch_size)
        step = round((self.epoch + self.batch / batches) * usual)
        return learning_rate_at(self.config, step, self.config.epochs * usual)

    def _request(self, signals: list[int], deadline: float | None) -> int:
        now = time.monotonic()
        if signals or (deadline is not None and now >= deadline):
            return STOP
        return SAVE if self.team.first and now - self._saved_at >= self.config.checkpoint_seconds else GO

    def _interrupted(self, number: int) -> Interrupted:
        epochs = counted(self.config.epochs, "epoch")
        where = f"{self.epoch} of {epochs} and {counted(self.batch, 'batch', 'batches')}"
        name = signal.Signals(number).name
        return Interrupted(
            f"{name}: saved after {where} in {self.run.path}; the same command goes on from there", number
        )

    # --- the end of an epoch -----------------------------------------------------------------------------------------

    def _finish_epoch(
        self, evaluate: Evaluate | None, log: MetricsLog | None, bar: Bar, tested: Mapping[str, float]
    ) -> None:
        step = self.step or self._step_on(next(self.source.chunks(self.epoch)).data)
        self._check_finite(step.sums)
        train = step.collect()
        self._count_seconds()
        metrics: dict[str, Any] = {
            "epoch": self.epoch + 1,
            **train,
            "demonstrations_per_second": round(len(self.source) / max(self.epoch_seconds, 1e-9), 2),
            "seconds": round(self.epoch_seconds, 4),
        }
        self.epoch, self.batch, self.epoch_seconds = self.epoch + 1, 0, 0.0
        if log is not None:
            metrics.update(tested)
            metrics.update(self._evaluate(evaluate))
            log.add(metrics)
            self._draw()
        self._note(bar, metrics)
        self._counted_to = time.monotonic()
        last = self.epoch == self.config.epochs
        if self.team.agree(SAVE if last or self._request([], None) == SAVE else GO) == SAVE:
            self._save(log)

    @property
    def precision(self) -> ComputedIn:
        assert self.config.precision != "auto"  # decided before the loop begins
        return self.config.precision

    def _test(self, wish: Callable[[], bool] | None) -> dict[str, float]:
        """How it does on the test demonstrations, after every epoch; with more of them than there are to learn from,
        only as often as that many have been trained on, and at the end. `Abandoned` where `wish` comes true."""
        if self.test is None or not self.team.first:
            return {}
        epoch, every = self.epoch + 1, -(-len(self.test) // len(self.source))
        if epoch % every and epoch != self.config.epochs:
            return {}
        self._count_seconds()
        try:
            with self._testing.to(wish):
                return held_out_metrics(self.model, self.test.pieces(), self.config, self.precision)
        finally:
            self._counted_to = time.monotonic()

    def _evaluate(self, evaluate: Evaluate | None) -> dict[str, float]:
        if evaluate is None or not self.config.eval_every or self.epoch % self.config.eval_every:
            return {}
        self.model.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            success = float(evaluate(self.model))
        self.model.train()
        if success > self.best:
            self.best = success
            self.run.save_best(self.model)
        return {"success_rate": success}

    def _draw(self) -> None:
        if self.team.first and self.test is not None and self.epoch in self.config.heatmap_epochs:
            found = attended(self.model, next(self.test.pieces()), 0, self.config.attend_self)
            title = f"Attention after epoch {self.epoch}, demonstration {found.episode}"
            write_heatmaps(self.run.heatmap_path(self.epoch), found.weights, found.expert, title)

    def _note(self, bar: Bar, metrics: Mapping[str, Any]) -> None:
        first, *others = self.config.way.terms_of(self.config)
        parts = [f"epoch {self.epoch}/{self.config.epochs}", f"loss {metrics[f'{first}_loss']:.4f}"]
        if self.config.supervised():
            parts += [f"{term} {metrics[f'{term}_loss']:.4f}" for term in others]
        if text := tested(metrics):
            parts.append(text)
        if "success_rate" in metrics:
            parts.append(f"success {100 * metrics['success_rate']:.1f} %")
        bar.advance(0, ", ".join(parts))

    def _check_finite(self, sums: Tensor) -> None:
        """Stop where a loss or gradient was not finite: weights after it are worth nothing and are never saved."""
        bad = first_bad_step(sums)
        if bad < 0:
            return
        batch = self.batch - batches_counted(sums) + bad
        episodes = ", ".join(map(str, sorted(self.source.episodes_of(self.epoch, batch))))
        saved = self._saved_name
        kept = f"the last good state is {self.run.state_path(saved)}" if saved else "none is saved"
        raise UserError(
            f"the loss or its gradient is not finite at epoch {self.epoch + 1}, batch {batch + 1}; {kept}; "
            f"try a lower --learning-rate; the batch's episodes: {episodes}"
        )

    # --- states ------------------------------------------------------------------------------------------------------

    def _count_seconds(self) -> None:
        now = time.monotonic()
        self.seconds += now - self._counted_to
        self.epoch_seconds += now - self._counted_to
        self._counted_to = now

    def _save(self, log: MetricsLog | None) -> None:
        assert self.step is not None
        sums = self.step.sums.detach().cpu()
        self._check_finite(sums)
        if self.batch:
            self._count_seconds()
        shares = torch.stack(self.team.gather(sums))
        sums[:-GLOBAL_SUMS] = shares[:, :-GLOBAL_SUMS].sum(0)
        tensors = {**optimiser_tensors(self.optimiser), "sums": sums, **self._generators()}
        numbers = {"seconds": self.seconds, "epoch_seconds": self.epoch_seconds, "best": self.best}
        state = State(self.epoch, self.batch, self.model.state_dict(), tensors, numbers)
        if log is not None:
            log.sync()
            self.run.save_state(state, self.config.keep)
        self._saved_name, self._saved_at = state.name, time.monotonic()
        self.team.wait()

    def _generators(self) -> dict[str, Tensor]:
        """Every process's generator states by name."""
        own = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            f"generator.{kind}.{rank}": state
            for kind, mine in own.items()
            for rank, state in enumerate(self.team.gather(mine))
        }

    def _restore(self, state: State) -> None:
        try:
            self.model.load_state_dict(state.model)
            restore_optimiser(self.optimiser, state.tensors)
            sums = state.tensors["sums"].clone()
            self.best = float(state.numbers["best"])
            self.seconds, self.epoch_seconds = float(state.numbers["seconds"]), float(state.numbers["epoch_seconds"])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            where = self.run.state_path(state.name)
            raise UserError(f"{where} is damaged: it does not fit the run ({error})") from error
        if not self.team.first:
            sums[:-GLOBAL_SUMS] = 0  # the first process has everybody's
        self.epoch, self.batch, self._sums, self._saved_name = state.epoch, state.batch, sums, state.name
        mine = state.tensors.get(f"generator.cpu.{self.team.rank}")
        if mine is not None:
            torch.set_rng_state(mine)
        mine = state.tensors.get(f"generator.cuda.{self.team.rank}")
        if mine is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(mine, self.device)


def tested(metrics: Mapping[str, Any]) -> str:
    """How an epoch did on the test demonstrations, for people; "" where it was not tested."""
    parts = []
    for name, (title, times, form) in TESTED.items():
        if f"test_{name}" in metrics:
            text = f"test {title} {form.format(times * metrics[f'test_{name}'])}"
            at_pairs = metrics.get(f"test_{name}_at_pairs")
            parts.append(text if at_pairs is None else f"{text} ({form.format(times * at_pairs)} at pairs)")
    if "test_recall" in metrics:
        parts.append(f"recalls {100 * metrics['test_recall']:.1f} % as the expert")
    return ", ".join(parts)


TESTED = {
    "accuracy": ("accuracy", 100, "{:.2f} %"),
    "error": ("error", 1, "{:.4g}"),
    "log_likelihood": ("log-likelihood", 1, "{:.2f}"),
}
"""What an action head measures → what people call it, times what, and how it is written."""


class SilentBar(Bar):
    """What the other processes advance."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        pass
