"""The expert of LTMB Hallway."""

from typing import Any

from minigrid.core.actions import Actions
from minigrid.core.constants import OBJECT_TO_IDX
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

DOOR = OBJECT_TO_IDX["door"]
TARGET_SEEN_AT = 1


class HallwayExpert:
    """Looks at the object of the start room (step 1), walks, and enters the door before the same object.

    At every step beside a pair of doors it compares what lies behind them with the object seen at step 1, so it recalls
    that step: pairs (1, q). It sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._target: bytes = b""
        self._plan: list[Actions] = []

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        if self._plan:
            return Decision(int(self._plan.pop(0)))
        if self._step == 0:
            return Decision(int(Actions.left))
        if self._step == TARGET_SEEN_AT:
            self._target = observation[2, 5].tobytes()  # facing north: one ahead, one to the left
            return Decision(int(Actions.right))
        beside_doors = observation[2, 6, 0] == DOOR or observation[4, 6, 0] == DOOR
        if not beside_doors:
            return Decision(int(Actions.forward))
        turn = Actions.forward
        if observation[1, 6].tobytes() == self._target:
            turn = Actions.left
        elif observation[5, 6].tobytes() == self._target:
            turn = Actions.right
        if turn != Actions.forward:
            self._plan = [Actions.toggle, Actions.forward]
        return Decision(int(turn), recalled=(TARGET_SEEN_AT,))
