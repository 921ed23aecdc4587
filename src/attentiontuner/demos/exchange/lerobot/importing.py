"""A LeRobot data set becomes one of ours: episode by episode, every frame decoded once, equal frames stored once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import new_folder, write_json
from attentiontuner.core.progress import progress
from attentiontuner.core.success import SuccessRule, recorded_success, with_totals
from attentiontuner.demos.annotations import Annotation, write_shard_annotations
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.exchange.lerobot.columns import images, numbers, tables
from attentiontuner.demos.exchange.lerobot.features import (
    ACTION,
    CAME,
    DONE,
    EVENTS,
    OUTCOMES,
    REWARD,
    SUCCESS,
    TRUNCATED,
    Plan,
    Source,
    came_with,
    plan_of,
)
from attentiontuner.demos.exchange.lerobot.layout import Episode, Layout, StepError, read_episodes, read_layout
from attentiontuner.demos.exchange.lerobot.recall_events import annotations_of
from attentiontuner.demos.exchange.lerobot.videos import VideoReader
from attentiontuner.demos.store.reader import DemoStore
from attentiontuner.demos.store.writer import DemoWriter
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import SpaceError

SHARD_BYTES = 2**28
"""A shard is written when its observations come to so many bytes, if not before."""

Annotations = Mapping[str, Annotation]


def from_lerobot(
    source: Path | str,
    path: Path | str,
    *,
    task: str | None = None,
    actions: ActionSpec | None = None,
    success: SuccessRule | None = None,
    annotator: str = "lerobot",
) -> DemoStore:
    """Write the LeRobot data set (version 3) in the folder `source` to the new folder `path`, and open it.

    What `to_lerobot` wrote says itself what it is. Any other is called as its folder, unless `task` is given; `actions`
    are a box without bounds, or whole numbers up to the highest, unless given. Which episodes were solved says
    `success`; without it `next.success`, else the rewards; where there are neither, all were. Recall events are the
    pairs of who made them, and of `annotator` where they do not say. `path` appears when everything is in it.
    """
    layout = read_layout(Path(source))
    plan = plan_of(layout, actions)
    episodes, ours = read_episodes(layout), layout.ours or {}
    with new_folder(Path(path)) as folder, progress("from LeRobot", len(episodes)) as bar:
        writer = DemoWriter(
            folder,
            task=task or str(ours.get("task") or layout.root.resolve().name),
            settings=ours.get("settings") or {},
            observation=plan.observation,
            actions=plan.actions,
            seed=ours.get("seed"),
        )
        waiting: list[tuple[Demonstration, Annotations]] = []
        for made in _Reader(layout, plan, success, annotator).read(episodes):
            waiting.append(made)
            steps = sum(len(demonstration) for demonstration, _ in waiting)
            full = steps * plan.observation.nbytes >= SHARD_BYTES
            if full or len(waiting) == writer.manifest.shard_episodes:
                _append(writer, waiting)
                waiting = []
            bar.advance()
        _append(writer, waiting)
        write_json(folder / CAME, came_with(layout))
    return DemoStore.open(path)


def _append(writer: DemoWriter, made: Sequence[tuple[Demonstration, Annotations]]) -> None:
    episodes = writer.append(demonstration for demonstration, _ in made)
    by_name: dict[str, dict[int, Annotation]] = {}
    for episode, (_, annotations) in zip(episodes, made, strict=True):
        for name, annotation in annotations.items():
            by_name.setdefault(name, {})[episode] = annotation
    for name, lines in by_name.items():
        write_shard_annotations(writer.path, name, writer.manifest.shards[-1].index, lines)


class _Reader:
    """Reads the episodes of one data set; the videos that it is in the middle of stay open."""

    def __init__(self, layout: Layout, plan: Plan, success: SuccessRule | None, annotator: str) -> None:
        self._layout, self._plan, self._success, self._annotator = layout, plan, success, annotator
        self._videos: dict[str, VideoReader] = {}

    def read(self, episodes: Sequence[Episode]) -> Iterator[tuple[Demonstration, Annotations]]:
        """Every episode with what its annotators say."""
        stored = [source.feature for source in self._plan.sources if source.storage != "video"]
        needed = list(dict.fromkeys(["episode_index", "frame_index", "timestamp", ACTION, *stored]))
        try:
            for path, group in groupby(episodes, key=lambda episode: episode.data):
                of_file = list(group)
                for episode, table in zip(of_file, tables(path, of_file, needed, (*OUTCOMES, EVENTS)), strict=True):
                    yield self._episode(episode, table)
        finally:
            for video in self._videos.values():
                video.close()

    def _episode(self, episode: Episode, table: Any) -> tuple[Demonstration, Annotations]:
        where, path = f"episode {episode.index}, step", episode.data
        try:
            name = "timestamp"
            times = self._times(table)
            seen: dict[str, NDArray[Any]] = {}
            for source in self._plan.sources:
                name = source.feature
                path = episode.clips[name].path if source.storage == "video" else episode.data
                seen[source.part] = self._observed(source, episode, table, times)
            name, path = ACTION, episode.data
            acted = self._acted(table)
            name = REWARD
            outcome = self._outcome(episode, table)
            name = EVENTS
            events = table[EVENTS].to_pylist() if EVENTS in table.column_names else []
            annotations = annotations_of(events, self._annotator)
        except StepError as error:
            raise UserError(f"{path}, {where} {error.step}: {name}: {error.problem}") from error
        except SpaceError as error:
            raise UserError(f"{path}, {where} {error.row}: {name}: {error.problem}") from error
        observations = seen[""] if self._plan.observation.plain else seen
        return Demonstration(observations, acted, episode=episode.index, **outcome), annotations

    def _times(self, table: Any) -> NDArray[np.float64]:
        """`[T]` seconds since the episode's first frame; steps that are not one after the other are refused."""
        order, times = numbers(table["frame_index"], (1,)), numbers(table["timestamp"], (1,)).astype(np.float64)
        steps = np.arange(len(order))
        if (order != steps).any():
            step = int(np.argmax(order != steps))
            raise StepError(f"frame_index is {order[step]}: a step is missing or out of order", step)
        fps = self._layout.fps
        off = ~(np.abs(times - steps / fps) <= 0.25 / fps)
        if off.any():
            step = int(np.argmax(off))
            said = f"{times[step]:.4f} s, where fps {fps:g} makes it {step / fps:.4f} s"
            raise StepError(f"{said}: meta/info.json and the recorded times disagree", step)
        return times

    def _observed(self, source: Source, episode: Episode, table: Any, times: NDArray[np.float64]) -> NDArray[Any]:
        """`[T, …]`, one part of the observations."""
        part = source.spec
        if source.storage in ("png", "video"):
            height, width, channels = source.upright_shape
            if source.storage == "png":
                frames = images(table[source.feature], height, width, channels)
            else:
                clip = episode.clips[source.feature]
                frames = self._video(source.feature, clip.path).read((clip.start + times).tolist(), height, width)
            return frames if part.upright else frames.swapaxes(1, 2)
        if source.storage == "task":
            return part.decode(part.encode(numbers(table[source.feature], (1,))[:, None]))
        values = numbers(table[source.feature], self._layout.features[source.feature].shape)
        return part.decode(part.encode(values.reshape(len(values), *part.shape)))

    def _video(self, camera: str, path: Path) -> VideoReader:
        present = self._videos.get(camera)
        if present is None or present.path != path:
            if present is not None:
                present.close()
            self._videos[camera] = VideoReader(path, self._layout.fps)
        return self._videos[camera]

    def _acted(self, table: Any) -> NDArray[Any]:
        spec = self._plan.actions
        acted = numbers(table[ACTION], self._layout.features[ACTION].shape)
        finite = np.isfinite(acted.reshape(len(acted), -1)).all(1)
        if not finite.all():
            raise StepError("a number that is not finite (NaN or infinite)", int(np.argmin(finite)))
        return spec.encode(acted.reshape(len(acted), *spec.shape))

    def _outcome(self, episode: Episode, table: Any) -> dict[str, Any]:
        """Rewards, how it ended, seed and success."""
        said = {name: numbers(table[name], (1,)) for name in OUTCOMES if name in table.column_names}
        rewards = said.get(REWARD, np.zeros(len(table), np.float32)).astype(np.float32)
        if not np.isfinite(rewards).all():
            raise StepError("a number that is not finite (NaN or infinite)", int(np.argmin(np.isfinite(rewards))))
        truncated = bool(said[TRUNCATED][-1]) if TRUNCATED in said else False
        terminated = bool(said[DONE][-1]) if DONE in said else not truncated
        if self._success is not None:
            totals = with_totals({}, float(rewards.sum()), len(rewards))
            solved = bool(self._success(float(rewards[-1]), terminated, totals))
        elif SUCCESS in said:
            solved = bool(said[SUCCESS].any())
        elif episode.success is not None:
            solved = episode.success
        else:
            solved = not rewards.any() or recorded_success(rewards.tolist(), terminated, {})
        ends = {"terminated": terminated, "truncated": truncated, "success": solved}
        return {"rewards": rewards, "seed": episode.seed or 0, **ends}
