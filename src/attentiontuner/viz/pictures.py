"""Observations as pictures, and one page per episode: its frames and the expert matrix E in timesteps.

Minigrid and matplotlib are imported when they are needed.
"""

import colorsys
import io
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from attentiontuner.core.files import write_bytes
from attentiontuner.core.wording import counted
from attentiontuner.demos.demonstration import Demonstration
from attentiontuner.spaces import MINIGRID_SYMBOLS, ActionSpec, Arrays, ObservationSpec, Part
from attentiontuner.viz.curves import LINE_COLOURS, Curves, curves_of

Picture = NDArray[np.uint8]
"""`[H, W, 3]` RGB, row 0 at the top."""

CELLS = 7
"""An observation of any kind is drawn about this many tiles wide, as wide as Minigrid's view."""

NAMED_SIDE, NAME_COLOUR = 64, "#5c5f66"
"""Parts side by side have their names above them where each is to be about so many pixels wide, or more."""

MOST_STEPS = 14
"""Frames on the page of an episode."""

BACKGROUND = 245
"""The grey around images that are not square, and behind bars."""


def draw_observation(spec: ObservationSpec, observation: Any, tile: int = 16, bars: bool = True) -> Picture:
    """One observation as uint8 `[H, W, 3]`; `tile` is the side of a grid cell in pixels."""
    drawn: Picture = draw_observations(spec, spec.stack([observation]), tile, bars)[0]
    return drawn


