"""Columns of a Parquet file as arrays, and arrays as columns."""

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.exchange.lerobot.layout import Episode, StepError, installed, open_parquet, reading_parquet

ROWS_AT_ONCE = 256
PICTURES = ("PNG", "JPEG", "WEBP")
PNG_EFFORT = {"compression_level": "1", "pred": "sub"}
"""More makes PNGs of camera images hardly smaller and takes several times as long."""


def tables(path: Path, episodes: Sequence[Episode], needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Any]:
    """The Arrow table of each of the `episodes`, which are those of the file, one after the other.

    Columns that are `needed` must be there, those that are `wanted` come where they are. A part of the file is in
    memory at a time.
    """
    arrow = installed("pyarrow")
    with open_parquet(path) as file:
        known = file.schema_arrow.names
        for name in needed:
            if name not in known:
                raise UserError(f"{path} is damaged: it has no column {name}")
        columns = [*needed, *(name for name in wanted if name in known)]
        order, kept = iter(episodes), list[Any]()
        present = next(order)
        with reading_parquet(path):
            for rows in _runs(file.iter_batches(ROWS_AT_ONCE, columns=columns)):
                number = rows["episode_index"][0].as_py()
                if kept and number != present.index:
                    yield _whole(arrow, path, present, kept)
                    present, kept = next(order, present), []
                if number != present.index:
                    raise UserError(f"{path}: episode {number} stands where episode {present.index} is expected")
                kept.append(rows)
                if sum(map(len, kept)) > present.length:
                    raise UserError(f"{path}, episode {number}: more steps than the {present.length} that meta/ says")
        if kept:
            yield _whole(arrow, path, present, kept)
            present = next(order, present)
    if not kept or present.index > number:
        raise UserError(f"{path}: episode {present.index} is missing: get the data set again, whole")


