"""Collecting demonstrations: the expert plays, shard by shard, in as many processes as wanted.

A shard is collected whole by one worker from its own fixed environment seeds, so the bytes depend on the data set's
seed alone and never on the number of workers. A shard counts once it is in the manifest: a killed collection goes on
from there.
"""

import signal
import sys
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from attentiontuner.collecting.episode import Episode, record_episode
from attentiontuner.core.errors import UserError, at_least, where_and_what
from attentiontuner.core.files import locked
from attentiontuner.core.processes import Crew, WorkerDied, usable_cores
from attentiontuner.core.progress import progress
from attentiontuner.core.seeds import SEEDS_PER_BLOCK, demonstration_seed
from attentiontuner.core.signals import handled, leave
from attentiontuner.core.wording import counted
from attentiontuner.demos import DemoStore, DemoWriter
from attentiontuner.demos.annotations import FOLDER as ANNOTATIONS
from attentiontuner.demos.annotations import LOST, lost_annotations
from attentiontuner.demos.store.manifest import FILE as MANIFEST
from attentiontuner.demos.store.manifest import LOCK, SHARDS, Manifest, ShardEntry
from attentiontuner.demos.store.writer import COLLECT_LOCK, write_shard_files
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.tasks.task import Task, why_it_cannot_travel

ATTEMPTS_PER_EPISODE = 2
"""An expert that may fail gets this many attempts per wanted episode of a shard."""

MOST_EPISODES = SEEDS_PER_BLOCK // ATTEMPTS_PER_EPISODE

RESETS_COMPARED = 6
"""Resets with one seed whose first observations must be alike: a task may have only two of them."""


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
    demonstrations = [episode.demonstration for episode in episodes]
    return write_shard_files(root, manifest, index, first, demonstrations, pairs, keep=True)


def collect(
    task: Task | str,
    episodes: int,
    seed: int,
    out: Path | str,
    workers: int | None = None,
    shard_episodes: int | None = None,
) -> DemoStore:
    """Record `episodes` demonstrations of `task`, or of the task of that name, into the folder `out` and open it.

    A folder that holds some of them already is completed; one whose shards are full is extended.
    """
    task = Task.of(task)
    at_least("--episodes", episodes)
    if episodes > MOST_EPISODES:
        raise UserError(
            f"--episodes {episodes}: one seed has {MOST_EPISODES:,} at most; collect more with another --seed"
        )
    at_least("--workers", workers)
    at_least("--shard-episodes", shard_episodes)
    demonstration_seed(seed, 0)  # an impossible seed is refused before anything is written
    _check_environment(task, demonstration_seed(seed, 0))  # so is a task that does not fit its environment
    writer = DemoWriter(
        out,
        task=task.name,
        settings=task.settings,
        observation=task.observation,
        actions=task.actions,
        seed=seed,
        shard_episodes=shard_episodes,
        longest=task.max_steps,
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
    for path in lost_annotations(writer.path):  # not the expert's: those are made by now
        print(f"attentiontuner: {path} is {LOST}", file=sys.stderr)
    return DemoStore.open(writer.path)


def _check_environment(task: Task, seed: int) -> None:
    """The first look at a task: its settings, its actions, whether a seed fixes the episode, and its expert."""
    env = task.make_env()
    try:
        if ActionSpec.from_space(env.action_space) != task.actions:
            raise UserError(f"task {task.name!r} promises {task.actions}, its environment has {env.action_space}")
        resets = task.observation.stack([task.seen(env.reset(seed=seed)[0]) for _ in range(RESETS_COMPARED)])
        seen = task.observation.encode(resets)
        if (seen != seen[0]).any():
            raise UserError(
                f"task {task.name!r}: reset(seed={seed}) gives another observation each time; its environment must "
                "draw from self.np_random, after super().reset(seed=seed)"
            )
        task.make_expert(env)
    except Exception as error:
        if isinstance(error, UserError) and task.name in str(error):
            raise
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
    """The shards as they are finished. Stopped in whatever way, the processes leave; a half-made shard is lost."""
    processes = min(len(missing), workers or usable_cores())
    problem = why_it_cannot_travel(task) if processes > 1 else ""
    if problem and workers is not None:
        raise UserError(f"{problem}, or use --workers 1")
    if processes <= 1 or problem:
        for index in missing:
            yield collect_shard(writer.path, writer.manifest, task, index)
        return
    work = partial(collect_shard, writer.path, writer.manifest, task)
    with handled(leave, signal.SIGTERM), Crew(work, processes) as crew:
        for answers in crew.answers(iter(missing)):
            for answer in answers:
                if isinstance(answer.result, WorkerDied):
                    raise UserError(
                        f"{answer.result}: finished shards are kept; "
                        "the same command goes on from there, with fewer --workers if memory is short"
                    )
                if isinstance(answer.result, Exception):
                    raise answer.result
                yield answer.result
