"""What an expert is: it acts, and says which earlier steps it used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from attentiontuner.errors import UserError

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


def checked(decision: Any, step: int, actions: int) -> Decision:
    """What an expert decided at `step`, refused where it is no `Decision`, chooses none of the `actions`, or recalls
    what is not an earlier step."""
    if not isinstance(decision, Decision):
        raise UserError(f"the expert decides with a {type(decision).__name__}, not with a Decision")
    if decision.action not in range(actions):
        raise UserError(f"the expert chose action {decision.action}; the actions are 0 to {actions - 1}")
    for recalled in (decision.recalled, *decision.also.values()):
        if not isinstance(recalled, Iterable):
            raise UserError(f"the expert recalls {recalled!r}: give a list of steps, such as [0]")
        for p in recalled:
            if not 0 <= p < step:
                raise UserError(f"the expert recalls step {p} at step {step}: only earlier steps can be recalled")
    return decision


class Expert(Protocol):
    """One episode's expert. It is made as `Expert(env)` right after `env.reset(...)` and thrown away at the end.

    Experts of the LTMB tasks ignore `env` and see only the observations. An expert that reads `env` may read only
    what a person would see on the screen, and its docstring says what it reads.
    """

    def decide(self, observation: NDArray[Any]) -> Decision:
        """The decision at the next step; called once a step, in order, with the observation before the action."""
        ...
