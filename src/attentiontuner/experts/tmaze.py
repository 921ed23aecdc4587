"""The expert of the T-maze."""

from typing import Any

from numpy.typing import NDArray

from attentiontuner.envs.tmaze import CUES, EMPTY, FORWARD, HERE, LEFT, NICHE, RIGHT
from attentiontuner.experts.expert import Decision


class TMazeExpert:
    """Walks to the end of the corridor and turns as the cues say. Where it turns it recalls the steps at which it saw
    them, once each. It sees only the observations; `env` is ignored.
    """

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._cues: dict[int, tuple[int, ...]] = {}

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        beside = tuple(observation[NICHE].tolist())
        if beside in CUES:
            self._cues[self._step] = beside
        if tuple(observation[2, HERE].tolist()) != EMPTY:
            return Decision(FORWARD)
        seen = list(self._cues.values())
        left = seen[0] == seen[1] if len(seen) == 2 else seen[0] == CUES[LEFT]
        return Decision(LEFT if left else RIGHT, recalled=tuple(self._cues))
