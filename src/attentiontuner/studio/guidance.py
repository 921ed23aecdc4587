"""What a person is told before the first click: the task's instructions, with a pair in pictures."""

import threading
from dataclasses import dataclass
from typing import Any

from attentiontuner.core.errors import UserError
from attentiontuner.core.seeds import EVALUATION_START
from attentiontuner.demos.annotations import annotators, read_shard_annotations
from attentiontuner.demos.store.reader import EXPERT
from attentiontuner.experts.expert import checked
from attentiontuner.spaces.observation import ObservationSpec
from attentiontuner.studio.desk import Desk, Missing
from attentiontuner.studio.sprites import large_frame
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import Task, all_tasks
from attentiontuner.viz.pictures import at_steps


@dataclass(frozen=True)
class Example:
    """Two moments of one demonstration as PNGs, of which the second recalls the first."""

    p: int
    q: int
    pictures: tuple[bytes, bytes]


class Guidance:
    """The instructions of one desk's task. Pictures are drawn when they are first asked for.

    Args:
        desk: the data set.
        task: what is played, where there may be no data set yet; None: the data set's.
        labels: whether the expert's labels may be shown; else an example is one that is in no data set.
    """

    def __init__(self, desk: Desk, task: Task | None = None, labels: bool = True) -> None:
        self._desk, self._task, self._labels = desk, task, labels
        self._lock = threading.Lock()
        self._example: Example | None = None
        self._expert_asked = False

    def as_json(self) -> dict[str, Any]:
        """Texts, and at which steps the pictures are."""
        task = self._known_task()
        texts = Instructions.of(task.instructions if task else None)
        example = self._drawn()
        return {
            "task": task.name if task else self._desk.store.task,
            "title": task.title if task else self._desk.store.task,
            "goal": texts.goal,
            "p": texts.p,
            "q": texts.q,
            "advice": texts.advice,
            "example": {"p": example.p, "q": example.q} if example else None,
        }

    def picture(self, end: str) -> bytes:
        """The picture at `p` or at `q`."""
        example = self._drawn()
        if example is None or end not in ("p", "q"):
            raise Missing("there is no such picture")
        return example.pictures[end == "q"]

    def _known_task(self) -> Task | None:
        if self._task is not None:
            return self._task
        task = all_tasks().get(self._desk.store.task)
        return task.with_settings(self._desk.store.settings) if task else None

    def _drawn(self) -> Example | None:
        with self._lock:
            if self._example is None:
                self._example = self._of_labels([EXPERT]) or self._of_expert() or self._of_labels(self._people())
            return self._example

    def _people(self) -> list[str]:
        """Who has annotated the data set, but the expert."""
        return [name for name in annotators(self._desk.root) if name != EXPERT] if self._desk.begun else []

    def _of_labels(self, names: list[str]) -> Example | None:
        """The last pair of the first demonstration in which the first of these recalled something."""
        if not self._labels or not self._desk.begun:
            return None
        for name in names:
            for shard in self._desk.store.manifest.readable_shards():
                pairs = read_shard_annotations(self._desk.root, name, shard).pairs.settled()
                if len(pairs):
                    last = pairs.select([int(pairs.episode[0])])
                    return self._shown(shard.first + int(pairs.episode[0]), int(last.p[-1]), int(last.q[-1]))
        return None

    def _of_expert(self) -> Example | None:
        """The last pair of an episode that the expert plays now, once; None where it cannot."""
        task, asked, self._expert_asked = self._known_task(), self._expert_asked, True
        if asked or task is None or task.expert is None or task.env_id is None or not task.installed:
            return None
        try:
            return _played(task)
        except UserError:
            return None

    def _shown(self, episode: int, p: int, q: int) -> Example:
        store, seen = self._desk.store, self._desk.demonstration(episode).observations
        first, second = (_picture(store.observation, at_steps(seen, step)) for step in (p, q))
        return Example(p, q, (first, second))


def _picture(spec: ObservationSpec, observation: Any) -> bytes:
    return large_frame(spec, observation, bars=False)


def _played(task: Task) -> Example | None:
    env = task.make_env()
    try:
        # An episode of evaluation: no demonstration is the same.
        observation, _ = env.reset(seed=EVALUATION_START)
        expert, ended = task.make_expert(env), False
        seen: list[Any] = []
        pair: tuple[int, int] | None = None
        while not ended and len(seen) < task.max_steps:
            seen.append(task.seen(observation))
            decision = checked(expert.decide(seen[-1]), len(seen) - 1, task.actions)
            if len(decision.recalled):
                pair = max(decision.recalled), len(seen) - 1
            observation, _, terminated, truncated, _ = env.step(decision.action)
            ended = bool(terminated or truncated)
    finally:
        env.close()
    if pair is None:
        return None
    p, q = pair
    return Example(int(p), q, (_picture(task.observation, seen[p]), _picture(task.observation, seen[q])))
