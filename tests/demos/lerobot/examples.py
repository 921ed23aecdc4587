"""LeRobot data sets for the tests: the one that LeRobot wrote, and copies of it that something is wrong with."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attentiontuner.demos.exchange.lerobot.videos import VideoWriter
from tests.demos.lerobot.make_fixture import camera

MADE = Path(__file__).parent / "made"
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = "videos/observation.images.top/chunk-000/file-000.mp4"


def copy_of(folder: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(MADE, folder / "robot"))


def change_info(root: Path, **changes: Any) -> None:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_feature(root: Path, name: str, **changes: Any) -> None:
    features = json.loads((root / "meta" / "info.json").read_text())["features"]
    change_info(root, features={**features, name: {**features[name], **changes}})


def change_column(path: Path, name: str, change: Callable[[list[Any]], Any]) -> None:
    """Replace a column by what `change` makes of its values; its type stays, unless an Arrow array is returned."""
    table = pq.read_table(path)
    values = change(table[name].to_pylist())
    column = values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(name).type)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), path)


def film(path: Path, frames: int, fps: float = 10, size: tuple[int, int] = (64, 96), without: int = -1) -> None:
    """Put another video in the place of `path`; frame number `without` is not in it."""
    path.unlink()
    writer = VideoWriter(path, fps, *size)
    for step in range(frames):
        if step == without:
            writer.frames += 1
        else:
            writer.add(camera(*size, 0, step % 9)[None])
    writer.close()
