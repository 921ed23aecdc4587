"""Collecting demonstrations: the expert plays, shard by shard, in as many processes as wanted.

A shard is collected whole by one worker from its own fixed environment seeds, so the bytes depend on the data set's
seed alone and never on the number of workers. A shard counts once it is in the manifest: a killed collection goes on
from there.
"""

import os
import signal
import threading
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import Pipe, get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from attentiontuner.cores import ctrl_c_is_not_inherited, usable_cores
from attentiontuner.demos import Demonstration, DemoStore, DemoWriter, PairArray, as_pairs
from attentiontuner.demos.annotations import FOLDER as ANNOTATIONS
from attentiontuner.demos.manifest import FILE as MANIFEST
from attentiontuner.demos.manifest import LOCK, SHARDS, Manifest, ShardEntry
from attentiontuner.demos.writer import COLLECT_LOCK, write_shard_files
from attentiontuner.errors import UserError, where_and_what
from attentiontuner.experts.base import EXPERT_ANNOTATOR, checked
from attentiontuner.files import locked
from attentiontuner.progress import progress
from attentiontuner.seeds import demonstration_seed
from attentiontuner.tasks import Task, why_it_cannot_travel
from attentiontuner.wording import counted

ATTEMPTS_PER_EPISODE = 2
"""An expert that may fail gets this many attempts per wanted episode of a shard."""

RESETS_COMPARED = 6
"""Resets with one seed whose first observations must be alike: a task may have only two of them."""


@dataclass(frozen=True)
class Episode:
    """One recorded episode and the pairs of every annotator the expert spoke for."""

    demonstration: Demonstration
    pairs: Mapping[str, PairArray]


def record_episode(task: Task, env: gym.Env[Any, Any], seed: int) -> Episode:
    """Let the task's expert play the episode of environment seed `seed` to its end.

    What the environment or the expert raises is a `UserError` that says at which step and where in their code.
    """
    observations: list[Any] = []
    actions: list[int] = []
    rewards: list[float] = []
    recalled: dict[str, list[tuple[int, int]]] = {EXPERT_ANNOTATOR: []}
    terminated = truncated = False
    try:
        observation, info = env.reset(seed=seed)
        expert = task.make_expert(env)
        while not (terminated or truncated):
            step = len(actions)
            if step >= task.max_steps:
                raise UserError(
                    f"no end within the horizon of {counted(task.max_steps, 'step')}; "
                    "raise the task's horizon, or make it a function of the settings"
                )
            seen = task.seen(observation)
            decision = checked(expert.decide(seen), step, len(task.actions))
            for annotator, steps in {EXPERT_ANNOTATOR: decision.recalled, **decision.also}.items():
                recalled.setdefault(annotator, []).extend((int(p), step) for p in steps)
            observations.append(seen.copy())
            observation, reward, terminated, truncated, info = env.step(decision.action)
            actions.append(int(decision.action))
            rewards.append(float(reward))
        success = task.solved(rewards[-1], bool(terminated), info)
    except Exception as error:
        place = f"task {task.name!r}, seed {seed}, step {len(actions)}"
        problem = str(error) if isinstance(error, UserError) else where_and_what(error)
        raise UserError(f"{place}: {problem}") from error
    if not success and task.every_attempt_succeeds:
        ending = f"it ended after {counted(len(actions), 'step')} with reward {rewards[-1]:g}"
        if not {"success", "is_success"} & set(info):
            ending += ", and info says nothing of 'success'"
        raise UserError(
            f"task {task.name!r}, seed {seed}: the expert failed ({ending}): mend the expert, say what success is "
            "(info['success'] or Task(success=...)), or let it fail (Task(every_attempt_succeeds=False))"
        )
    demonstration = Demonstration(
        observations=np.stack(observations),
        actions=np.array(actions, np.int64),
        rewards=np.array(rewards, np.float32),
        terminated=bool(terminated),
        truncated=bool(truncated),
        seed=seed,
        success=success,
    )
    length = len(demonstration)
    return Episode(demonstration, {name: as_pairs(rows, length, f"of seed {seed}") for name, rows in recalled.items()})


def record_shard(task: Task, seed: int, index: int, episodes: int, shard_episodes: int) -> list[Episode]:
    """The `episodes` demonstrations of shard `index`: its attempts in order, only successes kept."""
    attempts = ATTEMPTS_PER_EPISODE * shard_episodes
    kept: list[Episode] = []
    env = task.make_env()
    try:
        for attempt in range(index * attempts, (index + 1) * attempts):
            episode = record_episode(task, env, demonstration_seed(seed, attempt))
            if episode.demonstration.success:
                kept.append(replace(episode, demonstration=replace(episode.demonstration, episode=len(kept))))
            if len(kept) == episodes:
                return kept
    finally:
        env.close()
    raise UserError(f"task {task.name!r}: the expert solved only {len(kept)} of {attempts} attempts of shard {index}")


def collect_shard(root: Path, manifest: Manifest, task: Task, index: int) -> ShardEntry:
    """Record shard `index` and write its files."""
    size = manifest.shard_episodes
    first = index * size
    episodes = record_shard(task, manifest.seed or 0, index, min(size, manifest.episodes - first), size)
    annotators = dict.fromkeys(name for episode in episodes for name in episode.pairs)
    pairs = {name: [episode.pairs.get(name) for episode in episodes] for name in annotators}
    return write_shard_files(root, manifest, index, first, [episode.demonstration for episode in episodes], pairs)


