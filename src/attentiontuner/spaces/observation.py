"""What one observation is: named parts, each an image, a symbol grid or a vector, in a fixed number of bytes.

Stores, batches and worker processes carry the bytes and never look inside; networks and pictures take them apart. Most
observations have one part, which needs no name: it comes and goes as a plain array, and its bytes are a view of it.
Several parts come and go as a dictionary of arrays.
"""

import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted

PartKind = Literal["grid", "image", "vector"]

MINIGRID_SYMBOLS = (11, 6, 3)
"""Minigrid's cell: object kind, colour, state."""

COLOURS = 4
"""The most channels that one image has: red, green, blue and another."""

SMALLEST_FLOATS = 8
"""Pixels of a side from which on an array of floats is taken for an image: below lie rotations, poses and the like."""

Arrays: TypeAlias = "NDArray[Any] | Mapping[str, NDArray[Any]]"
"""Observations as people have them: one array `[n, …]`, or one for each named part."""


class SpaceError(UserError):
    """Something that is not what a specification promises; `row` is the first of those given that is not."""

    def __init__(self, problem: str, row: int = 0) -> None:
        super().__init__(problem)
        self.problem, self.row = problem, row


def _numbers(name: str, given: Sequence[int]) -> tuple[int, ...]:
    """Sizes or counts of what is `name`d, as whole numbers."""
    if isinstance(given, int):
        raise UserError(f"observation {name} {given}: write ({given},)")
    return tuple(int(number) for number in given)


