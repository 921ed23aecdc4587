"""The episode a person is playing, one step at a time, and the data set it is saved to."""

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_END, EVALUATION_START, SEEDS_PER_BLOCK, demonstration_seed
from attentiontuner.core.wording import counted
from attentiontuner.demos import Demonstration
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.spaces.observation import ObservationSpec
from attentiontuner.studio.journal import Journal
from attentiontuner.studio.sprites import PLAY_PIXELS, large_frame
from attentiontuner.studio.times import check_seconds, record_playing
from attentiontuner.tasks.task import Task
from attentiontuner.viz.page import data_url

SEEDS_AHEAD = 8
"""How many coming seeds the page lists."""


class OutOfStep(UserError):
    """The page and the episode disagree about how many steps were made; the page should look again."""


@dataclass
class PlayedEpisode:
    """What was played since the last reset: the frames seen (one more than actions), the actions, which of those that
    can be played they are, and how it ended."""

    seed: int
    frames: list[Any]
    actions: list[Any] = field(default_factory=list)
    played: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    success: bool = False

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated

    def demonstration(self, observation: ObservationSpec) -> Demonstration:
        return Demonstration(
            observations=observation.stack(self.frames[: len(self.actions)]),
            actions=np.array(self.actions),
            rewards=np.array(self.rewards, np.float32),
            terminated=self.terminated,
            truncated=self.truncated,
            seed=self.seed,
            success=self.success,
        )