def collect(
    task: Task,
    episodes: int,
    seed: int,
    out: Path | str,
    workers: int | None = None,
    shard_episodes: int | None = None,
) -> DemoStore:
    """Record `episodes` demonstrations of `task` into the folder `out` and open it.

    A folder that holds some of them already is completed; one whose shards are full is extended.
    """
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: give at least 1")
    if workers is not None and workers < 1:
        raise UserError(f"--workers {workers}: give at least 1")
    if shard_episodes is not None and shard_episodes < 1:
        raise UserError(f"--shard-episodes {shard_episodes}: give at least 1")
    demonstration_seed(seed, 0)  # an impossible seed is refused before anything is written
    _check_environment(task, demonstration_seed(seed, 0))  # so is a task that does not fit its environment
    writer = DemoWriter(
        out,
        task=task.name,
        settings=task.settings,
        observation=task.observation,
        action_names=task.actions,
        seed=seed,
        shard_episodes=shard_episodes,
    )
    with locked(writer.path / COLLECT_LOCK, wait=False):
        _remove_leftovers(writer.path)
        _plan(writer, episodes)
        size, finished = writer.manifest.shard_episodes, writer.finished_shards()
        missing = [index for index in range(-(-episodes // size)) if index not in finished]
        done = sum(shard.episodes for shard in finished.values())
        with progress(f"collect {task.name}", total=episodes) as bar:
            bar.advance(done)
            with closing(_collect_missing(writer, task, missing, workers)) as entries:
                for entry in entries:
                    writer.register(entry)
                    bar.advance(entry.episodes)
    return DemoStore.open(writer.path)


def _check_environment(task: Task, seed: int) -> None:
    """The first look at a task: its settings, its actions, whether a seed fixes the episode, and its expert."""
    env = task.make_env()
    try:
        actions, known = env.action_space, len(task.actions)
        if not isinstance(actions, gym.spaces.Discrete) or actions.n != known or actions.start != 0:
            raise UserError(
                f"task {task.name!r} names {counted(known, 'action')}, its environment has {actions}: it must be "
                f"Discrete({known})"
            )
        first, *others = (task.seen(env.reset(seed=seed)[0]) for _ in range(RESETS_COMPARED))
        if not all(np.array_equal(first, other) for other in others):
            raise UserError(
                f"task {task.name!r}: reset(seed={seed}) gives another observation each time; its environment must "
                "draw from self.np_random, after super().reset(seed=seed)"
            )
        task.make_expert(env)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"task {task.name!r}, seed {seed}: {where_and_what(error)}") from error
    finally:
        env.close()


def _plan(writer: DemoWriter, episodes: int) -> None:
    """Set how many episodes the data set shall hold, if that agrees with what is there."""
    size, path = writer.manifest.shard_episodes, writer.path
    there = counted(writer.manifest.episodes, "episode")
    if episodes < writer.manifest.episodes:
        raise UserError(f"{path} is a data set of {there}: ask for as many, or give another folder")
    for shard in writer.manifest.shards:
        if shard.first != shard.index * size or (shard.episodes != size and shard.end != episodes):
            raise UserError(
                f"{path} holds {there} and its shard {shard.index} is not full "
                f"({shard.episodes} of {size}), so it cannot be extended: give another folder"
            )
    writer.set_episodes(episodes)


def _remove_leftovers(root: Path) -> None:
    """Half-written temporary files of a killed process; the locks say that nobody else is writing one now."""
    with locked(root / LOCK):
        for pattern in (f".{MANIFEST}.*", f"{SHARDS}/.*", f"{ANNOTATIONS}/*/.*"):
            for path in root.glob(pattern):
                path.unlink(missing_ok=True)


def _collect_missing(
    writer: DemoWriter, task: Task, missing: list[int], workers: int | None
) -> Generator[ShardEntry, None, None]:
    processes = min(len(missing), workers or usable_cores())
    if processes <= 1:
        for index in missing:
            yield collect_shard(writer.path, writer.manifest, task, index)
        return
    if problem := why_it_cannot_travel(task):
        raise UserError(f"{problem}, or use --workers 1")
    with _pool(processes) as pool:
        with ctrl_c_is_not_inherited():
            jobs = [pool.submit(collect_shard, writer.path, writer.manifest, task, index) for index in missing]
        try:
            for job in as_completed(jobs):
                yield job.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a worker process died (out of memory, or killed): finished shards are kept; "
                "the same command goes on from there, with fewer --workers if memory is short"
            ) from error


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes. Stopped by Ctrl-C, SIGTERM or an error, they leave at once; a half-made shard is lost.

    The way out cannot be interrupted: that would leave workers, and with them this process, waiting for ever.
    """
    lifeline, hold = Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(lifeline,)
    )
    try:
        with _handled(signal.SIGTERM, _leave):
            yield pool
    except BaseException:
        hold.close()
        raise
    finally:
        with _handled(signal.SIGINT, signal.SIG_IGN), _handled(signal.SIGTERM, signal.SIG_IGN):
            pool.shutdown(wait=True, cancel_futures=True)
        hold.close()
        lifeline.close()


@contextmanager
def _handled(number: signal.Signals, handler: Any) -> Iterator[None]:
    """`handler` in place of the present one; outside the main thread, where Python has no signals, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _leave(number: int, frame: Any) -> NoReturn:
    """Clean up, then end as a shell expects of a process that this signal ended."""
    raise SystemExit(128 + number)


def _start_worker(lifeline: Connection) -> None:
    """Leave Ctrl-C to the parent, and end when it closes its end of `lifeline`, or when it dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()


def _end_with_parent(lifeline: Connection) -> None:
    parent = parent_process()
    assert parent is not None
    wait([lifeline, parent.sentinel])
    os._exit(1)
