"""What one action is: one of several, several such choices at once, or numbers within bounds."""

import math
import reprlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.spaces.observation import SpaceError

ActionKind = Literal["discrete", "multi-discrete", "box"]

OUTSIDE = 1e-5
"""How far outside its bounds a number may lie, as a share of the bound: what rounding to float32 does."""

ALIKE = 0.1
"""Numbers that differ by at most this share of their range count as the same."""


@dataclass(frozen=True)
class ActionSpec:
    """One action. Made with `discrete`, `multi_discrete` or `box`.

    Attributes:
        kind: `discrete`: a whole number in `range(choices[0])`; `multi-discrete`: one in `range(n)` for each n of
            `choices`; `box`: numbers from `low` to `high`, float32.
        low, high: of a box, one for each number.
        shape: of an action: () where it is discrete.
        names: what people call the discrete actions. They do not tell two specifications apart.
    """

    kind: ActionKind
    choices: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.kind == "box":
            good = self.shape and len(self.low) == len(self.high) == math.prod(self.shape) >= 1
            if not good or not all(low < high for low, high in zip(self.low, self.high, strict=True)):
                raise UserError(
                    f"actions from {self.low} to {self.high} of shape {self.shape}: give a low below each high"
                )
        elif not self.choices or min(self.choices) < 1 or (self.kind == "discrete" and len(self.choices) != 1):
            raise UserError(f"actions of kind {self.kind} with choices {self.choices}: give at least 1 for each")
        if self.names and len(self.names) != self.count:
            raise UserError(f"{counted(len(self.names), 'name')} for {counted(self.count, 'action')}")

    @classmethod
    def discrete(cls, actions: int | Sequence[str]) -> "ActionSpec":
        """One of several actions: their number, or their names in order."""
        if isinstance(actions, int | np.integer):
            return cls("discrete", (int(actions),))
        return cls("discrete", (len(actions),), names=tuple(map(str, actions)))

    @classmethod
    def multi_discrete(cls, choices: Sequence[int]) -> "ActionSpec":
        """Several choices at once: how many each has."""
        return cls("multi-discrete", tuple(map(int, choices)), shape=(len(choices),))

    @classmethod
    def box(cls, low: Any, high: Any) -> "ActionSpec":
        """Numbers within bounds: two arrays of one shape (numbers: one each), as float32 has them: so have spaces."""
        lows, highs = np.broadcast_arrays(*(np.atleast_1d(np.asarray(bound, np.float32)) for bound in (low, high)))
        return cls("box", (), tuple(lows.ravel().tolist()), tuple(highs.ravel().tolist()), lows.shape)

    @classmethod
    def of(cls, actions: Any) -> "ActionSpec":
        """A specification, or the names (or number) of discrete actions."""
        return actions if isinstance(actions, ActionSpec) else cls.discrete(actions)

    @property
    def count(self) -> int:
        """How many discrete actions there are; of other kinds how many numbers an action has."""
        return self.choices[0] if self.kind == "discrete" else math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.kind == "box" else np.int64)

    def __str__(self) -> str:
        if self.kind == "box":
            return counted(self.count, "number") + (
                " within bounds" if np.isfinite([*self.low, *self.high]).any() else ""
            )
        return (
            counted(self.count, "action") if self.kind == "discrete" else f"choices {'×'.join(map(str, self.choices))}"
        )

    def encode(self, actions: Any) -> NDArray[Any]:
        """Actions `[n, *shape]` in `dtype`. Raises `SpaceError` where one of them is none of this specification."""
        try:
            array = np.asarray(actions)
        except (TypeError, ValueError):
            array = np.asarray(None)
        if array.dtype.kind not in ("fiu" if self.kind == "box" else "iu") or not array.ndim:
            wanted = "numbers" if self.kind == "box" else "whole numbers from 0"
            first = f"action {reprlib.repr(array[:1].tolist()[0])}" if array.ndim and len(array) else "no actions"
            raise SpaceError(f"{first}: expected {wanted}")
        if array.shape[1:] != self.shape:
            raise SpaceError(f"actions of shape {array.shape[1:]}, not {self.shape}")
        bad = self._outside(array)
        if bad.any():
            row = int(np.argwhere(bad)[0][0])
            raise SpaceError(f"action {array[row].tolist()}, but there are {self.range()}", row)
        return array.astype(self.dtype, copy=False)

    def _outside(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        if self.kind != "box":
            outside: NDArray[np.bool_] = (array < 0) | (array >= np.array(self.choices).reshape(self.shape))
            return outside
        low, high = (np.array(bound).reshape(self.shape) for bound in (self.low, self.high))
        slack = [OUTSIDE * np.maximum(1, np.abs(np.where(np.isfinite(bound), bound, 1))) for bound in (low, high)]
        inside: NDArray[np.bool_] = (array >= low - slack[0]) & (array <= high + slack[1]) & np.isfinite(array)
        return ~inside

    def range(self) -> str:
        """Which actions there are, in words."""
        if self.kind == "discrete":
            return f"only {counted(self.count, 'action')}, counted from 0"
        if self.kind == "multi-discrete":
            return f"only {self}"
        low, high = (", ".join(f"{number:g}" for number in bound) for bound in (self.low, self.high))
        return f"numbers from [{low}] to [{high}]"

    def one(self, action: Any) -> Any:
        """One action as an environment takes it: an int, or an array of `shape`; checked."""
        if type(action) is int and self.kind == "discrete" and 0 <= action < self.choices[0]:
            return action  # nearly always, and at every step
        checked = self.encode(np.asarray(action)[None])[0]
        return int(checked) if self.kind == "discrete" else checked

    def name(self, action: Any) -> str:
        """What people call an action."""
        if self.kind == "discrete":
            return self.names[int(action)] if self.names else str(int(action))
        return ", ".join(f"{number:.2f}" if self.kind == "box" else str(int(number)) for number in np.ravel(action))

    def alike(self, action: Any, other: Any) -> bool:
        """Whether people would call two actions the same: numbers at most a tenth of their range apart, or, where
        they have no range, of the larger of the two (of 1, where that is less)."""
        if self.kind != "box":
            return bool(np.array_equal(action, other))
        one, two = (np.ravel(numbers).astype(np.float64) for numbers in (action, other))
        span = np.array(self.high) - np.array(self.low)
        size = np.where(np.isfinite(span), span, np.maximum(1, np.maximum(np.abs(one), np.abs(two))))
        return bool((np.abs(one - two) <= ALIKE * size).all())

    def draw(self, generator: np.random.Generator) -> Any:
        """An action at random; where a box has no bound, from a normal distribution."""
        if self.kind == "discrete":
            return int(generator.integers(self.count))
        if self.kind == "multi-discrete":
            return generator.integers(self.choices)
        low, high = np.array(self.low), np.array(self.high)
        bounded = np.isfinite(low) & np.isfinite(high)
        drawn = generator.uniform(np.where(bounded, low, 0), np.where(bounded, high, 1))
        drawn = np.where(bounded, drawn, np.clip(generator.standard_normal(len(low)), low, high))
        return drawn.astype(np.float32).reshape(self.shape)

    def unnamed(self) -> "ActionSpec":
        """The same without names, as a network keeps it."""
        return replace(self, names=())

    def to_json(self) -> Any:
        """A JSON value that `from_json` reads back: of discrete actions their names, or their number."""
        if self.kind == "discrete":
            return list(self.names) or self.count
        if self.kind == "multi-discrete":
            return {"kind": self.kind, "choices": list(self.choices)}
        bounds = {name: [_finite(n) for n in getattr(self, name)] for name in ("low", "high")}
        return {"kind": self.kind, **bounds, "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Any) -> "ActionSpec":
        if not isinstance(value, Mapping):
            return cls.discrete(value)
        if value["kind"] == "multi-discrete":
            return cls.multi_discrete(value["choices"])
        low, high = (
            [side * math.inf if n is None else float(n) for n in value[name]]
            for name, side in (("low", -1), ("high", 1))
        )
        shape = tuple(int(n) for n in value["shape"])
        return cls(value["kind"], (), tuple(low), tuple(high), shape)

    @classmethod
    def from_space(cls, space: Any) -> "ActionSpec":
        """What a Gymnasium space takes."""
        from gymnasium import spaces

        if isinstance(space, spaces.Discrete) and space.start == 0:
            return cls.discrete(int(space.n))
        if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not np.any(space.start):
            return cls.multi_discrete(space.nvec.tolist())
        if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.shape:
            return cls.box(space.low, space.high)
        given = textwrap.shorten(str(space), 80)  # spaces print arrays, in lines
        raise UserError(f"actions of {given} cannot be learned: make them Discrete(n), MultiDiscrete or Box")


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
