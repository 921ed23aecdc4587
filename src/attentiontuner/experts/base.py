"""What an expert is: it acts, and says which earlier steps it used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

EXPERT_ANNOTATOR = "expert"
"""The annotator name under which `Decision.recalled` is stored."""


@dataclass(frozen=True)
class Decision:
    """One action and its memory.

    Attributes:
        action: the action taken at this step.
        recalled: the earlier steps p the decision used; a step listed twice counts twice (its multiplicity).
        also: other annotators' answers to the same question, by annotator name (Searing Spotlights: `sparse`).
    """

    action: int
    recalled: Sequence[int] = ()
    also: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Expert(Protocol):
    """One episode's expert. It is made as `Expert(env)` right after `env.reset(...)` and thrown away at the end.

    Experts of the LTMB tasks ignore `env` and see only the observations. An expert that reads `env` may read only
    what a person would see on the screen, and its docstring says what it reads.
    """

    def decide(self, observation: NDArray[Any]) -> Decision:
        """The decision at the next step; called once a step, in order, with the observation before the action."""
        ...
