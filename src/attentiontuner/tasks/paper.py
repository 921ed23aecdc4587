"""The paper's six tasks, a row each."""

from collections.abc import Mapping
from typing import Any

from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import MINIGRID_SYMBOLS, ObservationSpec
from attentiontuner.tasks.environment import SYMBOLIC_VIEW
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import Task, register_task

MINIGRID_VIEW = ObservationSpec("grid", (7, 7, 3), MINIGRID_SYMBOLS)
MINIGRID_ACTIONS = ActionSpec.discrete(("left", "right", "forward", "pickup", "drop", "toggle", "done"))

LTMB: dict[str, Any] = {
    "register": "attentiontuner.envs",
    "wrap": SYMBOLIC_VIEW,
    "observation": MINIGRID_VIEW,
    "actions": MINIGRID_ACTIONS,
    "keys": {"ArrowLeft": 0, "ArrowRight": 1, "ArrowUp": 2, " ": 5},
}


def _hallway_steps(settings: Mapping[str, Any]) -> int:
    return 4 * int(settings["length"]) + 25


def _ordering_steps(settings: Mapping[str, Any]) -> int:
    return 18 + int(settings["length"])


def _counting_steps(settings: Mapping[str, Any]) -> int:
    return 7 * int(settings["length"])


register_task(
    Task(
        name="hallway",
        title="Hallway",
        env_id="LTMB-Hallway-v0",
        expert="attentiontuner.experts.hallway:HallwayExpert",
        **LTMB,
        settings={"length": 30},
        horizon=_hallway_steps,
        demonstrations=5000,
        epochs={"attentiontuner": 300, "vanilla": 600},
        instructions=Instructions(
            goal="Look at the object in the first room, then walk down the corridor and enter the door behind which "
            "the same object is: same shape, same colour.",
            p="The step at which the object of the first room is in view. Every pair starts there.",
            q="Each step at which the player stands beside a pair of doors and has to know: is it one of these?",
            advice="Mark every pair of doors that is passed, not only the right one: to walk on is a decision too.",
        ),
    )
)
register_task(
    Task(
        name="ordering",
        title="Ordering",
        env_id="LTMB-Ordering-v0",
        expert="attentiontuner.experts.ordering:OrderingExpert",
        **LTMB,
        settings={"length": 50},
        horizon=_ordering_steps,
        demonstrations=5000,
        epochs={"attentiontuner": 300, "vanilla": 600},
        instructions=Instructions(
            goal="First 18 objects are shown, one at each step. Then two of them stand side by side, again and again: "
            "pick the one that was shown first.",
            p="The steps at which the two objects were shown, each alone: two for every choice.",
            q="Each step with two objects: a choice.",
            advice="A choice needs both objects. Nothing is recalled while the 18 are being shown.",
        ),
    )
)
register_task(
    Task(
        name="counting",
        title="Counting",
        env_id="LTMB-Counting-v0",
        expert="attentiontuner.experts.counting:CountingExpert",
        **LTMB,
        settings={"length": 20, "test_freq": 0.3, "empty_freq": 0.1},
        horizon=_counting_steps,
        demonstrations=10_000,
        epochs={"attentiontuner": 600, "vanilla": 600},
        instructions=Instructions(
            goal="Walk through rooms full of objects. A room with one object and two coloured doors asks: how often "
            "was this object seen so far? Leave by the green door if the number is even, by the red one if it is odd.",
            p="The first step in each earlier room that held the object asked for: same shape, same colour.",
            q="The first step in a room that asks.",
            advice="Where a room held the object twice, let the pair count twice (+). The object in a room that asks "
            "is not counted itself.",
        ),
    )
)

MEMORY_GYM: dict[str, Any] = {
    "register": "attentiontuner.envs.memory_gym",
    "needs": ("memory_gym", "pip install --no-deps memory-gym==1.0.2"),
    "observation": ObservationSpec("image", (84, 84, 3), upright=False),
}
TURN_ACTIONS = ActionSpec.discrete(("stay", "turn left", "turn right", "forward"))
TURN_KEYS = {" ": 0, "ArrowLeft": 1, "ArrowRight": 2, "ArrowUp": 3}

