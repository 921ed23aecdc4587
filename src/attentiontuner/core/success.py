"""When an episode counts as solved.

A rule is a function (last reward, terminated, last info) → bool. What came before stands in that info under `episode`,
as Gymnasium's own statistics do: `r` is the sum of all rewards, `l` the number of steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SuccessRule = Callable[[float, bool, Mapping[str, Any]], bool]


def with_totals(info: Mapping[str, Any], total: float, steps: int) -> dict[str, Any]:
    """The last info of an episode, with the sum of its rewards and its number of steps."""
    return {**info, "episode": {"r": total, "l": steps}}


def reported_success(reward: float, terminated: bool, info: Mapping[str, Any], threshold: float | None = None) -> bool:
    """What `info` says under `success` or `is_success`; else whether the rewards add up to `threshold`; without one,
    whether the episode terminated with a positive last reward."""
    for key in ("success", "is_success"):
        if key in info:
            return bool(info[key])
    if threshold is not None:
        return bool(info["episode"]["r"] >= threshold)
    return terminated and reward > 0


@dataclass(frozen=True)
class ReturnAtLeast:
    """The rule that an episode is solved whose rewards add up to `least`."""

    least: float

    def __call__(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        return bool(info["episode"]["r"] >= self.least)


@dataclass(frozen=True)
class LengthAtLeast:
    """The rule that an episode is solved which lasts for `least` steps."""

    least: int

    def __call__(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        return bool(info["episode"]["l"] >= self.least)


def recorded_success(
    rewards: Sequence[float], terminated: bool, info: Mapping[str, Any], threshold: float | None = None
) -> bool:
    """Whether a recorded episode was solved about which nobody said more.

    As `reported_success`, but where every step was rewarded alike only the end can tell: what is paid for each step
    must last, so terminating is failure; what is fined for each step must be got done, so terminating is success.
    """
    alike = len(rewards) > 1 and all(reward == rewards[0] for reward in rewards) and rewards[0] != 0
    if alike and not {"success", "is_success"} & set(info):
        return terminated == (rewards[0] < 0)
    whole = with_totals(info, float(sum(rewards)), len(rewards))
    return reported_success(float(rewards[-1]), terminated, whole, threshold)