@dataclass(frozen=True)
class Part:
    """One sensor.

    - `grid`: uint8 `[W, H, C]`, each channel c a symbol in `range(symbols[c])` (Minigrid: 7×7×3).
    - `image`: uint8 `[H, W, C]`, row 0 at the top; not `upright`: `[W, H, C]`, indexed [x, y], as Memory Gym's. What is
      given may have its channels first, `[C, H, W]`, or be a stack of images, which become channels.
    - `vector`: float32 `[D]`. With `choices` it is made of whole numbers, one in `range(n)` for each n of `choices`, as
      ones among zeros.
    """

    kind: PartKind
    shape: tuple[int, ...]
    symbols: tuple[int, ...] = ()
    upright: bool = True
    choices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("shape", "symbols", "choices"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        if self.kind not in get_args(PartKind):
            raise UserError(f"observation kind {self.kind!r} is not one of {', '.join(get_args(PartKind))}")
        rank = 1 if self.kind == "vector" else 3
        if len(self.shape) != rank or min(self.shape) < 1:
            sizes = counted(rank, "size")
            raise UserError(f"observation shape {self.shape} does not fit kind {self.kind!r}: {sizes} from 1")
        if self.kind == "grid" and len(self.symbols) != self.shape[2]:
            counts = counted(self.shape[2], "symbol count")
            raise UserError(f"a grid of shape {self.shape} needs {counts}, not {self.symbols}")
        if self.symbols and not 1 <= min(self.symbols) <= max(self.symbols) <= 256:
            raise UserError(f"symbol counts {self.symbols}: a channel has 1 to 256 symbols")
        if self.choices and (self.kind != "vector" or sum(self.choices) != self.shape[0]):
            raise UserError(f"choices {self.choices} do not make a {self.kind} of shape {self.shape}")
        if self.kind != "image":
            object.__setattr__(self, "upright", True)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type its numbers are kept in."""
        return np.dtype(np.float32 if self.kind == "vector" else np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of one."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.kind} {'×'.join(map(str, self.shape))}"

    def encode(self, given: Any) -> NDArray[np.uint8]:
        """`[n, …]` → bytes `[n, nbytes]`; without copying where type and layout are right already. A tuple holds the
        `choices` in several arrays `[n]` or `[n, k]`."""
        try:
            array = np.column_stack(list(_leaves(given))) if self._apart(given) else np.asarray(given)
        except (TypeError, ValueError):
            array = np.asarray(None)
        if array.dtype.kind not in "fiub":
            raise SpaceError(
                f"no array of numbers, but {type(given).__name__}: give {self.dtype} of shape {self.shape}"
            )
        if self.choices and array.ndim and math.prod(array.shape[1:]) == len(self.choices) < self.shape[0]:
            array = self._chosen(array)
        elif self.kind == "vector" and array.ndim and math.prod(array.shape[1:]) == self.shape[0]:
            array = array.reshape(len(array), -1)
        elif self.kind == "image":
            array = _channels_last(array, self.shape)
        if array.shape[1:] != self.shape or not array.ndim:
            raise SpaceError(f"{array.dtype} of shape {array.shape[1:]}, not {self.dtype} of shape {self.shape}")
        array = self._typed(array)
        self._check_values(array)
        return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)

    def decode(self, encoded: NDArray[np.uint8]) -> NDArray[Any]:
        """Bytes `[n, nbytes]` → `[n, …]`."""
        return np.ascontiguousarray(encoded).view(self.dtype).reshape(len(encoded), *self.shape)

    def _chosen(self, array: NDArray[Any]) -> NDArray[np.float32]:
        numbers = array.reshape(len(array), len(self.choices))
        limits = np.array(self.choices)
        bad = (numbers < 0) | (numbers >= limits) | (numbers != np.trunc(numbers))
        if bad.any():
            row, place = np.argwhere(bad)[0]
            raise SpaceError(f"choice {numbers[row, place]}, but there are {limits[place]}, from 0", int(row))
        ones = np.zeros((len(array), self.shape[0]), np.float32)
        np.put_along_axis(ones, numbers.astype(np.int64) + np.cumsum(limits) - limits, 1, 1)
        return ones

    def _one_chosen(self, given: Any) -> NDArray[np.float32] | None:
        """One whole number for each of its choices, without detours; None where something else is given."""
        if not len(self.choices) < self.shape[0]:
            return None
        if type(given) is np.ndarray and given.dtype.kind in "iu" and given.ndim == 1:
            given = given.tolist()
        numbers = (given,) if type(given) is int else given
        if type(numbers) not in (tuple, list) or len(numbers) != len(self.choices):
            return None
        ones, first = np.zeros(self.shape, np.float32), 0
        for number, count in zip(numbers, self.choices, strict=True):
            if type(number) is not int or not 0 <= number < count:
                return None  # it is refused elsewhere, in words
            ones[first + number] = 1
            first += count
        return ones

    def _typed(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.dtype == self.dtype:
            return array
        if self.kind == "vector":
            with np.errstate(over="ignore"):  # what is too large is refused as infinite
                return array.astype(np.float32)
        if array.dtype.kind == "f":
            raise SpaceError(f"{array.dtype}, not {self.dtype}: give {self._wanted_of(array)}")
        outside = (array < 0) | (array > 255)
        if outside.any():
            row = int(np.argwhere(outside)[0][0])
            number = array[row][outside[row]].flat[0]
            raise SpaceError(f"the number {number}: give whole numbers from 0 to 255", row)
        return array.astype(np.uint8)

    def _wanted_of(self, floats: NDArray[Any]) -> str:
        """What to give in place of floats, going by how large they are."""
        if self.kind != "image" or not (floats >= 0).all() or not (floats <= 255).all():
            return "whole numbers from 0 to 255"
        if (floats <= 1).all():
            return "(255 * images).astype('uint8') where they go from 0 to 1"
        return "images.astype('uint8')"

    @cached_property
    def _highest(self) -> NDArray[np.uint8]:
        """The highest symbol of every place of a grid."""
        return np.broadcast_to(np.array(self.symbols) - 1, self.shape).astype(np.uint8, order="C")

    def one(self, given: Any) -> NDArray[Any]:
        """A checked copy of one."""
        if type(given) is np.ndarray and given.dtype == self.dtype and given.shape == self.shape:
            # Experts and players come through here at every step: no detours where nothing is wrong.
            if self.kind == "vector":
                fine = np.count_nonzero(np.isfinite(given)) == given.size
            else:
                fine = self.kind == "image" or not np.count_nonzero(given > self._highest)
            if fine:
                return given.copy()
        if (ones := self._one_chosen(given)) is not None:
            return ones
        return self.decode(self.encode_one(given)[None]).reshape(self.shape).copy()

    def encode_one(self, given: Any) -> NDArray[np.uint8]:
        """One, checked, as bytes `[nbytes]`."""
        if (ones := self._one_chosen(given)) is not None:
            return ones.view(np.uint8)
        whole = np.concatenate([np.ravel(leaf) for leaf in _leaves(given)]) if self._apart(given) else given
        encoded: NDArray[np.uint8] = self.encode([whole])[0]
        return encoded

    def _apart(self, given: Any) -> bool:
        """Whether its choices come in several pieces, as those of Gymnasium's tuples do."""
        return bool(self.choices) and isinstance(given, tuple)

    def _check_values(self, array: NDArray[Any]) -> None:
        """Numbers that are finite, symbols that there are."""
        if self.kind == "vector":
            finite = np.isfinite(array)
            if not finite.all():
                row = int(np.argmin(finite.all(1)))
                raise SpaceError("a number that is not finite (NaN or infinite)", row)
        elif self.symbols and min(self.symbols) < 256:
            unknown = array > self._highest
            if unknown.any():
                row, x, y, channel = np.argwhere(unknown)[0]
                limit = counted(self.symbols[channel], "symbol")
                raise SpaceError(
                    f"symbol {array[row, x, y, channel]} in channel {channel}, which has {limit}", int(row)
                )

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"kind": self.kind, "shape": list(self.shape), "symbols": list(self.symbols)}
        if self.kind == "image" and self.upright:  # data sets older than this field have no upright images
            value["upright"] = True
        if self.choices:
            value["choices"] = list(self.choices)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Part":
        shape, symbols, choices = (tuple(value.get(name, ())) for name in ("shape", "symbols", "choices"))
        return cls(value["kind"], shape, symbols, bool(value.get("upright", False)), choices)


