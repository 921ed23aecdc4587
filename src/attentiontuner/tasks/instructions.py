"""What people are told who play a task or annotate it."""

from dataclasses import dataclass

ANY_GOAL = (
    "Each demonstration shows, step by step, what somebody saw and did. Some decisions cannot be made from what is in "
    "view: they need something that was seen earlier. Find these decisions, and what they need."
)
ANY_P = "The earlier step at which the thing to be remembered was seen."
ANY_Q = "The later step whose action depends on it, though it is no longer in view."


@dataclass(frozen=True)
class Instructions:
    """A task in a few plain sentences, for people who do not program.

    Attributes:
        goal: what the player shall reach, and what must be remembered for it.
        p: which steps are recalled in this task.
        q: which steps use them.
        advice: what is easily done wrong.
    """

    goal: str = ANY_GOAL
    p: str = ANY_P
    q: str = ANY_Q
    advice: str = ""

    @classmethod
    def of(cls, given: "Instructions | str | None") -> "Instructions":
        """Instructions as they are given: whole, the goal alone, or none, which are those that fit every task."""
        return given if isinstance(given, Instructions) else cls(given) if given else cls()
