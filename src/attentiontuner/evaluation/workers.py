"""Environments in rows, stepped here or in worker processes. No torch: a worker starts in about a second.

Everything a round needs lies in shared memory, one entry per row; the pipes carry one short message per worker and
round ("step your rows of group g" / "done"). The parent writes commands, the workers write what came of them.
"""

import json
import multiprocessing as mp
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.processes import WorkerProcess, dismiss
from attentiontuner.core.wording import counted
from attentiontuner.spaces import SpaceError
from attentiontuner.tasks.task import Task, why_it_cannot_travel

STEP, RESET, IDLE = 0, 1, 2
"""Commands to a row: take `actions[row]`; begin the episode of `seeds[row]`; do nothing."""

GOING_ON, FAILED, SOLVED = 0, 1, 2
"""What a row's `ends` says after a round."""

DONE = b"done"


class PlaysAlone(Protocol):
    """A policy that needs no batch and plays inside the worker. It is sent there by pickle."""

    def player(self, task: Task, env: gym.Env[Any, Any], seed: int) -> Callable[[Any], Any]:
        """The function from what `env` gives to an action, for the episode it was just reset to with `seed`."""
        ...


class RowError(UserError):
    """Something went wrong in one row; `row` says in which, so that the caller can name seed and episode."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row, self.problem = row, problem


@dataclass(frozen=True)
class Rows:
    """What parent and workers share, one entry per row (`touched`: one per worker, the row it is busy with).

    `observations` are bytes `[rows, nbytes]`, `actions` `[rows, *shape]`, both as the task's specifications say.
    """

    observations: NDArray[np.uint8]
    actions: NDArray[Any]
    commands: NDArray[np.int64]
    seeds: NDArray[np.int64]
    rewards: NDArray[np.float64]
    steps: NDArray[np.int64]
    ends: NDArray[np.int64]
    touched: NDArray[np.int64]

    @classmethod
    def over(cls, buffers: dict[str, Any], task: Task, rows: int, workers: int) -> "Rows":
        """Arrays over the shared `buffers` that `shared_buffers` made."""
        layout = _layout(task, rows, workers)
        return cls(**{name: np.frombuffer(buffers[name], dtype).reshape(shape) for name, (dtype, shape) in layout})


def _layout(task: Task, rows: int, workers: int) -> list[tuple[str, tuple[np.dtype[Any], tuple[int, ...]]]]:
    whole, real, actions = np.dtype(np.int64), np.dtype(np.float64), task.actions
    return [
        ("observations", (np.dtype(np.uint8), (rows, task.observation.nbytes))),
        ("actions", (actions.dtype, (rows, *actions.shape))),
        ("commands", (whole, (rows,))),
        ("seeds", (whole, (rows,))),
        ("rewards", (real, (rows,))),
        ("steps", (whole, (rows,))),
        ("ends", (whole, (rows,))),
        ("touched", (whole, (max(workers, 1),))),
    ]


def shared_buffers(task: Task, rows: int, workers: int) -> dict[str, Any]:
    """Zeroed memory that spawned processes can share."""
    context = mp.get_context("spawn")
    return {
        name: context.RawArray("b", int(np.prod(shape)) * dtype.itemsize)
        for name, (dtype, shape) in _layout(task, rows, workers)
    }


class RowRunner:
    """Carries out the commands of some rows, each with an environment of its own."""

    def __init__(self, task: Task, rows: Rows, number: int, alone: PlaysAlone | None) -> None:
        self.task, self.rows, self.number, self.alone = task, rows, number, alone
        self._actions = task.actions
        self._envs: dict[int, gym.Env[Any, Any]] = {}

    def run(self, rows: range) -> None:
        """One round: reset or step each of `rows`. A row whose policy plays alone plays its whole episode."""
        own = slice(rows.start, rows.stop, rows.step)
        commands, taken = self.rows.commands[own].tolist(), self.rows.actions[own]
        actions = taken.tolist() if taken.ndim == 1 else taken.copy()  # an int each, or an array
        seen: dict[int, Any] = {}
        for row, command, action in zip(rows, commands, actions, strict=True):
            if command == IDLE:
                continue
            self.rows.touched[self.number] = row
            try:
                observation = self._reset(row) if command == RESET else self._advance(row, action)
            except UserError as error:
                raise RowError(row, str(error)) from error
            except Exception as error:
                who = "the environment" if self.alone is None else "the environment or its player"
                raise RowError(row, f"{who} raised {type(error).__name__}: {error}") from error
            if self.rows.ends[row] == GOING_ON:  # nobody acts on what is seen after the end
                seen[row] = observation
        if seen:
            self._put(seen)

    def _reset(self, row: int) -> Any:
        if row not in self._envs:
            self._envs[row] = self.task.make_env()
        env, seed = self._envs[row], int(self.rows.seeds[row])
        observation, _ = env.reset(seed=seed)
        self.rows.steps[row], self.rows.rewards[row], self.rows.ends[row] = 0, 0.0, GOING_ON
        if self.alone is not None:
            act = self.alone.player(self.task, env, seed)
            while self.rows.ends[row] == GOING_ON:
                observation = self._advance(row, self._actions.one(act(observation)))
        return observation

    def _advance(self, row: int, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self._envs[row].step(action)
        self.rows.steps[row] += 1
        self.rows.rewards[row] += float(reward)
        if terminated or truncated:
            total, steps = float(self.rows.rewards[row]), int(self.rows.steps[row])
            solved = self.task.solved(float(reward), bool(terminated), info, total, steps)
            self.rows.ends[row] = SOLVED if solved else FAILED
        elif self.rows.steps[row] >= self.task.max_steps:
            raise UserError(
                f"the episode did not end within the {counted(self.task.max_steps, 'step')} "
                f"that task {self.task.name!r} gives as its horizon; "
                "raise it there, or make it a function of the settings"
            )
        return observation

    def _put(self, seen: dict[int, Any]) -> None:
        """Share what was seen, {row: observation}: plain arrays all at once, which is ten times faster."""
        spec = self.task.observation
        if spec.plain:
            with suppress(ValueError):  # the first that is wrong is found below
                self.rows.observations[list(seen)] = spec.encode(np.stack(list(seen.values())))
                return
        for row, observation in seen.items():
            try:
                self.rows.observations[row] = spec.encode_one(observation)
            except SpaceError as error:
                raise RowError(row, f"the observation of step {self.rows.steps[row]}: {error.problem}") from error

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()


class Environments:
    """`rows` environments in `groups` equal groups, so that one group can step while the policy thinks for another.

    Row r belongs to worker r mod `workers`; with 0 workers they are stepped in this process, at `receive`.
    Which row plays which seed is the caller's choice alone, so nothing depends on the number of workers.
    """

    def __init__(self, task: Task, rows: int, workers: int, groups: int = 1, alone: PlaysAlone | None = None) -> None:
        self.workers = min(workers, rows)
        if self.workers and (problem := why_it_cannot_travel(task)):
            raise UserError(f"{problem}, or use --workers 0")
        size = -(-rows // groups)
        self.groups = [range(start, min(start + size, rows)) for start in range(0, rows, size)]
        buffers = shared_buffers(task, rows, self.workers)
        self.rows = Rows.over(buffers, task, rows, self.workers)
        self.rows.commands[:] = IDLE
        self._here = RowRunner(task, self.rows, 0, alone) if self.workers == 0 else None
        self._rounds = 0
        # What a worker has answered ahead of the group that is being received: {(worker, group)}.
        self._answered: set[tuple[int, int]] = set()
        job = (self.groups, task, buffers, rows, self.workers, alone)
        self._processes = [WorkerProcess(_worker, number, *job) for number in range(self.workers)]

    def send(self, group: int) -> None:
        """Let the rows of a group carry out their commands."""
        for number, process in enumerate(self._processes):
            try:
                process.pipe.send_bytes(bytes([group]))
            except OSError:
                self._lost(number)

    def receive(self, group: int) -> None:
        """Wait until they have; a row that failed, or a worker that died, is a `RowError`."""
        if self._here is not None:
            self._here.run(self.groups[group])
        while waiting := [number for number in range(self.workers) if (number, group) not in self._answered]:
            pipes = {self._processes[number].pipe: number for number in waiting}
            for pipe in wait(list(pipes)):
                number = pipes[pipe]  # type: ignore[index]
                try:
                    message = self._processes[number].pipe.recv_bytes()
                except (EOFError, OSError):
                    self._lost(number)
                if message[1:] != DONE:
                    raise RowError(**json.loads(message[1:]))
                self._answered.add((number, message[0]))
        self._answered -= {(number, group) for number in range(self.workers)}
        self._rounds += 1

    def _lost(self, number: int) -> NoReturn:
        hint = "" if self._rounds else "; in a script, keep the call under `if __name__ == '__main__':`"
        death = self._processes[number].death()
        raise RowError(int(self.rows.touched[number]), f"worker process {number} {death}{hint}")

    def close(self) -> None:
        """End the workers and close the environments."""
        dismiss(self._processes)
        if self._here is not None:
            self._here.close()


def _worker(
    pipe: "Connection[bytes, bytes]",
    number: int,
    groups: list[range],
    task: Task,
    buffers: dict[str, Any],
    rows: int,
    workers: int,
    alone: PlaysAlone | None,
) -> None:
    """A worker's life: wait for a group's number, run its rows, answer. It ends when the parent's end closes."""
    runner = RowRunner(task, Rows.over(buffers, task, rows, workers), number, alone)
    runner.rows.touched[number] = number
    own = [range(group.start + (number - group.start) % workers, group.stop, workers) for group in groups]
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            runner.close()
            return
        try:
            runner.run(own[message[0]])
            answer = DONE
        except RowError as error:
            answer = json.dumps({"row": error.row, "problem": error.problem}).encode()
        try:
            pipe.send_bytes(message + answer)
        except OSError:
            return
