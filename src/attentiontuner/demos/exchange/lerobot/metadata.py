"""Writing `meta/`: what a LeRobot data set says of itself."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attentiontuner.core.files import write_json
from attentiontuner.demos.exchange.lerobot import statistics
from attentiontuner.demos.exchange.lerobot.layout import (
    DATA_MEGABYTES,
    DATA_PATH,
    EPISODES_PATH,
    FILES_IN_A_CHUNK,
    INFO,
    STATISTICS,
    TASKS,
    VERSION,
    VIDEO_MEGABYTES,
    VIDEO_PATH,
    installed,
)
from attentiontuner.demos.exchange.lerobot.statistics import Statistics

EPISODES_AT_ONCE = 100
"""So many rows of `meta/episodes` are kept in memory."""


class ParquetWriter:
    """One Parquet file, a row group each time something is added."""

    def __init__(self, path: Path, schema: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.schema = schema
        self._file = path.open("wb")
        self._writer = installed("pyarrow.parquet").ParquetWriter(self._file, schema, compression="snappy")

    def add(self, table: Any) -> None:
        self._writer.write_table(table, row_group_size=max(1, len(table)))

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Write the end; without it the file cannot be read."""
        self._writer.close()
        self._file.close()


class EpisodeTable:
    """`meta/episodes`, and the statistics of all episodes together."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EPISODES_PATH.format(chunk_index=0, file_index=0)
        self._file: ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []
        self.statistics: dict[str, Statistics] = {}
        self.episodes = self.steps = 0

    def add(self, row: Mapping[str, Any], found: Mapping[str, Statistics]) -> None:
        """The next episode: where it is, and its statistics by feature."""
        length = row["length"]
        here = {"episode_index": self.episodes, "dataset_from_index": self.steps}
        here |= {"dataset_to_index": self.steps + length, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        whole = {**row, **here}
        for feature, of in found.items():
            whole |= {f"stats/{feature}/{name}": value.tolist() for name, value in of.items()}
            self.statistics[feature] = statistics.together(self.statistics.get(feature), of)
        self._rows.append(whole)
        self.episodes, self.steps = self.episodes + 1, self.steps + length
        if len(self._rows) == EPISODES_AT_ONCE:
            self._write()

    def _write(self) -> None:
        arrow = installed("pyarrow")
        if self._file is None:
            self._file = ParquetWriter(self._path, arrow.Table.from_pylist(self._rows[:1]).schema)
        self._file.add(arrow.Table.from_pylist(self._rows, schema=self._file.schema))
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._write()
        if self._file is not None:
            self._file.close()


def write_meta(
    folder: Path, episodes: EpisodeTable, features: Mapping[str, Any], tasks: Sequence[str], fps: float, robot: Any
) -> None:
    """`info.json`, `stats.json` and `tasks.parquet`, once every episode is written."""
    rate = int(fps) if fps.is_integer() else fps
    videos = [feature for feature in features.values() if feature["dtype"] == "video"]
    for feature in videos:
        height, width, channels = feature["shape"]
        feature["info"] = {
            "video.height": height,
            "video.width": width,
            "video.channels": channels,
            "video.codec": "h264",
            "video.pix_fmt": "yuv420p",
            "video.fps": rate,
            "has_audio": False,
            "is_depth_map": False,
        }
    info = {
        "codebase_version": VERSION,
        "fps": rate,
        "features": features,
        "total_episodes": episodes.episodes,
        "total_frames": episodes.steps,
        "total_tasks": len(tasks),
        "chunks_size": FILES_IN_A_CHUNK,
        "data_files_size_in_mb": DATA_MEGABYTES,
        "video_files_size_in_mb": VIDEO_MEGABYTES,
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if videos else None,
        "robot_type": robot,
        "splits": {"train": f"0:{episodes.episodes}"},
    }
    write_json(folder / INFO, info)
    write_json(folder / STATISTICS, statistics.as_json(episodes.statistics))
    _write_tasks(folder / TASKS, tasks)


def _write_tasks(path: Path, tasks: Sequence[str]) -> None:
    """A row a task. LeRobot reads it with pandas, whose index the words are."""
    arrow, parquet = installed("pyarrow"), installed("pyarrow.parquet")
    columns = [("task_index", "int64", "int64"), ("task", "unicode", "object")]
    said = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
            for name, kind, numpy in columns
        ],
        "pandas_version": "2.0.0",
    }
    table = arrow.table({"task_index": arrow.array(range(len(tasks)), arrow.int64()), "task": list(tasks)})
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(said)}), path)
