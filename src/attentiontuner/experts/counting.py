"""The expert of LTMB Counting."""

from collections import defaultdict
from typing import Any

from minigrid.core.actions import Actions
from minigrid.core.constants import OBJECT_TO_IDX
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

DOOR, EMPTY = OBJECT_TO_IDX["door"], OBJECT_TO_IDX["empty"]

# Places in the view of an agent that has just entered a room and faces north.
GALLERY_DOOR = (3, 3)
GALLERY_SLOTS = ((2, 4), (4, 4), (2, 5), (4, 5), (2, 6), (4, 6))
QUERY_OBJECT = (3, 4)
THIRD_DOOR = (1, 5)

_L, _R, _F, _T = Actions.left, Actions.right, Actions.forward, Actions.toggle
THROUGH_GALLERY = (_F, _F, _T, _F)
THROUGH_QUERY = ((_L, _F, _R, _F, _F, _T, _F), (_R, _F, _L, _F, _F, _T, _F), (_F, _L, _F, _T, _F))
"""The way to the door for remainder 0, 1 and 2 (green, red, yellow)."""


class CountingExpert:
    """Notes the objects of each gallery as it enters, and at the first step of a query room counts its object.

    It recalls the first step of each gallery that held the object of the query room, once for every such object: two
    equal ones in one room list that step twice. The steps that follow in the same room need no memory: where the agent
    already is tells which door it chose. It sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._seen_at: defaultdict[bytes, list[int]] = defaultdict(list)
        self._plan: list[Actions] = []

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        recalled: list[int] = []
        if not self._plan:
            if observation[GALLERY_DOOR][0] == DOOR:
                self._note_objects(observation)
                self._plan = list(THROUGH_GALLERY)
            else:
                recalled = self._seen_at[observation[QUERY_OBJECT].tobytes()]
                doors = 3 if observation[THIRD_DOOR][0] == DOOR else 2
                self._plan = list(THROUGH_QUERY[len(recalled) % doors])
        return Decision(int(self._plan.pop(0)), tuple(recalled))

    def _note_objects(self, observation: NDArray[Any]) -> None:
        for slot in GALLERY_SLOTS:
            if observation[slot][0] != EMPTY:
                self._seen_at[observation[slot].tobytes()].append(self._step)
