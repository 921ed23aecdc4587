"""A LeRobot data set's folder: what its `meta/` says, and where everything lies.

```
meta/info.json                             version, frames a second, features {name: dtype, shape}, where files lie
meta/tasks.parquet                         what each task is called in words, and its number
meta/episodes/chunk-000/file-000.parquet   a row an episode: length, which files, where in each video, statistics
meta/stats.json                            statistics of every feature
meta/attentiontuner.json                   ours: what the format has no place for
data/chunk-000/file-000.parquet            a row a step: vectors, actions, PNG images
videos/<camera>/chunk-000/file-000.mp4     many episodes after each other
```

Everything in it is somebody else's: names and numbers are checked before anything is opened, and no path leaves the
folder.
"""

import importlib
import json
import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from attentiontuner.core.errors import UserError
from attentiontuner.core.files import read_json, reading, shortened
from attentiontuner.core.wording import counted

VERSION = "v3.0"
INFO, TASKS, STATISTICS, OURS = "meta/info.json", "meta/tasks.parquet", "meta/stats.json", "meta/attentiontuner.json"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
FILES_IN_A_CHUNK, DATA_MEGABYTES, VIDEO_MEGABYTES = 1000, 100, 200

OLD = "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id NAME/NAME --push-to-hub false --root"
"""Without these options it takes one from the hub, and puts what it made there."""


def installed(name: str) -> Any:
    """The package `name`, which is an extra of ours."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = {"av": "PyAV"}.get(name.split(".")[0], "pyarrow")
        command = "pip install 'attentiontuner[lerobot]'"
        raise UserError(f"{missing}, which reads and writes LeRobot data sets, is not installed: {command}") from error


class StepError(UserError):
    """Something in an episode is not there, or not what was promised; `step` is the first where that is so."""

    def __init__(self, problem: str, step: int = 0) -> None:
        super().__init__(problem)
        self.problem, self.step = problem, step


class Feature(NamedTuple):
    """What `info.json` says of one column or camera. `names` are those of its numbers, or of its axes."""

    dtype: str
    shape: tuple[int, ...]
    names: Any
    info: Mapping[str, Any]

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("image", "video")

    @property
    def is_depth(self) -> bool:
        return bool(self.info.get("is_depth_map") or self.info.get("video.is_depth_map"))


class Clip(NamedTuple):
    """Where an episode of one camera is: seconds after the start of a video file."""

    path: Path
    start: float


@dataclass(frozen=True)
class Episode:
    """What `meta/episodes` says of one episode; `seed` and `success` are None where it does not."""

    index: int
    length: int
    data: Path
    clips: Mapping[str, Clip]
    seed: int | None
    success: bool | None


@dataclass(frozen=True)
class Layout:
    """The whole of `meta/`, but for the episodes, which `read_episodes` reads."""

    root: Path
    fps: float
    features: Mapping[str, Feature]
    tasks: tuple[str, ...]
    total_episodes: int
    info: Mapping[str, Any]
    ours: Mapping[str, Any] | None


def is_lerobot(root: Path) -> bool:
    """Whether `root` is a LeRobot data set of any version."""
    return (root / INFO).is_file()


def read_layout(root: Path) -> Layout:
    """What `meta/` says; anything wrong with it is a `UserError` that names the file."""
    path = root / INFO
    if not root.is_dir():
        raise UserError(f"{root} is not there: give the folder of a LeRobot data set")
    if not path.is_file():
        raise UserError(f"{root} is not a LeRobot data set: it has no {INFO}")
    info = read_json(path)
    if not isinstance(info, dict) or not isinstance(info.get("features"), dict):
        raise UserError(f"{path} is damaged: it does not say which features there are")
    with reading(path):
        json.dumps(info, allow_nan=False)  # numbers that nobody can have written
    version = str(info.get("codebase_version"))
    if not re.match(r"v?3(\.|$)", version):
        old = f"LeRobot's own `{OLD} {root}` brings version 2.1 up to date, in its place"
        what = old if re.match(r"v?[012](\.|$)", version) else "use a newer attentiontuner"
        raise UserError(f"{path}: version {version[:20]}, but only {VERSION} is read: {what}")
    fps, total = info.get("fps"), info.get("total_episodes")
    if not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise UserError(f"{path}: fps is {fps!r}, not a number above 0")
    if not isinstance(total, int) or total < 1:
        raise UserError(f"{path}: total_episodes is {total!r}: there is nothing to read")
    features = {name: _feature(path, name, value) for name, value in info["features"].items()}
    for name, feature in features.items():
        there = feature.info.get("video.fps")
        if feature.dtype == "video" and isinstance(there, int | float) and not math.isclose(there, fps, rel_tol=0.01):
            raise UserError(f"{path}: {name} runs at {there:g} fps, the data set at {fps:g}: they must agree")
    ours = read_json(root / OURS) if (root / OURS).exists() else None
    return Layout(root, float(fps), features, _tasks(root), total, info, ours)


def _feature(path: Path, name: str, value: Any) -> Feature:
    try:
        shape = tuple(int(n) for n in value["shape"])
        # Older files say of videos in `video_info` what newer ones say in `info`.
        more = {**(value.get("video_info") or {}), **(value.get("info") or {})}
        if math.prod(shape) < 1 or max(shape, default=1) > 2**16:
            raise ValueError(f"shape {shape}")
        return Feature(str(value["dtype"]), shape, value.get("names"), more)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} is damaged: feature {name!r}: {type(error).__name__} {error}") from error


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A small Parquet file as an Arrow table; `columns` that it does not have are left out."""
    with open_parquet(path) as file, reading_parquet(path):
        known = file.schema_arrow.names
        return file.read(None if columns is None else [name for name in columns if name in known])


