"""What an expert is: it acts, and says which earlier steps it used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from attentiontuner.core.errors import UserError
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import SpaceError


@dataclass(frozen=True)
class Decision:
    """One action and its memory.

    Attributes:
        action: the action taken at this step: a number, or an array of several.
        recalled: the earlier steps p the decision used; a step listed twice counts twice (its multiplicity).
        also: other annotators' answers to the same question, by annotator name (Searing Spotlights: `sparse`).
    """

    action: Any
    recalled: Sequence[int] = ()
    also: Mapping[str, Sequence[int]] = field(default_factory=dict)


def checked(decision: Any, step: int, actions: ActionSpec) -> Decision:
    """What an expert decided at `step`, refused where it is no `Decision`, chooses none of the `actions`, or recalls
    what is not an earlier step. Its action is then as the environment takes it."""
    if not isinstance(decision, Decision):
        raise UserError(f"the expert decides with a {type(decision).__name__}, not with a Decision")
    try:
        action = actions.one(decision.action)
    except SpaceError as error:
        raise UserError(f"the expert chose {error.problem}") from error
    for recalled in (decision.recalled, *decision.also.values()):
        if not isinstance(recalled, Iterable):
            raise UserError(f"the expert recalls {recalled!r}: give a list of steps, such as [0]")
        for p in recalled:
            if not 0 <= p < step:
                raise UserError(f"the expert recalls step {p} at step {step}: only earlier steps can be recalled")
    return decision if action is decision.action else replace(decision, action=action)


class Expert(Protocol):
    """One episode's expert. It is made as `Expert(env)` right after `env.reset(...)` and thrown away at the end.

    Experts of the LTMB tasks ignore `env` and see only the observations. An expert that reads `env` may read only
    what a person would see on the screen, and its docstring says what it reads.
    """

    def decide(self, observation: Any) -> Decision:
        """The decision at the next step; called once a step, in order, with the observation before the action (of
        several parts: a dictionary of arrays)."""
        ...