def _runs(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches, cut where another episode begins."""
    for batch in batches:
        numbers = batch["episode_index"].to_numpy(zero_copy_only=False)
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in pairwise([0, *cuts.tolist(), len(numbers)]):
            if end > start:
                yield batch.slice(start, end - start)


def _whole(arrow: Any, path: Path, episode: Episode, batches: Sequence[Any]) -> Any:
    table = arrow.Table.from_batches(batches)
    if len(table) != episode.length:
        raise UserError(
            f"{path}, episode {episode.index}, step {len(table)}: it is missing: meta/ says {episode.length}"
        )
    return table


def numbers(column: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """`[T, *shape]`, or `[T]` of shape (1,) as the format has it; lists within lists are taken apart."""
    arrow, compute = installed("pyarrow"), installed("pyarrow.compute")
    array, rows, size = column.combine_chunks(), len(column), 1
    for length in () if shape == (1,) and not _is_list(column.type) else shape:
        array = getattr(array, "storage", array)
        if not _is_list(array.type):
            raise StepError(f"{array.type} in place of lists of {length}")
        lengths = compute.fill_null(compute.list_value_length(array), -1).to_numpy(zero_copy_only=False)
        if (lengths != length).any():
            row = int(np.argmax(lengths != length))
            raise StepError(f"{counted(max(0, int(lengths[row])), 'number')} where {length} should be", row // size)
        array, size = array.flatten(), size * length
    if array.null_count:
        raise StepError("nothing where a number should be", array.is_null().index(True).as_py() // size)
    if not (arrow.types.is_integer(array.type) or arrow.types.is_floating(array.type)):
        if not arrow.types.is_boolean(array.type):
            raise StepError(f"{array.type} in place of numbers")
        array = array.cast(arrow.uint8())
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found.reshape(rows) if shape == (1,) else found.reshape(rows, *shape)


def _is_list(kind: Any) -> bool:
    types = installed("pyarrow").types
    return bool(types.is_list(kind) or types.is_fixed_size_list(kind) or types.is_large_list(kind))


def images(column: Any, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """`[T, height, width, channels]` of images that lie in the file itself. A path beside them is never opened."""
    if not installed("pyarrow").types.is_struct(column.type) or column.type.get_field_index("bytes") < 0:
        raise StepError(f"{column.type} in place of images")
    found = np.empty((len(column), height, width, channels), np.uint8)
    seen: dict[bytes, int] = {}
    for step, content in enumerate(column.combine_chunks().field("bytes").to_pylist()):
        if content is None:
            raise StepError("no image in the file, at most the path of one", step)
        same = seen.setdefault(content, step)
        found[step] = found[same] if same < step else _image(content, step, (height, width, channels))
    return found


def _image(content: bytes, step: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    try:
        with Image.open(io.BytesIO(content), formats=PICTURES) as image:
            if image.size != (shape[1], shape[0]):
                there, wanted = f"{image.size[1]}×{image.size[0]}", f"{shape[0]}×{shape[1]}"
                raise StepError(f"an image of {there}, not {wanted}", step)
            if image.mode not in ("RGB", "L", "RGBA", "LA", "P", "1"):
                raise StepError(f"an image of kind {image.mode}, not of bytes", step)
            return np.asarray(image.convert("RGB" if shape[2] == 3 else "L")).reshape(shape)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise StepError("an image that cannot be read", step) from error


def pngs(frames: NDArray[np.uint8]) -> list[dict[str, Any]]:
    """`[T, H, W, 1 or 3]` as `datasets` has images, losslessly; equal ones are made once."""
    av = installed("av")
    codec = av.CodecContext.create("png", "w")
    kind = "gray" if frames.shape[3] == 1 else "rgb24"
    codec.height, codec.width, codec.pix_fmt = frames.shape[1], frames.shape[2], kind
    codec.time_base, codec.options = Fraction(1), PNG_EFFORT
    made: dict[bytes, bytes] = {}
    rows = []
    for image in frames:
        key = image.tobytes()
        if key not in made:
            plain = np.ascontiguousarray(image[..., 0] if kind == "gray" else image)
            made[key] = b"".join(map(bytes, codec.encode(av.VideoFrame.from_ndarray(plain, format=kind))))
        rows.append({"bytes": made[key], "path": None})
    return rows


def schema_of(features: Mapping[str, Mapping[str, Any]]) -> Any:
    """The Arrow schema of `data/`. What is said to `datasets` in it makes that show images as images."""
    arrow = installed("pyarrow")
    event = [arrow.field(name, arrow.string()) for name in ("role", "content", "style", "camera")]
    event.append(arrow.field("tool_calls", arrow.list_(arrow.string())))
    fields, pictures = [], {}
    for name, feature in features.items():
        shape = tuple(feature["shape"])
        if feature["dtype"] == "video":
            continue
        if feature["dtype"] == "language":
            kind = arrow.list_(arrow.struct(event))
        elif feature["dtype"] == "image":
            kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
            pictures[name] = {"_type": "Image"}
        else:
            kind = arrow.bool_() if feature["dtype"] == "bool" else getattr(arrow, feature["dtype"])()
            if shape != (1,):
                kind = arrow.list_(kind, shape[0]) if len(shape) == 1 else _nested(arrow, kind, len(shape))
        fields.append(arrow.field(name, kind))
    return arrow.schema(fields, {"huggingface": json.dumps({"info": {"features": pictures}})})


def _nested(arrow: Any, kind: Any, depth: int) -> Any:
    return kind if depth == 0 else arrow.list_(_nested(arrow, kind, depth - 1))


def column_of(values: Any, kind: Any) -> Any:
    """A column of `kind`; arrays `[T, …]` without going through Python's numbers."""
    arrow = installed("pyarrow")
    if not isinstance(values, np.ndarray):
        return arrow.array(values, kind)
    if values.ndim == 1 or not _is_list(kind):  # one number a step: the format has no lists of one
        return arrow.array(values.reshape(len(values)), kind)
    flat: Any = arrow.array(values.reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        if arrow.types.is_fixed_size_list(kind):
            return arrow.FixedSizeListArray.from_arrays(flat, type=kind)
        count, size = math.prod(values.shape[:axis]), values.shape[axis]
        flat = arrow.ListArray.from_arrays(arrow.array(np.arange(0, (count + 1) * size, size), arrow.int32()), flat)
    return flat
