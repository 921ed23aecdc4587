"""The expert of LTMB Ordering."""

from typing import Any

from minigrid.core.actions import Actions
from minigrid.core.constants import OBJECT_TO_IDX
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

EMPTY = OBJECT_TO_IDX["empty"]


class OrderingExpert:
    """Watches the objects go by (action `forward`), then picks of two the one it saw at the earlier step.

    At a choice it recalls the steps at which both objects were shown. It sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._shown_at: dict[bytes, int] = {}

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        if observation[3, 3, 0] != EMPTY:
            self._shown_at[observation[3, 3].tobytes()] = self._step
            return Decision(int(Actions.forward))
        left = self._shown_at[observation[2, 3].tobytes()]
        right = self._shown_at[observation[4, 3].tobytes()]
        return Decision(int(Actions.left if left < right else Actions.right), recalled=(left, right))