SEARING_ACTIONS = ActionSpec.discrete(
    (
        *("stay", "up", "down"),
        *("left", "left and up", "left and down"),
        *("right", "right and up", "right and down"),
    )
)
SEARING_KEYS = {
    **{" ": 0, "ArrowUp": 1, "ArrowDown": 2, "ArrowLeft": 3, "ArrowRight": 6},
    **{"q": 4, "y": 5, "z": 5, "e": 7, "c": 8},  # the corners around S; Y and Z change places between keyboards
}


def _mortar_steps(settings: Mapping[str, Any]) -> int:
    def most(name: str, default: int) -> int:
        value = settings.get(name, default)
        return int(max(value) if isinstance(value, (list, tuple)) else value)

    commands, time = most("command_count", 10), most("explosion_delay", 6)
    showing = commands * (most("command_show_duration", 3) + most("command_show_delay", 1))
    return showing + commands * time + (commands - 1) * most("explosion_duration", 2)


def _mystery_steps(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_steps", 128))


def _searing_steps(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max_steps", 256))


register_task(
    Task(
        name="mortar-mayhem",
        title="Mortar Mayhem",
        env_id="AttentionTuner/MortarMayhem-Grid-v0",
        expert="attentiontuner.experts.mortar_mayhem:MortarMayhemExpert",
        **MEMORY_GYM,
        actions=TURN_ACTIONS,
        keys=TURN_KEYS,
        settings={"command_count": 10},
        horizon=_mortar_steps,
        demonstrations=4000,
        epochs={"attentiontuner": 300, "vanilla": 600},
        instructions=Instructions(
            goal="Commands are shown first, one after the other: go up, down, left, right, or stay. Then carry them "
            "out in the same order. After each, every tile burns but the right one.",
            p="The first step at which the command was shown that is being carried out.",
            q="Each step that carries it out: turning, walking, and staying where the command is to stay.",
            advice="Count the fires: after the third, the fourth command is due.",
        ),
    )
)
register_task(
    Task(
        name="mystery-path",
        title="Mystery Path",
        env_id="AttentionTuner/MysteryPath-Grid-v0",
        expert="attentiontuner.experts.mystery_path:MysteryPathExpert",
        **MEMORY_GYM,
        actions=TURN_ACTIONS,
        keys=TURN_KEYS,
        settings={"show_origin": False, "show_goal": False},
        horizon=_mystery_steps,
        demonstrations=4000,
        epochs={"attentiontuner": 300, "vanilla": 300},
        every_attempt_succeeds=False,
        instructions=Instructions(
            goal="Cross the board on a path that cannot be seen. A step beside it is a fall: a red cross, and back to "
            "the start. Remember where the path went and where it did not.",
            p="The step at which the player first stood on a neighbouring cell, or fell there.",
            q="Each step at which that is needed: to walk on along the known path, or to try another cell.",
            advice="A step that is taken blindly, with nothing known around, recalls nothing.",
        ),
    )
)
register_task(
    Task(
        name="searing-spotlights",
        title="Searing Spotlights",
        env_id="AttentionTuner/SearingSpotlights-v0",
        expert="attentiontuner.experts.searing_spotlights:SearingSpotlightsExpert",
        **MEMORY_GYM,
        actions=SEARING_ACTIONS,
        keys=SEARING_KEYS,
        settings={"light_dim_off_duration": 6, "num_coins": 1},
        horizon=_searing_steps,
        demonstrations=40_000,
        epochs={"attentiontuner": 120, "vanilla": 120, "recall": 24, "recall-vanilla": 24},
        every_attempt_succeeds=False,
        instructions=Instructions(
            goal="The lights go out after a few steps. Fetch the coin and reach the exit, in the dark, and stay out of "
            "the spotlights that wander about.",
            p="All steps before: the lit ones show player, coin and exit, the others how the player has moved since.",
            q="Each step after the first: where to go next depends on where everything is.",
            advice="Drag over all steps before a decision to mark them at once.",
        ),
    )
)
