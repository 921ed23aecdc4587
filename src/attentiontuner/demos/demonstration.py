"""One episode of somebody who knows how, with what they were remembering."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.core.wording import counted
from attentiontuner.demos.frozen import frozen
from attentiontuner.demos.pair_rules import MemoryPair, name_of
from attentiontuner.demos.pairs import PairTable
from attentiontuner.spaces.observation import Arrays


@dataclass(frozen=True, eq=False)
class Demonstration:
    """An episode of T steps: o_0, a_0, …, o_{T-1}, a_{T-1}. Validated when made; its arrays are its own and read-only.

    Observations and actions are enough: the rest says by default that the episode was solved and paid nothing.

    Attributes:
        observations: `[T, …]`, the observation before each action; of several parts name → `[T, …]`.
        actions: `[T]` int64, where several are chosen at once `[T, n]`; numbers within bounds float32 `[T, …]`.
        rewards: `[T]` float32, the reward after each action; zeros where none are given.
        terminated: the task ended the episode.
        truncated: a time limit ended it.
        seed: the environment seed the episode was reset with.
        success: whether the task was solved.
        pairs: a table of this episode, made of any list of (p, q) or (p, q, multiplicity), see `demos.pairs`; **None
            means not annotated**, a table without a pair means annotated with nothing to remember.
        episode: its number in the data set, for messages; None before it has one.
    """

    observations: Arrays
    actions: NDArray[Any]
    rewards: NDArray[np.float32] = None  # type: ignore[assignment]  # never None once it is made
    terminated: bool = True
    truncated: bool = False
    seed: int = 0
    success: bool = True
    pairs: PairTable | None = None
    episode: int | None = None

    def __post_init__(self) -> None:
        length = len(self.actions)
        if length == 0:
            raise UserError(f"{self.name}, actions: an episode needs at least one step, this has 0")
        if self.rewards is None:
            object.__setattr__(self, "rewards", np.zeros(length, np.float32))
        for field, array in (*self._parts(), ("rewards", self.rewards)):
            if len(array) != length:
                entries = counted(len(array), "entry", "entries")
                raise UserError(f"{self.name}, {field}: {entries}, but actions has {length}")
        if np.ndim(self.rewards) != 1:
            raise UserError(
                f"{self.name}, rewards: expected one number a step, shape [T], not {np.shape(self.rewards)}"
            )
        if not isinstance(self.seed, int | np.integer):
            raise UserError(f"{self.name}, seed: {self.seed!r} is not a whole number")
        if not np.isfinite(self.rewards).all():
            raise UserError(f"{self.name}, rewards: a reward is not a finite number")
        seen = {part: self._observed(part, array) for part, array in self._parts()}
        named = isinstance(self.observations, Mapping)
        observations = dict(zip(self.observations, seen.values(), strict=True)) if named else seen["observations"]
        object.__setattr__(self, "observations", observations)
        object.__setattr__(self, "actions", self._acted())
        object.__setattr__(self, "rewards", frozen(self.rewards, np.float32))
        if self.pairs is not None:
            pairs = PairTable.of(self.pairs, length, self.episode)
            object.__setattr__(self, "pairs", pairs if pairs.annotated[0] else None)

    def _parts(self) -> list[tuple[str, Any]]:
        """What messages call each part of the observations, and its array."""
        if isinstance(self.observations, Mapping):
            return [(f"observations, part {name!r}", array) for name, array in self.observations.items()]
        return [("observations", self.observations)]

    def _observed(self, part: str, given: Any) -> NDArray[Any]:
        try:
            return frozen(given)
        except ValueError:  # a list of arrays of several shapes
            shapes = [np.shape(one) for one in given]
            step = next(step for step, shape in enumerate(shapes) if shape != shapes[0])
            changed = f"they differ in shape, {shapes[0]} and {shapes[step]} from step {step} on"
            raise UserError(f"{self.name}, {part}: {changed}") from None

    def _acted(self) -> NDArray[Any]:
        """The actions; which of them there are, only the data set's specification knows."""
        actions = np.asarray(self.actions)
        if actions.dtype.kind in "iu" and actions.min() >= 0:
            return frozen(self.actions, np.int64)
        if actions.dtype.kind in "iuf" and actions.ndim > 1 and np.isfinite(actions).all():
            return frozen(self.actions, np.float32)
        if actions.dtype.kind == "f" and actions.ndim > 1:
            step = int(np.argwhere(~np.isfinite(actions))[0][0])
            raise UserError(f"{self.name}, actions, step {step}: a number that is not finite (NaN or infinite)")
        raise UserError(f"{self.name}, actions: expected whole numbers from 0, shape [T], or numbers, shape [T, …]")

    @property
    def name(self) -> str:
        """What messages call it."""
        return name_of(self.episode)

    def __len__(self) -> int:
        """Number of steps T."""
        return len(self.actions)

    def __repr__(self) -> str:
        memory = "not annotated" if self.pairs is None else counted(len(self.pairs), "pair")
        shapes = [
            f"{name} ".replace("observations, part ", "") + "×".join(map(str, np.shape(array)))
            for name, array in self._parts()
        ]
        result = "success" if self.success else "failure"
        number = "" if self.episode is None else f"episode {self.episode}, "
        return f"Demonstration({number}seed {self.seed}, {', '.join(shapes)}, {result}, {memory})"

    def memory_pairs(self) -> Iterator[MemoryPair]:
        """The pairs one by one; nothing where the episode is not annotated."""
        return iter(self.pairs if self.pairs is not None else ())

    def with_pairs(self, pairs: Any) -> "Demonstration":
        """The same episode with other pairs (None: not annotated)."""
        return replace(self, pairs=pairs)