class Player:
    """One person at one environment. An episode is in the data set only after `save`; until then `discard` undoes it.

    What is being played is in a journal from its first step on: a studio that was killed goes on with it.

    Args:
        root: data set folder; one that is not there is made at once, so that a wrong one is told before anybody plays.
        task: what is played.
        name: under which the playing time is recorded.
        seed: the data set seed whose environment seeds are played in order.
        seeds: environment seeds to play instead, in order.
    """

    def __init__(self, root: Path, task: Task, name: str, seed: int = 0, seeds: Sequence[int] = ()) -> None:
        if not task.playable:
            raise UserError(
                f"task {task.name!r} takes {task.actions}: a key for each is played, so name some in Task(moves=...)"
            )
        self.root, self.task, self.name = root, task, name
        self._seed, self._listed = seed, [check_seed(number) for number in seeds]
        self._lock = threading.Lock()
        self._env: gym.Env[Any, Any] = task.make_env()
        self._writer = DemoWriter(
            root,
            task=task.name,
            settings=dict(task.settings),
            observation=task.observation,
            actions=task.actions,
            seed=None,
        )
        self.saved = [demonstration.seed for demonstration in DemoStore.open(root)]
        self._last: tuple[int, int, int] | None = None  # seed, steps and number of the episode saved last
        self._journal = Journal(root, name, task.name, dict(task.settings))
        self._resumed = self._resume()
        if not self._resumed:
            self._restart(self._coming()[0])

    def state(self) -> dict[str, Any]:
        """What the page shows: the present frame and how the episode stands. Nothing the agent does not see."""
        with self._lock:
            return self._state()

    def start(self, seed: int | None = None) -> dict[str, Any]:
        """Begin an episode: with `seed`, or with the next one that is not saved yet. What was played is discarded."""
        with self._lock:
            self._restart(self._following() if seed is None else check_seed(seed))
            return self._state()

    def step(self, action: int, made: int) -> dict[str, Any]:
        """Take an action of the task's `playable`, if the page knows that `made` steps were made before it."""
        with self._lock:
            episode = self._episode
            if made != len(episode.actions):
                steps = counted(len(episode.actions), "step")
                raise OutOfStep(f"{steps} made so far, not {made}: look again before the next one")
            if episode.ended:
                raise OutOfStep("the episode is over: save it or start another")
            playable = self.task.playable
            if not 0 <= action < len(playable):
                there = counted(len(playable), "action")
                raise UserError(f"action {action}, but there are only {there}, counted from 0")
            self._journal.add(action)
            self._resumed = False
            self._take(action)
            return self._state()

    def _take(self, action: int) -> None:
        """One step of the environment."""
        episode = self._episode
        taken = self.task.actions.one(self.task.playable[action][1])
        observation, reward, terminated, truncated, info = self._env.step(taken)
        episode.actions.append(taken)
        episode.played.append(action)
        episode.rewards.append(float(reward))
        episode.frames.append(self.task.seen(observation))
        at_the_end = not terminated and len(episode.actions) >= self.task.max_steps  # nothing learns from more
        episode.terminated, episode.truncated = bool(terminated), bool(truncated) or at_the_end
        end = (float(reward), episode.terminated, info)
        episode.success = episode.ended and self.task.solved(*end, sum(episode.rewards), len(episode.rewards))

    def discard(self) -> dict[str, Any]:
        """Undo the whole episode: back to its first frame, with the same seed."""
        with self._lock:
            self._restart(self._episode.seed)
            return self._state()

    def save(self, seconds: float, which: tuple[int, int] | None = None) -> int:
        """Write the ended episode to the data set and begin the next; the number it got.

        `which` names it by seed and steps: the one that was saved last is not saved again, nor another in its place.
        """
        check_seconds(seconds)
        with self._lock:
            episode = self._episode
            if which is not None and which != (episode.seed, len(episode.actions)):
                if self._last is not None and which == self._last[:2]:
                    return self._last[2]
                raise OutOfStep("this is another episode by now: look again before it is saved")
            if not episode.ended:
                raise UserError("the episode is not over yet: only whole episodes are saved")
            (number,) = self._writer.append([episode.demonstration(self.task.observation)])
            # From here on the episode is in the data set: whatever fails below, it must not be saved again.
            self.saved.append(episode.seed)
            self._last = episode.seed, len(episode.actions), number
            self._restart(self._following())
            record_playing(self.root, number, self.name, seconds)
            return number

    def close(self) -> None:
        with self._lock:
            self._env.close()
            self._journal.close()

    def _restart(self, seed: int) -> None:
        self._journal.start(seed)
        self._reset(seed)
        self._resumed = False

    def _reset(self, seed: int) -> None:
        observation, _ = self._env.reset(seed=seed)
        self._episode = PlayedEpisode(seed, [self.task.seen(observation)])

    def _resume(self) -> bool:
        """Play again what was under way when a studio was killed; whether there was anything."""
        underway = self._journal.read()
        if underway is None or not underway.played or not set(underway.played) <= set(range(len(self.task.playable))):
            return False
        self._reset(check_seed(underway.seed))
        for action in underway.played:
            if not self._episode.ended:
                self._take(action)
        return not self._is_stored()

    def _is_stored(self) -> bool:
        """Whether the episode is the data set's last: it was saved, and the studio killed before the next began."""
        if not self.saved or self.saved[-1] != self._episode.seed:
            return False
        stored = DemoStore.open(self.root)[-1].actions
        return np.array_equal(stored, np.array(self._episode.actions))

    def _following(self) -> int:
        """The seed after the present one, of those that are not saved; after the last listed one the first again."""
        saved, now = set(self.saved), self._episode.seed
        if self._listed:
            place = self._listed.index(now) + 1 if now in self._listed else 0
            around = [*self._listed[place:], *self._listed[:place]]
            return next((seed for seed in around if seed not in saved), around[0])
        first = demonstration_seed(self._seed, 0)
        if not first <= now < demonstration_seed(self._seed, SEEDS_PER_BLOCK - 1):
            return self._coming()[0]
        return next(seed for seed in itertools.count(now + 1) if seed not in saved)

    def _coming(self) -> list[int]:
        """The next seeds that are not saved yet, the nearest first; the first listed one again when all are played."""
        saved = set(self.saved)
        if self._listed:
            return [seed for seed in self._listed if seed not in saved][:SEEDS_AHEAD] or self._listed[:1]
        coming: list[int] = []
        index = 0
        while len(coming) < SEEDS_AHEAD:
            candidate = demonstration_seed(self._seed, index)
            if candidate not in saved:
                coming.append(candidate)
            index += 1
        return coming

    def _state(self) -> dict[str, Any]:
        episode = self._episode
        frame = large_frame(self.task.observation, episode.frames[-1], PLAY_PIXELS)
        return {
            "seed": episode.seed,
            "step": len(episode.actions),
            "maxSteps": self.task.max_steps,
            "lastAction": self.task.playable[episode.played[-1]][0] if episode.played else None,
            "ended": episode.ended,
            "success": episode.success,
            "resumed": self._resumed,
            "savedSeeds": self.saved[-SEEDS_AHEAD:],
            "saved": len(self.saved),
            "comingSeeds": self._coming(),
            "frame": data_url("image/png", frame),
        }


def check_seed(seed: int) -> int:
    """An environment seed of demonstrations: none of those that belong to evaluation."""
    if seed < 0 or EVALUATION_START <= seed < EVALUATION_END:
        raise UserError(
            f"seed {seed} is out of range: demonstrations use 0 to {EVALUATION_START - 1}, and from {EVALUATION_END} on"
        )
    return seed
