"""Tasks with a robot's arm, in real physics: three of ours, and two of MIKASA-Robo-VLA."""

from collections.abc import Mapping
from typing import Any

from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part
from attentiontuner.tasks.instructions import Instructions
from attentiontuner.tasks.task import Task, register_task

ARM_NUMBERS = 14
PIXELS = 128
"""The side of a camera's picture where the setting `cameras` is true and no number."""


def _seen(settings: Mapping[str, Any], numbers: int) -> ObservationSpec:
    """All `numbers`; with a camera its picture, and of the numbers the arm's alone."""
    cameras = settings.get("cameras", False)
    side = PIXELS if cameras is True else cameras
    if isinstance(side, int) and side > 0:
        camera = Part("image", (side, side, 3))
        return ObservationSpec(parts={"camera": camera, "state": Part("vector", (ARM_NUMBERS,))})
    return ObservationSpec("vector", (numbers,))


def reach_seen(settings: Mapping[str, Any]) -> ObservationSpec:
    return _seen(settings, ARM_NUMBERS + 4)


def colour_seen(settings: Mapping[str, Any]) -> ObservationSpec:
    return _seen(settings, ARM_NUMBERS + 36)


def blink_seen(settings: Mapping[str, Any]) -> ObservationSpec:
    return _seen(settings, ARM_NUMBERS + 4)


def _delayed_steps(settings: Mapping[str, Any]) -> int:
    return 55 + int(settings["delay"])


def _blink_steps(settings: Mapping[str, Any]) -> int:
    return 38 + 17 * int(settings["blinks"])


MOVES = {
    **{"left": (0, -0.6, 0), "right": (0, 0.6, 0), "away": (-0.6, 0, 0), "near": (0.6, 0, 0)},
    **{"up": (0, 0, 0.6), "down": (0, 0, -0.6), "stay": (0, 0, 0)},
}
"""As somebody sees them who looks through the camera, which stands opposite the arm."""

KEYS = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "w", "s", " ")

ROBOT: dict[str, Any] = {
    "register": "attentiontuner.envs",
    "needs": ("mujoco", "pip install 'attentiontuner[robots]'"),
    "observation": ObservationSpec("vector", (ARM_NUMBERS,)),  # `observes` says more
    "actions": ActionSpec.box([-1, -1, -1], [1, 1, 1]),
    "keys": {key: number for number, key in enumerate(KEYS)},
    "moves": MOVES,
    "demonstrations": 300,
}

register_task(
    Task(
        name="remember-reach",
        title="Remember-reach",
        env_id="AttentionTuner/RememberReach-v0",
        expert="attentiontuner.experts.remember_reach:RememberReachExpert",
        **ROBOT,
        observes=reach_seen,
        settings={"delay": 20, "cameras": False},
        horizon=_delayed_steps,
        instructions=Instructions(
            goal="A disc on the table is lit for a moment, then it is gone. Once the lamp turns green, touch the table "
            "where the disc was.",
            p="The steps at which the disc is lit.",
            q="Each step of the movement after the lamp has turned green.",
            advice="While the arm waits, nothing is recalled. Without a camera the last four bars tell: lamp green, "
            "disc lit, and where it is.",
        ),
    )
)
register_task(
    Task(
        name="remember-colour",
        title="Remember-colour",
        env_id="AttentionTuner/RememberColour-v0",
        expert="attentiontuner.experts.remember_colour:RememberColourExpert",
        **ROBOT,
        observes=colour_seen,
        settings={"pads": 3, "delay": 20, "cameras": False},
        horizon=_delayed_steps,
        instructions=Instructions(
            goal="A screen shows a colour for a moment. Later several pads are lit: touch the one of that colour.",
            p="The steps at which the screen shows the colour.",
            q="Each step of the movement after the pads are lit.",
            advice="While the arm waits, nothing is recalled. Without a camera nine bars after the arm's fourteen tell "
            "the colour of the screen; the others are the pads.",
        ),
    )
)
register_task(
    Task(
        name="blink-count",
        title="Blink-count",
        env_id="AttentionTuner/BlinkCount-v0",
        expert="attentiontuner.experts.blink_count:BlinkCountExpert",
        **ROBOT,
        observes=blink_seen,
        settings={"blinks": 6, "cameras": False},
        horizon=_blink_steps,
        instructions=Instructions(
            goal="A lamp blinks a few times. Once the light turns green, press the red button as often, then touch the "
            "green pad.",
            p="Each step at which the lamp blinks, and each step at which a press of the button was counted.",
            q="Each step under the green light: press again, or go to the pad?",
            advice="Both counts are needed at every such step, so late steps recall many. Without a camera the last "
            "four bars tell: lamp, green light, a press counted, how far the button is down.",
        ),
    )
)
MIKASA: dict[str, Any] = {
    "register": "attentiontuner.envs",
    "needs": (
        "mikasa_robo_suite",
        "pip install mani_skill==3.0.1 && pip install --no-deps mikasa-robo-suite==1.0.0",
    ),
    "actions": ActionSpec.box([-1] * 4, [1] * 4),
    "demonstrations": 300,
}


def _mikasa_blink_steps(settings: Mapping[str, Any]) -> int:
    return {3: 150, 5: 200, 7: 300}[settings["blinks"]]


register_task(
    Task(
        name="mikasa-remember-color",
        title="MIKASA RememberColor",
        env_id="AttentionTuner/MikasaRememberColor-v0",
        expert="attentiontuner.experts.mikasa:MikasaRememberColourExpert",
        **MIKASA,
        observation=ObservationSpec("vector", (57,)),
        settings={"colours": 3},
        horizon=25,
        instructions=Instructions(
            goal="A coloured cube is shown for a moment, then the table is empty. Once cubes of all colours stand "
            "there, bring the gripper to the one of the colour shown.",
            p="The steps at which the cube stands alone.",
            q="Each step of the movement after all cubes have appeared.",
        ),
    )
)
register_task(
    Task(
        name="mikasa-blink-count",
        title="MIKASA BlinkCount",
        env_id="AttentionTuner/MikasaBlinkCount-v0",
        expert="attentiontuner.experts.mikasa:MikasaBlinkCountExpert",
        **MIKASA,
        observation=ObservationSpec("vector", (30,)),
        settings={"blinks": 3},
        horizon=_mikasa_blink_steps,
        instructions=Instructions(
            goal="A lamp blinks a few times. Once another turns green, press the red button as often, raising the "
            "gripper after each press, then the black one.",
            p="Each step at which the lamp is lit, and each at which the red button goes down.",
            q="Each step under the green light: press again, or go to the black button?",
        ),
    )
)
