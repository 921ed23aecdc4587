"""The expert of Minigrid's memory corridor."""

from typing import Any

from minigrid.core.actions import Actions
from minigrid.core.constants import OBJECT_TO_IDX
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

WALL, KEY, BALL = (OBJECT_TO_IDX[kind] for kind in ("wall", "key", "ball"))
AHEAD, BESIDE = (3, 5), (1, 6)
"""Places in the view, where the agent is at [3, 6] and looks towards [3, 0]: one step ahead, two steps to the left."""


class MemoryCorridorExpert:
    """Turns to the room behind it, notes the object there, walks to the fork at the end of the corridor, and turns to
    the object's twin. It recalls the step at which it saw the object, at the turn alone: where it looks then tells the
    rest. It sees only the observations; `env` is ignored."""

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._plan: list[Actions] = [Actions.left, Actions.left]
        self._cue: int | None = None
        self._seen_at = 0

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        recalled: list[int] = []
        if not self._plan:
            kinds = observation[:, :, 0]
            shown = [kind for kind in (KEY, BALL) if kind in kinds]
            if self._cue is None and shown:
                self._cue, self._seen_at, self._plan = shown[0], self._step, [Actions.left, Actions.left]
            elif self._cue is None or kinds[AHEAD] != WALL:
                self._plan = [Actions.forward]
            else:
                recalled = [self._seen_at]
                self._plan = [Actions.left if kinds[BESIDE] == self._cue else Actions.right, Actions.forward]
        return Decision(int(self._plan.pop(0)), recalled)
