"""What one observation looks like: the one fact that environments, stores, models and pages share."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from attentiontuner.errors import UserError
from attentiontuner.wording import counted

ObservationKind = Literal["grid", "image", "vector"]

MINIGRID_SYMBOLS = (11, 6, 3)
"""Minigrid's cell: object kind, colour, state."""


@dataclass(frozen=True)
class ObservationSpec:
    """Kind and shape of one observation.

    - `grid`: uint8 `[W, H, C]`, each channel c a symbol in `range(symbols[c])` (Minigrid: 7×7×3).
    - `image`: uint8 `[H, W, 3]`, RGB, row 0 at the top; not `upright`: `[W, H, 3]`, indexed [x, y], as Memory Gym's.
    - `vector`: float32 `[D]`.
    """

    kind: ObservationKind
    shape: tuple[int, ...]
    symbols: tuple[int, ...] = ()
    upright: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        object.__setattr__(self, "symbols", tuple(int(n) for n in self.symbols))
        if self.kind not in get_args(ObservationKind):
            raise UserError(f"observation kind {self.kind!r} is not one of {', '.join(get_args(ObservationKind))}")
        rank = 1 if self.kind == "vector" else 3
        if len(self.shape) != rank or min(self.shape) < 1:
            sizes = counted(rank, "size")
            raise UserError(f"observation shape {self.shape} does not fit kind {self.kind!r}: {sizes} from 1")
        if self.kind == "grid" and len(self.symbols) != self.shape[2]:
            counts = counted(self.shape[2], "symbol count")
            raise UserError(f"a grid of shape {self.shape} needs {counts}, not {self.symbols}")
        if self.kind == "image" and self.shape[2] != 3:
            raise UserError(
                f"an image of shape {self.shape} is not RGB: its three colours come last, as in (84, 84, 3)"
            )
        if self.kind != "image":
            object.__setattr__(self, "upright", True)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type observations are stored in."""
        return np.dtype(np.float32 if self.kind == "vector" else np.uint8)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value = asdict(self)
        if self.kind != "image" or not self.upright:  # data sets older than this field have no upright images
            del value["upright"]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ObservationSpec":
        upright = bool(value.get("upright", False))
        return cls(value["kind"], tuple(value["shape"]), tuple(value.get("symbols", ())), upright)