def draw_observations(
    spec: ObservationSpec, observations: Arrays, tile: int = 16, bars: bool = True
) -> NDArray[np.uint8]:
    """`[N, …]` observations as uint8 `[N, H, W, 3]`.

    Grids are drawn as the agent's view, the agent at the bottom looking up; images upright, in the middle of a square,
    made larger or smaller by a whole number; vectors as bars about a zero line, all N on one scale. Several parts stand
    side by side, row after row, in one square, each under its name where it is large enough; without `bars` vectors are
    left out where there is something else, for curves show them better.
    """
    if not isinstance(observations, Mapping):
        return _draw_part(spec.parts[0][1], observations, tile)
    parts = parts_drawn(spec, bars)
    across = math.ceil(math.sqrt(len(parts)))
    own = max(1, tile // across)
    drawn = [_squared(_draw_part(part, observations[name], own)) for name, part in parts]
    if len(drawn) == 1:
        return drawn[0]
    return _side_by_side([name for name, _ in parts], drawn, across, named=CELLS * own >= NAMED_SIDE)


def parts_drawn(spec: ObservationSpec, bars: bool = True) -> list[tuple[str, Part]]:
    """The parts of which `draw_observations` makes one picture; of several each may have its name."""
    return [(name, part) for name, part in spec.parts if bars or part.kind != "vector"] or list(spec.parts)


def _side_by_side(
    names: Sequence[str], drawn: Sequence[NDArray[np.uint8]], across: int, named: bool
) -> NDArray[np.uint8]:
    """Squares `[N, side, side, 3]` of several sides in rows of `across`, each in the middle of its place; `named`: with
    its name above."""
    side, rows = max(pictures.shape[1] for pictures in drawn), math.ceil(len(drawn) / across)
    gap, letters = max(2, side // 16), max(11, side // 9)
    name_height = letters + 4 if named else 0
    width, height = across * (side + gap) - gap, rows * (side + name_height + gap) - gap
    square = max(width, height)
    left, top = (square - width) // 2, (square - height) // 2
    corners = [
        (left + number % across * (side + gap), top + number // across * (side + name_height + gap))
        for number in range(len(drawn))
    ]
    page = Image.new("RGB", (square, square), (BACKGROUND,) * 3)
    if named:
        pen, font = ImageDraw.Draw(page), font_of(letters)
        for (x, y), name in zip(corners, _without_what_all_share(names), strict=True):
            pen.text((x, y), _fitting(name, side, font), NAME_COLOUR, font)
    whole = np.asarray(page)[None].repeat(len(drawn[0]), axis=0)
    for (x, y), pictures in zip(corners, drawn, strict=True):
        own = pictures.shape[1]
        x, y = x + (side - own) // 2, y + name_height + (side - own) // 2
        whole[:, y : y + own, x : x + own] = pictures
    return whole


def _without_what_all_share(names: Sequence[str]) -> list[str]:
    """`observation.images.top` and `observation.images.wrist` → `top` and `wrist`."""
    split = [name.split(".") for name in names]
    shared = 0
    while len({tuple(words[: shared + 1]) for words in split}) == 1 and all(len(words) > shared + 1 for words in split):
        shared += 1
    return [".".join(words[shared:]) for words in split]


def _fitting(name: str, width: int, font: Any) -> str:
    """A name, or as much of it as there is room for."""
    shown = name
    while len(shown) > 1 and font.getlength(shown) > width:
        shown = f"{shown.removesuffix('…')[:-1]}…"
    return shown


@cache
def font_of(size: int, bold: bool = False) -> Any:
    """Letters so many pixels high."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


def _draw_part(part: Part, frames: NDArray[Any], tile: int) -> NDArray[np.uint8]:
    if part.kind == "grid":
        return _draw_grids(part, np.asarray(frames, np.uint8), tile)
    if part.kind == "image":
        scale = max(1, CELLS * tile // max(part.shape[:2]))
        images = _smaller(_coloured(np.asarray(frames, np.uint8)), max(part.shape[:2]) // (CELLS * tile))
        upright = images if part.upright else images.transpose(0, 2, 1, 3)
        return _squared(upright.repeat(scale, axis=1).repeat(scale, axis=2))
    return _draw_vectors(np.asarray(frames, np.float64), CELLS * tile)


def _coloured(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`[N, H, W, C]` as RGB: one channel is gray, of others the first three are red, green and blue; of a stack of
    colour images the last is shown."""
    channels = images.shape[3]
    if channels == 1:
        return images.repeat(3, axis=3)
    if channels % 3 == 0:
        return images[..., -3:]
    return np.pad(images[..., :3], ((0, 0),) * 3 + ((0, max(0, 3 - channels)),))


def _smaller(images: NDArray[np.uint8], times: int) -> NDArray[np.uint8]:
    """Images `[N, H, W, 3]` with the mean of so many × so many pixels in the place of one; what is over is cut off."""
    times = min(times, *images.shape[1:3])
    if times <= 1:
        return images
    height, width = (side // times for side in images.shape[1:3])
    blocks = images[:, : height * times, : width * times].reshape(len(images), height, times, width, times, 3)
    means: NDArray[np.uint8] = blocks.mean(axis=(2, 4)).round().astype(np.uint8)
    return means


def _squared(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures `[N, H, W, 3]` in the middle of squares, since pages and films have square places for them."""
    count, height, width, _ = pictures.shape
    side = max(height, width)
    above, left = (side - height) // 2, (side - width) // 2
    squares = np.full((count, side, side, 3), BACKGROUND, np.uint8)
    squares[:, above : above + height, left : left + width] = pictures
    return squares


def _draw_grids(part: Part, frames: NDArray[np.uint8], tile: int) -> NDArray[np.uint8]:
    count, width, height, _ = frames.shape
    # The agent stands in the middle of the last row: mark that cell, so that it is a kind of cell of its own.
    cells = np.concatenate([frames, np.zeros((count, width, height, 1), np.uint8)], axis=-1)
    minigrid = part.symbols == MINIGRID_SYMBOLS
    if minigrid:
        cells[:, width // 2, height - 1, -1] = 1
    weights = np.cumprod([1, *(2 * n for n in reversed((*part.symbols, 2)))])[:-1][::-1]
    codes = (cells * weights).sum(axis=-1, dtype=np.int64)  # [N, W, H]
    _, first, kinds = np.unique(codes, return_index=True, return_inverse=True)
    draw = _minigrid_tile if minigrid else _flat_tile
    tiles = np.stack([draw(part, cell, tile) for cell in cells.reshape(-1, cells.shape[-1])[first]])
    drawn = tiles[kinds.reshape(codes.shape)]  # [N, W, H, tile, tile, 3]
    return drawn.transpose(0, 2, 3, 1, 4, 5).reshape(count, height * tile, width * tile, 3)


def _minigrid_tile(part: Part, cell: NDArray[np.uint8], tile: int) -> Picture:
    from minigrid.core.constants import OBJECT_TO_IDX
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import WorldObj

    kind, colour, state, is_agent = (int(n) for n in cell)
    thing = WorldObj.decode(kind, colour, state)
    facing = 3 if is_agent else None
    drawn: Picture = Grid.render_tile(
        thing, agent_dir=facing, highlight=kind != OBJECT_TO_IDX["unseen"], tile_size=tile
    )
    return drawn.astype(np.uint8)


def _flat_tile(part: Part, cell: NDArray[np.uint8], tile: int) -> Picture:
    """A cell of somebody else's symbols: a hue for the first channel, brightness for the second; symbol 0 is black."""
    symbol = int(cell[0])
    brightness = 0.95 - 0.5 * (int(cell[1]) / max(1, part.symbols[1]) if len(part.symbols) > 1 else 0.0)
    rgb = colorsys.hsv_to_rgb(symbol / part.symbols[0], 0.65, brightness if symbol else 0.0)
    picture = np.empty((tile, tile, 3), np.uint8)
    picture[:] = np.round(np.array(rgb) * 255)
    picture[0], picture[:, 0] = 60, 60
    return picture


def _draw_vectors(frames: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    size = frames.shape[1]
    bar = max(2, side // size)
    scale = max(1.0, float(np.abs(np.nan_to_num(frames)).max(initial=0.0)))
    middle = side // 2
    ends = middle - np.round(np.nan_to_num(frames) / scale * (middle - 1)).astype(np.int64)  # [N, D], in rows
    rows = np.arange(side)[None, :, None]
    inside = (rows >= np.minimum(ends, middle)[:, None]) & (rows <= np.maximum(ends, middle)[:, None])
    columns = np.where(inside[..., None], np.array([76, 120, 168]), np.array([BACKGROUND] * 3)).astype(np.uint8)
    picture = columns.repeat(bar, axis=2)
    picture[:, :, ::bar] = 255
    picture[:, middle] = 90
    return picture


def episode_steps(demonstration: Demonstration) -> list[int]:
    """The steps worth showing: recalled and deciding ones first, then evenly spaced ones, at most `MOST_STEPS`."""
    length = len(demonstration)
    if length <= MOST_STEPS:
        return list(range(length))
    important: list[int] = []
    if demonstration.pairs is not None and len(demonstration.pairs):
        pairs = demonstration.pairs.settled()
        important = [*_spread(np.unique(pairs.p), MOST_STEPS // 3), *_spread(np.unique(pairs.q), MOST_STEPS // 3)]
    even = np.linspace(0, length - 1, max(2, MOST_STEPS - len(set(important)))).round().astype(int).tolist()
    chosen = list(dict.fromkeys([*important, *even]))[:MOST_STEPS]
    return sorted(chosen)


def _spread(steps: NDArray[Any], count: int) -> list[int]:
    rows = np.unique(np.linspace(0, len(steps) - 1, min(count, len(steps))).round().astype(int))
    return [int(step) for step in steps[rows]]


def at_steps(observations: Arrays, steps: Any) -> Any:
    """Of the observations `[T, …]` of an episode one (a number), or some (their numbers)."""
    if isinstance(observations, Mapping):
        return {name: array[steps] for name, array in observations.items()}
    return observations[steps]


def save_episode_picture(
    spec: ObservationSpec, actions: ActionSpec, demonstration: Demonstration, path: Path, title: str = ""
) -> None:
    """Draw one episode to a PNG: its frames, below them its numbers as curves, and the expert matrix E (p across, q
    down)."""
    from matplotlib.figure import Figure

    steps = episode_steps(demonstration)
    curves = curves_of(spec, actions, demonstration.observations, demonstration.actions)
    columns = min(7, len(steps))
    rows = -(-len(steps) // columns)
    heights = [1.75 * rows + 0.4, *([0.8 * len(curves) + 0.3] if curves else []), 5.8]
    figure = Figure(figsize=(1.55 * columns + 0.6, sum(heights)), dpi=110, layout="constrained")
    top, *middle, bottom = np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights)).tolist()
    _draw_frames(top.subplots(rows, columns, squeeze=False), spec, demonstration, steps)
    for place in middle:
        for axes, own in zip(place.subplots(len(curves), sharex=True, squeeze=False).flat, curves, strict=True):
            _draw_curves(axes, own, demonstration)
    number = "" if demonstration.episode is None else f" {demonstration.episode}"
    name = f"{title or 'episode'}{number} · seed {demonstration.seed}"
    result = "solved" if demonstration.success else "not solved"
    figure.suptitle(f"{name} · {counted(len(demonstration), 'step')} · {result}")
    _draw_matrix(bottom.subplots(), demonstration)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_bytes(path, buffer.getvalue())


def _draw_frames(places: Any, spec: ObservationSpec, demonstration: Demonstration, steps: Sequence[int]) -> None:
    tile = 24 if len(parts_drawn(spec, bars=False)) > 1 else 16  # names are to be read
    frames = draw_observations(spec, at_steps(demonstration.observations, steps), tile, bars=False)
    recalled = {pair.p for pair in demonstration.memory_pairs()}
    deciding = {pair.q for pair in demonstration.memory_pairs()}
    for axes in places.flat:
        axes.set_axis_off()
    for axes, frame, step in zip(places.flat, frames, steps, strict=False):
        axes.imshow(frame)
        role = " recalled" if step in recalled else " recalls" if step in deciding else ""
        axes.set_title(f"step {step}{role}", fontsize=8, color="#b3261e" if role else "black")


def _draw_curves(axes: Any, curves: Curves, demonstration: Demonstration) -> None:
    """Each number between its own bounds; steps that are recalled are marked."""
    for number, line in enumerate(curves.heights.T):
        axes.plot(line, color=LINE_COLOURS[number % len(LINE_COLOURS)], linewidth=1.2)
    for step in {pair.p for pair in demonstration.memory_pairs()}:
        axes.axvline(step, color="#b3261e", linewidth=0.6, alpha=0.6)
    axes.set(xlim=(-0.5, len(curves.heights) - 0.5), ylim=(-0.08, 1.08), yticks=[])
    axes.set_ylabel(curves.name, rotation=0, ha="right", va="center", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.xaxis.get_major_locator().set_params(integer=True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)


def _draw_matrix(axes: Any, demonstration: Demonstration) -> None:
    length = len(demonstration)
    axes.set(xlim=(-0.5, length - 0.5), ylim=(length - 0.5, -0.5), aspect="equal")
    axes.plot([-0.5, length - 0.5], [-0.5, length - 0.5], color="#999999", linewidth=0.8)
    axes.set_xlabel("recalled step p")
    axes.set_ylabel("deciding step q")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if demonstration.pairs is None:
        axes.set_title("expert matrix E: not annotated", fontsize=10)
        return
    p, q, times = np.asarray(demonstration.pairs).T
    matrix = np.full((length, length), np.nan)
    matrix[q, p] = times
    most = int(times.max(initial=1))
    axes.imshow(matrix, cmap="viridis_r", vmin=0.5, vmax=most + 0.5, interpolation="nearest")
    # On a long episode a cell is only a few pixels wide; a dot keeps a single pair visible.
    size = 7 if length > 60 else 0
    dots = axes.scatter(p, q, s=size, c=times, cmap="viridis_r", vmin=0.5, vmax=most + 0.5)
    if most > 1:
        handles, labels = dots.legend_elements(prop="colors", num=None if most <= 6 else 5)
        axes.legend(handles, labels, title="multiplicity", loc="upper right")
    axes.set_title(f"expert matrix E in timesteps: {counted(len(p), 'pair')}", fontsize=10)
