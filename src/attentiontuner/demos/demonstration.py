"""One episode of somebody who knows how, with what they were remembering."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.demos.pairs import MemoryPair, PairArray, as_pairs, name_of
from attentiontuner.errors import UserError
from attentiontuner.wording import counted


@dataclass(frozen=True, eq=False)
class Demonstration:
    """An episode of T steps: o_0, a_0, …, o_{T-1}, a_{T-1}. Validated when made; its arrays are read-only.

    Observations and actions are enough: the rest says by default that the episode was solved and paid nothing.

    Attributes:
        observations: `[T, …]`, the observation before each action.
        actions: `[T]` int64.
        rewards: `[T]` float32, the reward after each action; zeros where none are given.
        terminated: the task ended the episode.
        truncated: a time limit ended it.
        seed: the environment seed the episode was reset with.
        success: whether the task was solved.
        pairs: `[K, 3]` int32 rows (p, q, multiplicity), see `demos.pairs`; **None means not annotated**, an empty
            array means annotated with nothing to remember.
        episode: its number in the data set, for messages; None before it has one.
    """

    observations: NDArray[Any]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32] = None  # type: ignore[assignment]  # never None once it is made
    terminated: bool = True
    truncated: bool = False
    seed: int = 0
    success: bool = True
    pairs: PairArray | None = None
    episode: int | None = None

    def __post_init__(self) -> None:
        length = len(self.actions)
        if length == 0:
            raise UserError(f"{self.name}, actions: an episode needs at least one step, this has 0")
        if self.rewards is None:
            object.__setattr__(self, "rewards", np.zeros(length, np.float32))
        for field, array in (("observations", self.observations), ("rewards", self.rewards)):
            if len(array) != length:
                entries = counted(len(array), "entry", "entries")
                raise UserError(f"{self.name}, {field}: {entries}, but actions has {length}")
        if np.ndim(self.actions) != 1 or np.asarray(self.actions).dtype.kind not in "iu" or np.min(self.actions) < 0:
            raise UserError(f"{self.name}, actions: expected whole numbers from 0, shape [T]")
        if np.ndim(self.rewards) != 1:
            raise UserError(
                f"{self.name}, rewards: expected one number a step, shape [T], not {np.shape(self.rewards)}"
            )
        if not isinstance(self.seed, int | np.integer):
            raise UserError(f"{self.name}, seed: {self.seed!r} is not a whole number")
        if not np.isfinite(self.rewards).all():
            raise UserError(f"{self.name}, rewards: a reward is not a finite number")
        try:
            observations = np.asarray(self.observations)
        except ValueError:  # a list of arrays of several shapes
            shapes = sorted({np.shape(one) for one in self.observations}, key=str)
            raise UserError(
                f"{self.name}, observations: they differ in shape, {' and '.join(map(str, shapes[:2]))}"
            ) from None
        self._freeze("observations", observations)
        self._freeze("actions", np.asarray(self.actions, np.int64))
        self._freeze("rewards", np.asarray(self.rewards, np.float32))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", as_pairs(self.pairs, length, self.episode))

    def _freeze(self, field: str, array: NDArray[Any]) -> None:
        view = array.view()
        view.setflags(write=False)
        object.__setattr__(self, field, view)

    @property
    def name(self) -> str:
        """What messages call it."""
        return name_of(self.episode)

    def __len__(self) -> int:
        """Number of steps T."""
        return len(self.actions)

    def __repr__(self) -> str:
        memory = "not annotated" if self.pairs is None else counted(len(self.pairs), "pair")
        shape = "×".join(map(str, self.observations.shape))
        result = "success" if self.success else "failure"
        number = "" if self.episode is None else f"episode {self.episode}, "
        return f"Demonstration({number}seed {self.seed}, observations {shape}, {result}, {memory})"

    def memory_pairs(self) -> Iterator[MemoryPair]:
        """The pairs one by one; nothing where the episode is not annotated."""
        for p, q, multiplicity in self.pairs if self.pairs is not None else ():
            yield MemoryPair(int(p), int(q), int(multiplicity))

    def with_pairs(self, pairs: Any) -> "Demonstration":
        """The same episode with other pairs (None: not annotated)."""
        return replace(self, pairs=pairs)
