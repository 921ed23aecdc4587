"""Tasks whose episodes may be as long as one likes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, ObservationSpec
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import Task, register_task


def _tmaze_steps(settings: Mapping[str, Any]) -> int:
    return int(settings["length"]) + 10


TMAZE = register_task(
    Task(
        name="tmaze",
        title="T-maze",
        env_id="AttentionTuner/TMaze-v0",
        expert="attentiontuner.experts.tmaze:TMazeExpert",
        register="attentiontuner.envs",
        observation=ObservationSpec("grid", (3, 2, 3), MINIGRID_SYMBOLS),
        actions=ActionSpec.discrete(("left", "right", "forward")),
        keys={"ArrowLeft": 0, "ArrowRight": 1, "ArrowUp": 2},
        settings={"length": 100, "cues": 1, "distractors": 0.0},
        horizon=_tmaze_steps,
        demonstrations=500,
        instructions=Instructions(
            goal="In the first niche of a long corridor lies a ball. Walk to the end: turn left if the ball was green, "
            "right if it was red.",
            p="The step at which the ball is in view: the first one.",
            q="The step at the end of the corridor where the player turns.",
            advice="With two balls both are recalled: left if they have the same colour, else right. Other things on "
            "the way mean nothing.",
        ),
    )
)

# For comparisons of methods; things in a tenth of the niches, so that no two episodes are alike.
for _length in (300, 1000):
    register_task(
        replace(
            TMAZE,
            name=f"tmaze-{_length}",
            title=f"T-maze {_length:,}",
            settings={**TMAZE.settings, "length": _length, "distractors": 0.1},
            demonstrations=1000,
        )
    )
