"""What an observation and an action are: the two facts that environments, stores, networks and pages share."""

from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, Arrays, ObservationSpec, Part, SpaceError

__all__ = ["MINIGRID_SYMBOLS", "ActionSpec", "Arrays", "ObservationSpec", "Part", "SpaceError"]
