"""The experts of POPGym's pendulums, of which only cosine and sine of the angle are seen; upright is angle 0. Both
estimate how fast the pendulum turns, then swing it up and balance it as if they saw it."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.experts.expert import Decision

A_STEP = 0.05
"""Seconds."""

GRAVITY, LEVER = 15.0, 3.0
"""What the sine of the angle and the torque add to the speed in a second, in rad/s."""

MOST_TORQUE, MOST_SPEED = 2.0, 8.0

NEAR = 1.0
"""Radians from upright within which it is balanced."""

STIFFNESS, DAMPING = 15.0, 4.0
"""Torque against each rad beside upright, and against each rad/s."""

WINDOW = 16
"""Steps, the present one included, from which angle and speed are estimated where observations are noisy."""

SEARCHES = 2
"""Newton steps of an estimate."""

SURPRISE = 1 / 3
"""Variance of the speed at the start, which is drawn evenly from ±1 rad/s."""


def within(limit: float, value: float) -> float:
    return max(-limit, min(limit, value))


def nearest(angle: float) -> float:
    """The same angle between -π and π."""
    return math.remainder(angle, 2 * math.pi)


def best_torque(angle: float, speed: float) -> float:
    """Near upright against angle and speed; elsewhere with the speed, as much as energy lacks (or against it), so that
    the pendulum comes up to stand still."""
    angle = nearest(angle)
    if abs(angle) < NEAR:
        return within(MOST_TORQUE, -STIFFNESS * angle - DAMPING * speed)
    too_much = speed**2 / 2 + GRAVITY * (math.cos(angle) - 1)
    return math.copysign(1, speed) * within(MOST_TORQUE, -too_much)


def moved(angle: float, speed: float, torque: float) -> tuple[float, float]:
    """Angle and speed a step later."""
    speed = within(MOST_SPEED, speed + A_STEP * (GRAVITY * math.sin(angle) + LEVER * torque))
    return angle + A_STEP * speed, speed


def deciding(torque: float, recalled: range) -> Decision:
    return Decision(np.array([torque], np.float32), recalled)


class PositionOnlyPendulumExpert:
    """Takes the speed from the angle at the step before, which it recalls: exactly, for the pendulum's own steps are
    made so. At the first step it takes it for still. It sees only the observations; `env` is ignored."""

    def __init__(self, env: object = None) -> None:
        self._step = -1
        self._before = 0.0

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        angle = math.atan2(observation[1], observation[0])
        speed = nearest(angle - self._before) / A_STEP if self._step else 0.0
        self._before = angle
        return deciding(best_torque(angle, speed), range(max(0, self._step - 1), self._step))


class NoisyPositionOnlyPendulumExpert:
    """Finds the motion that fits best, by least squares, what it sees now and saw at the last steps, knowing its own
    torques there, and recalls these steps. The search for it begins where the last one ended. It sees only the
    observations; of `env` it reads how large the noise is, a rule."""

    def __init__(self, env: Any) -> None:
        self._variance = float(env.unwrapped.noise_sigma[0]) ** 2
        self._step = -1
        self._seen: list[tuple[float, float]] = []  # cosine and sine at the steps of the window
        self._torques: list[float] = []  # those between them
        self._first = (0.0, 0.0)  # angle and speed where the window begins

    def decide(self, observation: NDArray[Any]) -> Decision:
        self._step += 1
        self._seen.append((float(observation[0]), float(observation[1])))
        if self._step == 0:
            self._first = math.atan2(observation[1], observation[0]), 0.0
        if len(self._seen) > WINDOW:
            self._first = moved(*self._first, self._torques.pop(0))
            self._seen.pop(0)
        for _ in range(SEARCHES):
            self._first = self._nearer(*self._first)
        angle, speed = self._first
        for torque in self._torques:
            angle, speed = moved(angle, speed, torque)
        torque = best_torque(angle, speed)
        self._torques.append(torque)
        return deciding(torque, range(self._step - len(self._seen) + 1, self._step))

    def _nearer(self, angle: float, speed: float) -> tuple[float, float]:
        """A Gauss-Newton step of the window's first angle and speed."""
        first = (angle, speed)
        known = self._variance / SURPRISE if self._step < WINDOW else 0.0  # of the speed the episode begins with
        both, turning, mixed = 0.0, known, 0.0
        by_angle, by_speed = 0.0, -known * speed
        a, b, c, d = 1.0, 0.0, 0.0, 1.0  # of angle (a, b) and speed (c, d): derivatives by the first angle and speed
        for (cosine, sine), torque in zip(self._seen, (*self._torques, 0.0), strict=True):
            slope = math.cos(angle)
            beside = sine * slope - cosine * math.sin(angle)  # seen across the direction in which it would point
            both += a * a
            turning += b * b
            mixed += a * b
            by_angle += a * beside
            by_speed += b * beside
            c, d = c + A_STEP * GRAVITY * slope * a, d + A_STEP * GRAVITY * slope * b
            a, b = a + A_STEP * c, b + A_STEP * d
            angle, speed = moved(angle, speed, torque)
        area = both * turning - mixed**2
        further = (turning * by_angle - mixed * by_speed) / area, (both * by_speed - mixed * by_angle) / area
        return first[0] + within(1, further[0]), first[1] + within(3, further[1])
