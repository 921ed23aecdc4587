"""Many episodes at once: the policy thinks for a batch of rows, finished rows take the next seed of a fixed list.

What is guaranteed: every seed of the list is played exactly once, so short episodes are not favoured; results come in
the order of the seeds; which row plays which seed depends on the batch and the episodes alone, never on time, so on one
machine the number of workers changes not a bit. Another batch size changes no seed and no order, but matrix products of
another size round differently (about 1e-6 in a logit): an action can change only where two logits are that close.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.processes import usable_cores
from attentiontuner.core.wording import counted
from attentiontuner.evaluation.workers import (
    GOING_ON,
    IDLE,
    RESET,
    SOLVED,
    STEP,
    Environments,
    PlaysAlone,
    RowError,
)
from attentiontuner.spaces import SpaceError
from attentiontuner.tasks.task import Task, why_it_cannot_travel

DEFAULT_BATCH = 128

SEVERAL_WORKERS_FROM = 16
"""Episodes from which worker processes are worth their start."""


class Policy(Protocol):
    """Plays many episodes at once, one per row.

    A policy may also have `clone()`, which gives a second player with the same behaviour and a memory of its own, or
    None where that does not pay: the rows are then played in two halves, and one half's environments step while the
    policy thinks for the other. `check(task)` raises a `UserError` where the policy does not fit the task. `keep(rows)`
    is called when the seeds run out: only those rows go on, as rows 0, 1, …; False where the policy prefers them all.
    """

    def reset(self, n: int) -> None:
        """`n` episodes begin."""
        ...

    def restart(self, rows: NDArray[np.int64]) -> None:
        """Those rows begin a new episode, the others go on. Rows that have nothing to play are restarted every step."""
        ...

    def act(self, observations: Any) -> NDArray[Any]:
        """`[n, …]` observations (of several parts: a dictionary of them) → `[n]` actions (not discrete: `[n, k]`)."""
        ...


@dataclass(frozen=True)
class EpisodeResult:
    """One episode played.

    Attributes:
        episode: its number in the list of seeds.
        seed: the environment seed.
        success: whether the task was solved.
        return_: the sum of its rewards.
        length: its steps.
    """

    episode: int
    seed: int
    success: bool
    return_: float
    length: int

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back; `return_` is called `return` there."""
        return {name.rstrip("_"): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "EpisodeResult":
        success, total = bool(value["success"]), float(value["return"])
        if not math.isfinite(total):
            raise ValueError(f"a return of {total} cannot be")
        return cls(int(value["episode"]), int(value["seed"]), success, total, int(value["length"]))


def default_workers(task: Task, episodes: int, cores: int | None = None) -> int:
    """Worker processes worth starting for that many episodes on `cores` CPU cores, by default all that may be used;
    none where they would not know the task."""
    cores = usable_cores() if cores is None else cores
    several = episodes >= SEVERAL_WORKERS_FROM and cores > 1 and not why_it_cannot_travel(task)
    return cores if several else 0


def rollout(
    policy: Policy | PlaysAlone,
    task: Task,
    seeds: Sequence[int],
    *,
    batch: int = DEFAULT_BATCH,
    workers: int | None = None,
    on_result: Callable[[EpisodeResult], None] | None = None,
    episodes: Sequence[int] | None = None,
) -> list[EpisodeResult]:
    """Play every seed once; the results in the order of `seeds`.

    Args:
        policy: a `Policy`, played in this process in a batch, or one that plays alone in the workers (random, expert).
        task: what to play.
        seeds: environment seeds, one per episode.
        batch: episodes in flight at once.
        workers: processes that step the environments; 0 steps them here; None chooses.
        on_result: called for each episode when it is finished.
        episodes: the numbers of these episodes where they are not 0, 1, 2, ….

    Raises:
        UserError: naming episode and seed, where an environment raises or does not fit the task, a worker dies, or the
            policy does not fit the task. Episodes finished before have gone to `on_result`.
    """
    if batch < 1 or (workers is not None and workers < 0):
        raise UserError(f"batch {batch}, workers {workers}: give at least 1 and 0")
    if not seeds:
        return []
    workers = default_workers(task, len(seeds)) if workers is None else workers
    rows = min(batch, len(seeds))
    alone: Any = policy if hasattr(policy, "player") else None
    play = _Play(task, seeds, range(len(seeds)) if episodes is None else episodes, on_result)
    play.check(policy)
    twin = policy.clone() if alone is None and hasattr(policy, "clone") and rows > 1 else None
    policies: list[Any] = [policy] if twin is None else [policy, twin]
    environments = Environments(task, rows, workers, groups=len(policies), alone=alone)
    try:
        play.run(environments, policies, alone is not None)
    except RowError as error:
        raise UserError(f"{play.name_of(error.row)}: {error.problem}") from error
    finally:
        environments.close()
    return [play.results[index] for index in range(len(seeds))]


class _Play:
    """The bookkeeping of one rollout: which row plays which episode, and what came of it."""

    def __init__(
        self,
        task: Task,
        seeds: Sequence[int],
        episodes: Sequence[int],
        on_result: Callable[[EpisodeResult], None] | None,
    ) -> None:
        self.task, self.seeds, self.episodes, self.on_result = task, seeds, episodes, on_result
        self.results: dict[int, EpisodeResult] = {}
        self._actions = task.actions
        self._next = 0
        self._playing: dict[int, int] = {}  # row → index into seeds

    def check(self, policy: Any) -> None:
        """Refuse a policy of another task before anything is played."""
        if hasattr(policy, "check"):
            try:
                policy.check(self.task)
            except UserError as error:
                raise UserError(f"episode {self.episodes[0]} (seed {self.seeds[0]}) cannot begin: {error}") from error

    def name_of(self, row: int) -> str:
        """The episode a row plays, for messages; a worker can die when its last row has nothing to play any more."""
        index = self._playing.get(row)
        if index is None:
            return f"after {len(self.results)} of {counted(len(self.seeds), 'episode')}"
        return f"episode {self.episodes[index]} (seed {self.seeds[index]})"

    def run(self, environments: Environments, policies: Sequence[Any], alone: bool) -> None:
        """Play all groups in turn until no seed is left."""
        for group, policy in enumerate(policies):
            for row in environments.groups[group]:
                self._begin_next(environments, row)
            if not alone:
                policy.reset(len(environments.groups[group]))
            environments.send(group)
        rows = [np.array(group, np.int64) for group in environments.groups]
        going_on = list(range(len(policies)))
        while going_on:
            group = going_on.pop(0)
            environments.receive(group)
            self._finish_rows(environments, rows[group])
            playing = np.array([int(row) in self._playing for row in rows[group]])
            if not playing.any():
                continue
            if not alone:
                if 2 * playing.sum() <= len(playing) and self._drop(policies[group], playing):
                    rows[group] = rows[group][playing]
                self._act(environments, policies[group], rows[group])
            environments.send(group)
            going_on.append(group)

    def _drop(self, policy: Any, playing: NDArray[np.bool_]) -> bool:
        """Let the policy forget the rows that have nothing to play any more, if it can."""
        return hasattr(policy, "keep") and bool(policy.keep(np.flatnonzero(playing)))

    def _begin_next(self, environments: Environments, row: int) -> None:
        environments.rows.commands[row] = IDLE
        self._playing.pop(row, None)
        if self._next < len(self.seeds):
            self._playing[row] = self._next
            environments.rows.seeds[row] = self.seeds[self._next]
            environments.rows.commands[row] = RESET
            self._next += 1

    def _finish_rows(self, environments: Environments, rows: NDArray[np.int64]) -> None:
        shared = environments.rows
        for row in rows[shared.ends[rows] != GOING_ON].tolist():
            if row not in self._playing:
                continue
            index = self._playing[row]
            result = EpisodeResult(
                self.episodes[index],
                int(self.seeds[index]),
                bool(shared.ends[row] == SOLVED),
                float(shared.rewards[row]),
                int(shared.steps[row]),
            )
            self.results[index] = result
            if self.on_result is not None:
                self.on_result(result)
            self._begin_next(environments, row)

    def _act(self, environments: Environments, policy: Policy, rows: NDArray[np.int64]) -> None:
        """Fill in the commands and actions of the rows that go on."""
        shared = environments.rows
        going_on = (shared.ends[rows] == GOING_ON) & (shared.commands[rows] != IDLE)
        if not going_on.any():
            return
        policy.restart(np.flatnonzero(~going_on | (shared.steps[rows] == 0)))
        acted, acting = policy.act(self.task.observation.decode(shared.observations[rows])), rows[going_on]
        try:
            actions = _array(acted)
            if actions.shape[:1] != rows.shape:
                raise SpaceError(f"it gave actions of shape {actions.shape} for {counted(len(rows), 'row')}")
            shared.actions[acting] = self._actions.encode(actions[going_on])
        except SpaceError as error:
            raise UserError(f"{self.name_of(int(acting[error.row]))}: the policy's act: {error.problem}") from error
        shared.commands[acting] = STEP


def _array(actions: Any) -> NDArray[Any]:
    try:
        return np.asarray(actions)
    except ValueError as error:
        raise SpaceError("it gave actions of several shapes") from error
