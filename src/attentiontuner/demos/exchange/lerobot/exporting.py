"""A data set of ours becomes one of LeRobot's: episode by episode, images losslessly as PNG or as videos."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import new_folder, write_json
from attentiontuner.core.progress import progress
from attentiontuner.demos.annotations import Annotation, read_shard_annotations
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.demos.exchange.lerobot import statistics
from attentiontuner.demos.exchange.lerobot.columns import column_of, pngs, schema_of
from attentiontuner.demos.exchange.lerobot.features import (
    ACTION,
    DONE,
    EVENTS,
    REWARD,
    SUCCESS,
    TASK_INDEX,
    TASK_PART,
    TRUNCATED,
    Source,
    described,
    read_came_with,
    written_parts,
)
from attentiontuner.demos.exchange.lerobot.layout import (
    DATA_MEGABYTES,
    DATA_PATH,
    FILES_IN_A_CHUNK,
    OURS,
    VIDEO_MEGABYTES,
    VIDEO_PATH,
    installed,
)
from attentiontuner.demos.exchange.lerobot.metadata import EpisodeTable, ParquetWriter, write_meta
from attentiontuner.demos.exchange.lerobot.recall_events import events_of
from attentiontuner.demos.exchange.lerobot.videos import VideoWriter
from attentiontuner.demos.store.reader import DemoStore

FPS = 10
Cameras = Literal["image", "video"]


def to_lerobot(
    store: DemoStore,
    path: Path | str,
    *,
    fps: float | None = None,
    cameras: Cameras = "image",
    pairs: bool = True,
) -> Path:
    """Write `store` as a LeRobot data set, version 3, in the new folder `path`, and return it.

    With `cameras="image"` nothing is lost; `"video"` makes small files, of images that are a little different. `fps` is
    that of the LeRobot data set it came from, else 10. The `pairs` of every annotator go along as recall events, which
    LeRobot reads from version 0.6 on. `path` appears when everything is in it.
    """
    if not len(store):
        raise UserError(f"{store.path} holds no episodes: there is nothing to write")
    with new_folder(Path(path)) as folder, progress("to LeRobot", len(store)) as bar:
        writer = _Writer(store, folder, fps, cameras, pairs)
        try:
            for shard in store.manifest.readable_shards():
                said = {name: read_shard_annotations(store.path, name, shard) for name in writer.annotators}
                for episode in range(shard.first, shard.end):
                    found = {name: lines.annotation(episode) for name, lines in said.items()}
                    writer.add(store[episode], {name: one for name, one in found.items() if one is not None})
                    bar.advance()
        finally:
            writer.close()
        writer.write_meta()
    return Path(path)


class _Growing(Protocol):
    def size(self) -> int: ...

    def close(self) -> None: ...


File = TypeVar("File", bound=_Growing)


class _Files(Generic[File]):
    """Files after each other, a new one begun between two episodes where one is large enough."""

    def __init__(self, make: Callable[[int, int], File], megabytes: float) -> None:
        self._make: Callable[[int, int], File] = make
        self._limit = megabytes * 2**20
        self.chunk, self.file = 0, 0
        self._present: File | None = None

    def next_episode(self) -> File:
        """The file that the next episode goes into."""
        if self._present is not None and self._present.size() >= self._limit:
            self.close()
            self.file += 1
            if self.file == FILES_IN_A_CHUNK:
                self.chunk, self.file = self.chunk + 1, 0
        if self._present is None:
            self._present = self._make(self.chunk, self.file)
        return self._present

    def close(self) -> None:
        if self._present is not None:
            self._present.close()
        self._present = None


class _Writer:
    """Writes the files of one data set."""

    def __init__(self, store: DemoStore, folder: Path, fps: float | None, cameras: Cameras, pairs: bool) -> None:
        self._store, self._folder = store, folder
        self._came = read_came_with(store.path)
        self._fps = float(self._came.get("fps") or FPS) if fps is None else float(fps)
        if not 0 < self._fps <= 1000:
            raise UserError(f"fps {self._fps:g}: give frames a second above 0, at most 1000")
        self.annotators = store.annotators() if pairs else []
        self._sources, self._tasks = _with_tasks(store, cameras, self._came)
        _refuse_odd_videos(self._sources)
        names = self._came.get("names", {})
        self._features = described(self._sources, store.actions, bool(self.annotators), names)
        self._data = _Files(self._data_maker(schema_of(self._features)), DATA_MEGABYTES)
        self._videos = {
            source.feature: _Files(self._video_maker(source), VIDEO_MEGABYTES)
            for source in self._sources
            if source.storage == "video"
        }
        self._episodes = EpisodeTable(folder)

    def _data_maker(self, schema: Any) -> Callable[[int, int], ParquetWriter]:
        def make(chunk: int, file: int) -> ParquetWriter:
            return ParquetWriter(self._folder / DATA_PATH.format(chunk_index=chunk, file_index=file), schema)

        return make

    def _video_maker(self, source: Source) -> Callable[[int, int], VideoWriter]:
        height, width, _ = source.upright_shape

        def make(chunk: int, file: int) -> VideoWriter:
            name = VIDEO_PATH.format(video_key=source.feature, chunk_index=chunk, file_index=file)
            return VideoWriter(self._folder / name, self._fps, height, width)

        return make

    def add(self, demonstration: Demonstration, annotations: Mapping[str, Annotation]) -> None:
        """Write one episode."""
        length = len(demonstration)
        columns: dict[str, Any] = {}
        row: dict[str, Any] = {"length": length, "seed": demonstration.seed, "success": demonstration.success}
        found = {}
        task_index = np.zeros(length, np.int64)
        for source in self._sources:
            seen = demonstration.observations
            values = seen[source.part] if isinstance(seen, Mapping) else seen
            if source.storage == "task":
                task_index = values.argmax(1)
            elif source.storage == "numbers":
                columns[source.feature] = values
            else:
                frames = values if source.spec.upright else values.swapaxes(1, 2)
                found[source.feature] = statistics.of_images(frames)
                if source.storage == "png":
                    columns[source.feature] = pngs(frames)
                else:
                    row |= self._filmed(source.feature, frames)
        columns |= self._steps(demonstration, task_index)
        if self.annotators:
            columns[EVENTS] = events_of(annotations, length)
        found |= {name: statistics.of_numbers(of) for name, of in columns.items() if isinstance(of, np.ndarray)}
        row["tasks"] = [self._tasks[number] for number in np.unique(task_index)]
        self._episodes.add(row | self._stepped(columns), found)

    def _steps(self, demonstration: Demonstration, task_index: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What every step has beside its observation."""
        steps = np.arange(len(demonstration))
        last = steps == steps[-1]
        return {
            ACTION: demonstration.actions,
            REWARD: demonstration.rewards,
            DONE: last & demonstration.terminated,
            TRUNCATED: last & demonstration.truncated,
            SUCCESS: last & demonstration.success,
            "timestamp": (steps / self._fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(len(steps), self._episodes.episodes),
            "index": self._episodes.steps + steps,
            TASK_INDEX: task_index,
        }

    def _filmed(self, camera: str, frames: NDArray[np.uint8]) -> dict[str, Any]:
        """Add an episode to a camera's video; what `meta/episodes` says of it."""
        files = self._videos[camera]
        start = files.next_episode().add(frames)
        where = {"chunk_index": files.chunk, "file_index": files.file, "from_timestamp": start}
        where["to_timestamp"] = start + len(frames) / self._fps
        return {f"videos/{camera}/{what}": value for what, value in where.items()}

    def _stepped(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Write the rows of an episode; what `meta/episodes` says of them."""
        file = self._data.next_episode()
        arrays = [column_of(columns[field.name], field.type) for field in file.schema]
        file.add(installed("pyarrow").Table.from_arrays(arrays, schema=file.schema))
        return {"data/chunk_index": self._data.chunk, "data/file_index": self._data.file}

    def close(self) -> None:
        """Close every file; what is not closed cannot be read."""
        for video in self._videos.values():
            video.close()
        self._data.close()
        self._episodes.close()

    def write_meta(self) -> None:
        """What is known when the last episode is written."""
        robot = self._came.get("robot_type")
        write_meta(self._folder, self._episodes, self._features, self._tasks, self._fps, robot)
        ours = {
            "task": self._store.task,
            "settings": self._store.settings,
            "seed": self._store.seed,
            "observation": self._store.observation.to_json(),
            "actions": self._store.actions.to_json(),
            "features": {source.part: source.feature for source in self._sources},
        }
        write_json(self._folder / OURS, ours)


def _with_tasks(store: DemoStore, cameras: Cameras, came: Mapping[str, Any]) -> tuple[list[Source], list[str]]:
    """Where each part goes, and the tasks in words: those the data set came with, else its own name."""
    sources, tasks = written_parts(store.observation, cameras), [str(words) for words in came.get("tasks", [])]
    if len(tasks) > 1:
        for place, source in enumerate(sources):
            if source.part == TASK_PART and source.spec.choices == (len(tasks),):
                sources[place] = Source(TASK_PART, source.spec, TASK_INDEX, "task")
                return sources, tasks
    return sources, tasks if len(tasks) == 1 else [store.task]


def _refuse_odd_videos(sources: Sequence[Source]) -> None:
    for source in sources:
        if source.storage == "video" and any(size % 2 for size in source.upright_shape[:2]):
            size = "×".join(map(str, source.upright_shape[:2]))
            raise UserError(f"{source.feature}: a video of {size} cannot be made, both must be even: write images")