def open_parquet(path: Path) -> Any:
    """A `ParquetFile`; one that is missing or cut off is a `UserError`."""
    if path.exists() and not path.is_file():
        raise UserError(f"cannot read {path}: it is a device or a pipe, and no file")
    with reading_parquet(path):
        return installed("pyarrow.parquet").ParquetFile(path)


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Whatever Arrow finds wrong with the content of a file, which may be an `OSError` too, is a `UserError`."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing: get the data set again, whole") from None
    except PermissionError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (installed("pyarrow").ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged: {shortened(str(error))}") from error


def _tasks(root: Path) -> tuple[str, ...]:
    """The tasks in words, in order of their number."""
    rows = read_table(root / TASKS).to_pydict()
    numbers = rows.pop("task_index", None)
    # Whoever wrote it with pandas has the words in its index, which need not have a name.
    words = rows.get("task", rows.get("__index_level_0__"))
    if numbers is None or words is None or sorted(numbers) != list(range(len(words))):
        raise UserError(f"{root / TASKS} is damaged: it does not number its tasks from 0")
    return tuple(str(word) for _, word in sorted(zip(numbers, words, strict=True)))


def read_episodes(layout: Layout) -> list[Episode]:
    """What `meta/episodes` says of every episode, in order."""
    folder = layout.root / "meta" / "episodes"
    cameras = [name for name, feature in layout.features.items() if feature.dtype == "video"]
    wanted = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    wanted += [f"videos/{name}/{what}" for name in cameras for what in ("chunk_index", "file_index", "from_timestamp")]
    found: list[Episode] = []
    for path in sorted(folder.glob("*/*.parquet")):
        rows = read_table(path, [*wanted, "seed", "success"]).to_pydict()
        for name in wanted:
            if name not in rows:
                raise UserError(f"{path} is damaged: it has no column {name}")
        found += _rows(layout, path, rows, cameras)
    found.sort(key=lambda episode: episode.index)
    for number, episode in enumerate(found):
        if episode.index != number:
            wrong = "is missing" if episode.index > number else "is there twice"
            raise UserError(f"{folder}: episode {min(number, episode.index)} {wrong}: get the data set again, whole")
    if len(found) != layout.total_episodes:
        there = counted(len(found), "episode")
        said = f"{INFO} says {layout.total_episodes}"
        raise UserError(f"{folder}: {there}, but {said}: get the data set again, whole")
    return found


def _rows(layout: Layout, path: Path, rows: Mapping[str, list[Any]], cameras: Sequence[str]) -> Iterator[Episode]:
    data, video = (str(layout.info.get(name, otherwise)) for name, otherwise in PATHS)
    for row, index in enumerate(rows["episode_index"]):
        try:
            chunk, file = int(rows["data/chunk_index"][row]), int(rows["data/file_index"][row])
            clips = {}
            for name in cameras:
                at = {what: rows[f"videos/{name}/{what}"][row] for what in ("chunk_index", "file_index")}
                start = float(rows[f"videos/{name}/from_timestamp"][row])
                if not math.isfinite(start):
                    raise ValueError(f"{name} begins at {start}")
                clips[name] = Clip(inside(layout.root, video, video_key=name, **at), start)
            length = int(rows["length"][row])
            if length < 1:
                raise ValueError(f"length {length}")
            seed, success = (rows[name][row] if name in rows else None for name in ("seed", "success"))
            yield Episode(
                index=int(index),
                length=length,
                data=inside(layout.root, data, chunk_index=chunk, file_index=file),
                clips=clips,
                seed=int(seed) if isinstance(seed, int) else None,
                success=bool(success) if isinstance(success, bool) else None,
            )
        except UserError as error:
            raise UserError(f"{path}, episode {index}: {error}") from error
        except (TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged: episode {index}: {error}") from error


PATHS = (("data_path", DATA_PATH), ("video_path", VIDEO_PATH))
FIELDS = {"chunk_index": r"0?\d?d?", "file_index": r"0?\d?d?", "video_key": ""}


def inside(root: Path, template: str, **values: Any) -> Path:
    """The file in `root` that a template such as `data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet` names.

    Names that lead out of the folder are refused. Links in it are followed: a hub's cache is made of them.
    """
    for _, field, form, conversion in string.Formatter().parse(template):
        if field is not None and (field not in FIELDS or not re.fullmatch(FIELDS[field], form or "") or conversion):
            raise UserError(f"{root / INFO}: a path has {{{field}}} in it, which is not known")
    name = PurePosixPath(template.format(**values))
    if name.is_absolute() or ".." in name.parts or "\\" in str(name) or ":" in str(name):
        raise UserError(f"{root / INFO}: the path {name} leads out of the data set")
    return root / name
