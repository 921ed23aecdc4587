"""Pictures for the page: sprite sheets of a demonstration, and single frames for the large views."""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from attentiontuner.demos.store.shards import FrameTable
from attentiontuner.spaces.observation import Arrays, ObservationSpec
from attentiontuner.viz.pictures import CELLS, at_steps, draw_observation, draw_observations

SHEET_COLUMNS = 20
SHEET_CELLS = SHEET_COLUMNS**2
"""Frames on one sheet: a long demonstration has several, drawn and sent when they are looked at."""

THUMBNAIL_PIXELS = 84
"""A drawn observation in the sprite sheet is about this wide."""

GLANCE_PIXELS, GLANCE_FRAMES = 56, 4
"""A demonstration at a glance: so many frames, each about so wide."""

LARGE_PIXELS = 224
PLAY_PIXELS = 336
"""Minigrid draws a new kind of tile in milliseconds times its area: larger than this, the first steps would stutter."""


@dataclass(frozen=True)
class Sprites:
    """Where the steps of a demonstration are on its sheets: equal frames share a cell, in order of first appearance.

    Cell c is number c % SHEET_CELLS of sheet c // SHEET_CELLS, in rows of at most SHEET_COLUMNS cells of `width` ×
    `height` pixels. `cells[t]` is the cell that shows step t, `first[c]` the first step that cell c shows.
    """

    width: int
    height: int
    cells: tuple[int, ...]
    first: tuple[int, ...]

    def layout(self) -> dict[str, Any]:
        """What the page needs to know of it."""
        return {
            "columns": SHEET_COLUMNS,
            "perSheet": SHEET_CELLS,
            "count": len(self.first),
            "width": self.width,
            "height": self.height,
            "cells": self.cells,
        }


def sprites_of(spec: ObservationSpec, observations: Arrays) -> Sprites:
    """The cells of `observations` `[T, …]`."""
    table = FrameTable(spec.nbytes)
    cells = table.add(spec.encode(observations))
    _, first = np.unique(cells, return_index=True)
    (drawn,) = _thumbnails(spec, observations, [0])
    return Sprites(drawn.shape[1], drawn.shape[0], tuple(map(int, cells)), tuple(map(int, first)))


def draw_sheet(spec: ObservationSpec, observations: Arrays, sprites: Sprites, number: int) -> bytes:
    """Sheet `number` of these sprites as a PNG."""
    shown = list(sprites.first[number * SHEET_CELLS : (number + 1) * SHEET_CELLS])
    drawn = _thumbnails(spec, observations, [*shown, *_largest(spec, observations)])[: len(shown)]
    height, width = drawn.shape[1:3]
    columns = min(SHEET_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    padded = np.zeros((rows * columns, height, width, 3), np.uint8)
    padded[: len(drawn)] = drawn
    sheet = padded.reshape(rows, columns, height, width, 3).swapaxes(1, 2).reshape(rows * height, columns * width, 3)
    return encode_png(sheet)


def _largest(spec: ObservationSpec, observations: Arrays) -> list[int]:
    """The steps with the largest number of each vector: drawn along, they give all sheets one scale."""
    named = observations if isinstance(observations, Mapping) else {spec.parts[0][0]: observations}
    vectors = [np.abs(np.nan_to_num(named[name])).max(axis=1) for name, part in spec.parts if part.kind == "vector"]
    return [int(np.argmax(numbers)) for numbers in vectors]


def _thumbnails(spec: ObservationSpec, observations: Arrays, steps: list[int]) -> NDArray[np.uint8]:
    return draw_observations(spec, at_steps(observations, steps), tile_pixels(spec, THUMBNAIL_PIXELS), bars=False)


def glance(spec: ObservationSpec, observations: Arrays, length: int) -> bytes:
    """A few of `observations` `[T, …]`, from the first to the last, side by side in one PNG."""
    steps = np.linspace(0, length - 1, GLANCE_FRAMES).round().astype(np.int64)
    drawn = draw_observations(spec, at_steps(observations, steps), tile_pixels(spec, GLANCE_PIXELS), bars=False)
    solid = np.concatenate([drawn, np.full_like(drawn[..., :1], 255)], axis=-1)
    apart = np.pad(solid, ((0, 0), (0, 0), (0, 3), (0, 0)))  # with nothing between them
    return encode_png(np.concatenate(list(apart), axis=1))


def large_frame(spec: ObservationSpec, observation: Any, pixels: int = LARGE_PIXELS, bars: bool = True) -> bytes:
    """One observation as a PNG about `pixels` wide; `bars` as in `draw_observations`."""
    return encode_png(draw_observation(spec, observation, tile_pixels(spec, pixels), bars))


def tile_pixels(spec: ObservationSpec, wanted: int) -> int:
    """The tile size with which an observation is drawn about `wanted` pixels wide."""
    widest = max(part.shape[0] if part.kind == "grid" else CELLS for _, part in spec.parts)
    return max(wanted // widest, 1)


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """`[H, W, 3]`, or with transparency `[H, W, 4]`, as a PNG, quick rather than small."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()
