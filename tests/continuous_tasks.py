"""Two tiny tasks with actions that are numbers: go where a target was shown, and press as often as a lamp blinked."""

from typing import Any

import gymnasium as gym
import numpy as np

from attentiontuner.experts import Decision
from attentiontuner.spaces import ActionSpec, ObservationSpec, Part
from attentiontuner.tasks.task import Task, register_task

SPEED = 0.2
NEAR = 0.15


class PointEnv(gym.Env[Any, Any]):
    """A point in the square from -1 to 1. A target is seen at one of the first three steps; after a while a light says
    go, and the point must stop within `NEAR` of where it was. Observation: place, light, target, whether it is shown;
    with `camera` two small images of the same instead, one of them wide."""

    action_space = gym.spaces.Box(-SPEED, SPEED, (2,), np.float32)

    def __init__(self, wait: int = 6, camera: bool = False, render_mode: str | None = None) -> None:
        self.wait, self.camera, self.render_mode = wait, camera, render_mode
        self.observation_space = gym.spaces.Box(-2, 2, (6,), np.float32)
        if camera:
            images = {name: gym.spaces.Box(0, 255, (24, width, 3), np.uint8) for name, width in SIDES.items()}
            self.observation_space = gym.spaces.Dict({**images, "state": self.observation_space})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.target = self.np_random.uniform(-0.9, 0.9, (2, 2))
        self.shown, self.go = int(self.np_random.integers(3)), 3 + int(self.np_random.integers(self.wait))
        self.steps = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        lit = self.steps == self.shown
        target = self.target if lit else np.zeros(2)
        state = np.array([*self.place, self.steps >= self.go, *target, lit], np.float32)
        if not self.camera:
            return state
        return {**{name: self._image(width, lit) for name, width in SIDES.items()}, "state": state}

    def _image(self, width: int, lit: bool) -> Any:
        image = np.zeros((24, width, 3), np.uint8)
        for place, colour in [(self.target, 1)] * lit + [(self.place, 0)]:
            x, y = ((place + 1) / 2 * (width - 3, 21)).clip(0).astype(int)
            image[y : y + 3, x : x + 3, colour] = 255
        return image

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + np.clip(action, -SPEED, SPEED) * (self.steps >= self.go)).clip(-1, 1)
        self.steps += 1
        ended = self.steps == self.go + 12
        solved = ended and float(np.linalg.norm(self.place - self.target)) < NEAR
        return self._seen(), float(solved), ended, False, {"success": solved}


SIDES = {"front": 24, "wide": 40}


class PointExpert:
    """From the light on it recalls the step that showed the target."""

    def __init__(self, env: Any) -> None:
        self.step, self.shown, self.target = -1, 0, np.zeros(2)

    def decide(self, observation: Any) -> Decision:
        self.step += 1
        state = observation["state"] if isinstance(observation, dict) else observation
        if state[5]:
            self.shown, self.target = self.step, state[3:5]
        if not state[2]:
            return Decision(np.zeros(2, np.float32))
        return Decision(np.clip(self.target - state[:2], -SPEED, SPEED), (self.shown,))


class BlinkEnv(gym.Env[Any, Any]):
    """A lamp blinks one to six times; after a light a button must be pressed as often, each press a number above 0
    after one below, then nothing more. Observation: lamp, light, whether the button is down."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.blinks = int(self.np_random.integers(1, 7))
        self.lamp = np.zeros(16, bool)
        self.lamp[2 * self.np_random.choice(8, self.blinks, replace=False)] = True
        self.steps, self.down, self.presses = 0, False, 0
        return self._seen(), {}

    def _seen(self) -> Any:
        lit = self.steps < 16 and self.lamp[self.steps]
        return np.array([lit, self.steps >= 16, self.down], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.presses += bool(action[0] > 0 and not self.down)
        self.down = bool(action[0] > 0)
        self.steps += 1
        ended = self.steps == 32
        solved = ended and self.presses == self.blinks
        return self._seen(), float(solved), ended, False, {"success": solved}


class BlinkExpert:
    """After the light it recalls every blink, and every press where it is seen: the button is down."""

    def __init__(self, env: Any) -> None:
        self.step, self.blinks, self.presses = -1, [], []

    def decide(self, observation: Any) -> Decision:
        self.step += 1
        lamp, light, down = observation
        if lamp:
            self.blinks.append(self.step)
        if not light:
            return Decision(np.full(1, -0.5, np.float32))
        press = not down and len(self.presses) < len(self.blinks)
        decision = Decision(np.full(1, 0.5 if press else -0.5, np.float32), (*self.blinks, *self.presses))
        if down:
            self.presses.append(self.step)
        return decision


STATE = Part("vector", (6,))
CAMERAS = {name: Part("image", (24, width, 3)) for name, width in SIDES.items()}

for _name, _entry in (("Point-v0", "PointEnv"), ("Blink-v0", "BlinkEnv")):
    if _name not in gym.registry:
        gym.register(_name, entry_point=f"tests.continuous_tasks:{_entry}")

POINT = Task(
    name="point",
    title="Point",
    env_id="Point-v0",
    register="tests.continuous_tasks",
    observation=ObservationSpec(parts={"": STATE}),
    actions=ActionSpec.box([-SPEED] * 2, [SPEED] * 2),
    horizon=21,
    settings={},
    expert="tests.continuous_tasks:PointExpert",
    demonstrations=300,
)
CAMERA_POINT = Task(
    name="camera-point",
    title="Point, two cameras",
    env_id="Point-v0",
    register="tests.continuous_tasks",
    observation=ObservationSpec(parts={**CAMERAS, "state": STATE}),
    actions=POINT.actions,
    horizon=21,
    settings={"camera": True},
    expert="tests.continuous_tasks:PointExpert",
    demonstrations=300,
)
BLINK = Task(
    name="blink",
    title="Blink",
    env_id="Blink-v0",
    register="tests.continuous_tasks",
    observation=ObservationSpec("vector", (3,)),
    actions=ActionSpec.box([-1], [1]),
    horizon=32,
    settings={},
    expert="tests.continuous_tasks:BlinkExpert",
    demonstrations=300,
)
for _task in (POINT, CAMERA_POINT, BLINK):
    register_task(_task)
