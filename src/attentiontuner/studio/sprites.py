"""Pictures for the page: one sprite sheet per demonstration, and single frames for the large views."""

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from attentiontuner.spaces.observation import Arrays, ObservationSpec
from attentiontuner.viz.pictures import CELLS, at_steps, draw_observation, draw_observations

THUMBNAIL_PIXELS = 84
"""A drawn observation in the sprite sheet is about this wide."""

LARGE_PIXELS = 224
PLAY_PIXELS = 336
"""Minigrid draws a new kind of tile in milliseconds times its area: larger than this, the first steps would stutter."""


@dataclass(frozen=True)
class SpriteSheet:
    """One PNG with every distinct frame once, in rows of `columns` cells of `width` × `height` pixels.

    `cells[t]` is the cell that shows step t.
    """

    png: bytes
    columns: int
    rows: int
    width: int
    height: int
    cells: tuple[int, ...]

    def layout(self) -> dict[str, Any]:
        """Everything but the picture, for the page."""
        return {
            "columns": self.columns,
            "rows": self.rows,
            "width": self.width,
            "height": self.height,
            "cells": self.cells,
        }


def sprite_sheet(spec: ObservationSpec, observations: Arrays) -> SpriteSheet:
    """The sprite sheet of `observations` `[T, …]`."""
    _, first, inverse = np.unique(spec.encode(observations), axis=0, return_index=True, return_inverse=True)
    drawn = draw_observations(spec, at_steps(observations, first), tile_pixels(spec, THUMBNAIL_PIXELS), bars=False)
    number, height, width = drawn.shape[:3]
    columns = math.ceil(math.sqrt(number))
    rows = math.ceil(number / columns)
    padded = np.zeros((rows * columns, height, width, 3), np.uint8)
    padded[:number] = drawn
    sheet = padded.reshape(rows, columns, height, width, 3).swapaxes(1, 2).reshape(rows * height, columns * width, 3)
    return SpriteSheet(encode_png(sheet), columns, rows, width, height, tuple(map(int, inverse.reshape(-1))))


def large_frame(spec: ObservationSpec, observation: Any, pixels: int = LARGE_PIXELS, bars: bool = True) -> bytes:
    """One observation as a PNG about `pixels` wide; `bars` as in `draw_observations`."""
    return encode_png(draw_observation(spec, observation, tile_pixels(spec, pixels), bars))


def tile_pixels(spec: ObservationSpec, wanted: int) -> int:
    """The tile size with which an observation is drawn about `wanted` pixels wide."""
    widest = max(part.shape[0] if part.kind == "grid" else CELLS for _, part in spec.parts)
    return max(wanted // widest, 1)


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """`[H, W, 3]` as a PNG, quick rather than small."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()
