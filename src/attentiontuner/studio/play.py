"""The episode a person is playing, one step at a time, and the data set it is saved to."""

import base64
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_END, EVALUATION_START, demonstration_seed
from attentiontuner.core.wording import counted
from attentiontuner.demos import Demonstration
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.spaces.observation import ObservationSpec
from attentiontuner.studio.sprites import PLAY_PIXELS, large_frame
from attentiontuner.studio.times import check_seconds, record_playing
from attentiontuner.tasks.task import Task

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
        self.saved: list[int] = self._stored_seeds()
        self._restart(self._coming()[0])

    def state(self) -> dict[str, Any]:
        """What the page shows: the present frame and how the episode stands. Nothing the agent does not see."""
        with self._lock:
            return self._state()

    def start(self, seed: int | None = None) -> dict[str, Any]:
        """Begin an episode: with `seed`, or with the next one that is not saved yet. What was played is discarded."""
        with self._lock:
            self._restart(self._coming()[0] if seed is None else check_seed(seed))
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
            taken = self.task.actions.one(playable[action][1])
            observation, reward, terminated, truncated, info = self._env.step(taken)
            episode.actions.append(taken)
            episode.played.append(action)
            episode.rewards.append(float(reward))
            episode.frames.append(self.task.seen(observation))
            at_the_end = not terminated and len(episode.actions) >= self.task.max_steps  # nothing learns from more
            episode.terminated, episode.truncated = bool(terminated), bool(truncated) or at_the_end
            end = (float(reward), episode.terminated, info)
            episode.success = episode.ended and self.task.solved(*end, sum(episode.rewards), len(episode.rewards))
            return self._state()

    def discard(self) -> dict[str, Any]:
        """Undo the whole episode: back to its first frame, with the same seed."""
        with self._lock:
            self._restart(self._episode.seed)
            return self._state()

    def save(self, seconds: float) -> int:
        """Write the ended episode to the data set and begin the next; the number it got."""
        check_seconds(seconds)
        with self._lock:
            if not self._episode.ended:
                raise UserError("the episode is not over yet: only whole episodes are saved")
            (number,) = self._writer.append([self._episode.demonstration(self.task.observation)])
            # From here on the episode is in the data set: whatever fails below, it must not be saved again.
            self.saved.append(self._episode.seed)
            self._restart(self._coming()[0])
            record_playing(self.root, number, self.name, seconds)
            return number

    def close(self) -> None:
        with self._lock:
            self._env.close()

    def _restart(self, seed: int) -> None:
        observation, _ = self._env.reset(seed=seed)
        self._episode = PlayedEpisode(seed, [self.task.seen(observation)])

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

    def _stored_seeds(self) -> list[int]:
        if not (self.root / "manifest.json").exists():
            return []
        store = DemoStore.open(self.root)
        return [store[episode].seed for episode in range(len(store))]

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
            "savedSeeds": self.saved[-SEEDS_AHEAD:],
            "saved": len(self.saved),
            "comingSeeds": self._coming(),
            "frame": "data:image/png;base64," + base64.b64encode(frame).decode(),
        }


def check_seed(seed: int) -> int:
    """An environment seed of demonstrations: none of those that belong to evaluation."""
    if seed < 0 or EVALUATION_START <= seed < EVALUATION_END:
        raise UserError(
            f"seed {seed} is out of range: demonstrations use 0 to {EVALUATION_START - 1}, and from {EVALUATION_END} on"
        )
    return seed