@dataclass(frozen=True, init=False)
class ObservationSpec:
    """One observation as named parts: `ObservationSpec("vector", (4,))` has one part without a name;
    `ObservationSpec(parts={"camera": Part("image", (96, 96, 3)), "joints": Part("vector", (7,))})` has two.

    Attributes:
        parts: (name, part) in order; the only part may be called "".
    """

    parts: tuple[tuple[str, Part], ...]

    def __init__(
        self,
        kind: PartKind | None = None,
        shape: Sequence[int] = (),
        symbols: Sequence[int] = (),
        upright: bool = True,
        *,
        parts: Mapping[str, Part] | None = None,
    ) -> None:
        if parts is None:
            parts = {"": Part(kind or "vector", _numbers("shape", shape), _numbers("symbols", symbols), upright)}
        if not parts or (len(parts) > 1 and "" in parts):
            raise UserError("an observation has at least one part, and of several parts each has a name")
        object.__setattr__(self, "parts", tuple(parts.items()))

    @property
    def plain(self) -> bool:
        """Whether observations are arrays: there is one part, and it has no name."""
        return self.parts[0][0] == ""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its parts."""
        return frozenset(part.kind for _, part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of one observation."""
        return sum(part.nbytes for _, part in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{name} {part}".strip() for name, part in self.parts)

    def encode(self, observations: Any) -> NDArray[np.uint8]:
        """Observations `[n, …]`, or a dictionary of them, as bytes `[n, nbytes]`.

        Raises `SpaceError` where they are not what this specification promises: another shape or type, unknown symbols,
        numbers that are not finite. Everything that enters a store, a network or a shared row comes through here.
        """
        if self.plain:
            return self.parts[0][1].encode(observations)
        encoded = self._each(observations, Part.encode)
        if len({len(rows) for rows in encoded}) > 1:
            raise SpaceError(f"parts of {' and '.join(str(len(rows)) for rows in encoded)} observations")
        return np.concatenate(encoded, axis=1)

    def _each(self, observations: Any, encode: Callable[[Part, Any], NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
        """What is given for each part, encoded; dictionaries and tuples may hold further ones."""
        names = [name for name, _ in self.parts]
        given = dict(_flat(observations, "", names))
        if set(given) != set(names):
            found = ", ".join(given) or f"one {type(observations).__name__}"
            raise SpaceError(f"parts {', '.join(names)} are promised, not {found}")
        encoded = []
        for name, part in self.parts:
            try:
                encoded.append(encode(part, given[name]))
            except SpaceError as error:
                raise SpaceError(f"part {name!r}: {error.problem}", error.row) from None
        return encoded

    def decode(self, encoded: NDArray[np.uint8]) -> Arrays:
        """Bytes `[n, nbytes]` as observations `[n, …]`: an array, or a dictionary of them."""
        if self.plain:
            return self.parts[0][1].decode(encoded)
        ends = np.cumsum([part.nbytes for _, part in self.parts])[:-1]
        split = np.split(encoded, ends, axis=1)
        return {name: part.decode(rows) for (name, part), rows in zip(self.parts, split, strict=True)}

    def encode_one(self, observation: Any) -> NDArray[np.uint8]:
        """One observation, checked, as bytes `[nbytes]`."""
        if self.plain:
            return self.parts[0][1].encode_one(observation)
        return np.concatenate(self._each(observation, Part.encode_one))

    def one(self, observation: Any) -> Any:
        """A copy of one observation, checked and in its types: an array `[…]`, or a dictionary of them."""
        if self.plain:
            return self.parts[0][1].one(observation)
        decoded = self.decode(self.encode_one(observation)[None])
        assert isinstance(decoded, Mapping)
        return {name: rows[0] for name, rows in decoded.items()}

    def stack(self, observations: Sequence[Any]) -> Arrays:
        """Several that `one` gave, as observations `[n, …]`."""
        if self.plain:
            return np.concatenate(observations).reshape(-1, *self.parts[0][1].shape)
        return {name: np.stack([one[name] for one in observations]) for name, _ in self.parts}

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        if self.plain:
            return self.parts[0][1].to_json()
        return {"parts": {name: part.to_json() for name, part in self.parts}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ObservationSpec":
        if "parts" in value:
            return cls(parts={str(name): Part.from_json(part) for name, part in value["parts"].items()})
        return cls(parts={"": Part.from_json(value)})

    @classmethod
    def from_space(cls, space: Any) -> "ObservationSpec":
        """What a Gymnasium space gives: bytes of two or three dimensions are images (channels last or first), of four
        stacks of them, other boxes vectors; `Discrete`, `MultiDiscrete` and tuples of them become ones among zeros; of
        `Dict` and other tuples each entry is a part. What looks like an image of floats is refused: a network would see
        a vector."""
        return cls(parts=dict(_entries(space, "")))


def _flat(observation: Any, name: str, parts: Collection[str]) -> Iterator[tuple[str, Any]]:
    """(name, what is given for it) of the `parts`, and of arrays that belong to none, in dictionaries and tuples within
    one another; names are joined by dots."""
    if isinstance(observation, Mapping | tuple) and name not in parts:
        for key, entry in observation.items() if isinstance(observation, Mapping) else enumerate(observation):
            yield from _flat(entry, f"{name}.{key}" if name else str(key), parts)
    elif name:
        yield name, observation


def _leaves(given: Any) -> Iterator[Any]:
    """What tuples within one another hold, in order."""
    if isinstance(given, tuple):
        for entry in given:
            yield from _leaves(entry)
    else:
        yield given


def _entries(space: Any, name: str) -> Iterator[tuple[str, Part]]:
    """(name, part) of everything in a Gymnasium space, named as in `_flat`."""
    from gymnasium import spaces

    choices = _choices(space)
    if choices:
        yield name, Part("vector", (sum(choices),), choices=choices)
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        for key, entry in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _entries(entry, f"{name}.{key}" if name else str(key))
    elif isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3, 4):
        yield name, Part("image", _image_shape(space.shape))
    elif isinstance(space, spaces.Box) and _float_image(space):
        which = f" ({name})" if name else ""
        raise UserError(
            f"observations of {textwrap.shorten(str(space), 80)}{which} look like an image, and are floats: make uint8 "
            "of them in the task's wrap (255 * image where it goes from 0 to 1), or a flat vector where they are none"
        )
    elif isinstance(space, spaces.Box | spaces.MultiBinary):
        yield name, Part("vector", (math.prod(space.shape),))
    else:
        given = textwrap.shorten(str(space), 80)  # spaces print arrays, in lines
        raise UserError(f"observations of {given} cannot be learned from: make arrays of them in the task's wrap")


def _float_image(space: Any) -> bool:
    """Whether a box of floats looks like an image: it has two sides of pixels, and few channels; without any, it goes
    from 0 to 1 or 255."""
    if space.dtype.kind != "f" or len(space.shape) not in (2, 3):
        return False
    *sides, channels = _image_shape(space.shape)
    bounded = np.all(space.low == 0) and (np.all(space.high == 1) or np.all(space.high == 255))
    return min(sides) >= SMALLEST_FLOATS and channels <= COLOURS and (len(space.shape) == 3 or bool(bounded))


def _image_shape(given: tuple[int, ...]) -> tuple[int, int, int]:
    """`(H, W, C)` of images that are given as `[H, W]`, `[H, W, C]`, `[C, H, W]` or a stack of these. Channels come
    first where they are at most half as many as the pixels of either side, and the last is too large for channels."""
    if len(given) == 4:
        height, width, channels = _image_shape(given[1:])
        return height, width, given[0] * channels
    first, second, last = (*given, 1)[:3]
    if len(given) == 3 and last > COLOURS and 2 * first <= min(second, last):
        return second, last, first
    return first, second, last


def _channels_last(images: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Images `[n, …]` as `[n, H, W, C]` where they are given in another order; as they are where it does not fit."""
    given, sides, channels = images.shape[1:], shape[:2], shape[2]
    if given == shape:
        return images
    if given == sides and channels == 1:
        return images[..., None]
    if len(given) == 4 and given[1:3] == sides and given[0] * given[3] == channels:  # [n, S, H, W, c]
        return np.moveaxis(images, 1, 3).reshape(len(images), *shape)
    if len(given) == 4 and given[2:] == sides and given[0] * given[1] == channels:  # [n, S, c, H, W]
        images = images.reshape(len(images), channels, *sides)
    return np.moveaxis(images, 1, 3) if images.shape[1:] == (channels, *sides) else images


def _choices(space: Any) -> tuple[int, ...]:
    """How many choices each whole number of a space has; none where it is not made of whole numbers from 0."""
    from gymnasium import spaces

    if isinstance(space, spaces.Tuple):
        inside = [_choices(entry) for entry in space.spaces]
        return sum(inside, ()) if all(inside) else ()
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not np.any(space.start):
        return tuple(int(n) for n in space.nvec)
    return (int(space.n),) if isinstance(space, spaces.Discrete) and space.start == 0 else ()
