"""A table and a small arm in MuJoCo: what the robot tasks have in common. Lengths are metres, times seconds.

The arm stands at the origin, x points away from it over the table, y to its left, z up; the table's top is z = 0. Four
joints (a turning base, shoulder, elbow, wrist) carry a finger that points down. An action is the velocity of its tip:
damped least squares turn it into velocities of the joints, which servos follow.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.envs.robot_camera import FEWEST, MOST, PIXELS, Picture, no_renderer_named, take_picture

try:
    import mujoco
except ImportError:
    raise UserError(
        "the robot tasks need the package 'mujoco', which is missing: pip install 'attentiontuner[robots]'"
    ) from None
except Exception:  # it imports the renderer that MUJOCO_GL names, which states do without
    with no_renderer_named():
        import mujoco

Numbers = NDArray[np.float32]

STEPS_PER_SECOND = 10
SPEED = 0.2
"""Metres a second of the fingertip at an action of 1."""

SHOULDER, UPPER_ARM, FOREARM, FINGER = 0.12, 0.26, 0.24, 0.10
"""The height of the shoulder, and lengths."""

HOME = (0.30, 0.0, 0.15)
"""Where episodes begin, give or take `START_NOISE`, and where experts wait."""

START_NOISE = (0.05, 0.08, 0.03)
TIP_RADIUS = 0.012

ARM_NUMBERS: Final = 14
"""Of the arm: joint positions (4, radians) and velocities (4), the tip's position (3) and velocity (3)."""

TIP, TIP_VELOCITY = slice(8, 11), slice(11, 14)
"""Where the tip stands among them."""

GREEN, OFF = (0.2, 0.95, 0.35, 1.0), (0.22, 0.24, 0.27, 1.0)

LAMP = """
<geom type="cylinder" size="0.012 0.05" pos="0.02 0.24 0.05" material="dark"/>
<geom name="go" type="sphere" size="0.03" pos="0.02 0.24 0.12" material="glow"/>
"""
"""A lamp beside the arm, which says when to begin: geom `go`."""

_UPDATES, _SUBSTEPS, _TIMESTEP = 5, 4, 0.005  # 5 · 4 · 0.005 s = one step
_DAMPING, _UPRIGHTING = 1e-4, 8.0
_WANDER = 0.8  # how much of a disturbance is left a step later

_ARM = f"""
<mujoco model="table with an arm">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="{_TIMESTEP}" integrator="implicitfast"/>
  <visual>
    <headlight ambient="0.42 0.42 0.42" diffuse="0.32 0.32 0.32" specular="0.1 0.1 0.1"/>
    <quality shadowsize="1024"/>
  </visual>
  <asset>
    <texture type="skybox" builtin="gradient" rgb1="0.87 0.90 0.93" rgb2="0.55 0.62 0.70" width="64" height="64"/>
    <texture name="mat" type="2d" builtin="checker" rgb1="0.33 0.36 0.41" rgb2="0.30 0.33 0.38" width="64" height="64"/>
    <material name="mat" texture="mat" texrepeat="9 11" specular="0.1" shininess="0.1"/>
    <material name="shell" rgba="0.95 0.95 0.93 1" specular="0.4" shininess="0.5"/>
    <material name="joint" rgba="0.98 0.55 0.16 1" specular="0.4" shininess="0.5"/>
    <material name="dark" rgba="0.16 0.17 0.20 1" specular="0.3" shininess="0.4"/>
    <material name="glow" emission="0.7"/>
  </asset>
  <default>
    <geom contype="0" conaffinity="0" density="400"/>
    <joint damping="0.3" armature="0.02"/>
    <default class="touchable"><geom conaffinity="1" friction="0.6"/></default>
  </default>
  <worldbody>
    <light pos="0.5 -0.6 1.6" dir="-0.1 0.4 -1" diffuse="0.55 0.55 0.55" specular="0.2 0.2 0.2" castshadow="true"/>
    <camera name="front" pos="1.02 0 0.76" xyaxes="0 1 0 -0.65 0 0.76" fovy="44"/>
    <geom name="table" class="touchable" type="box" size="0.34 0.42 0.02" pos="0.24 0 -0.02" material="mat"/>
    <body name="base">
      <geom type="cylinder" size="0.065 0.03" pos="0 0 0.03" material="dark"/>
      <body name="turret" pos="0 0 {SHOULDER}" gravcomp="1">
        <joint name="turn" axis="0 0 1" range="-1.8 1.8"/>
        <geom type="cylinder" size="0.045 0.03" pos="0 0 -0.03" material="shell"/>
        <geom type="cylinder" size="0.035 0.05" euler="1.5708 0 0" material="joint"/>
        <body name="upper arm" gravcomp="1">
          <joint name="shoulder" axis="0 1 0" range="-1 2"/>
          <geom type="capsule" size="0.024" fromto="0 0 0 0 0 {UPPER_ARM}" material="shell"/>
          <body name="forearm" pos="0 0 {UPPER_ARM}" gravcomp="1">
            <joint name="elbow" axis="0 1 0" range="0.1 2.8"/>
            <geom type="cylinder" size="0.029 0.034" euler="1.5708 0 0" material="joint"/>
            <geom type="capsule" size="0.020" fromto="0 0 0 0 0 {FOREARM}" material="shell"/>
            <body name="hand" pos="0 0 {FOREARM}" gravcomp="1">
              <joint name="wrist" axis="0 1 0" range="-2 3"/>
              <geom type="cylinder" size="0.023 0.028" euler="1.5708 0 0" material="joint"/>
              <geom type="capsule" size="0.010" fromto="0 0 0 0 0 {FINGER}" material="dark"/>
              <geom name="tip" type="sphere" size="{TIP_RADIUS}" pos="0 0 {FINGER}" material="joint" contype="1"/>
              <site name="tip" pos="0 0 {FINGER}" size="0.004" rgba="0 0 0 0"/>
            </body>
          </body>
        </body>
      </body>
    </body>
    {{scene}}
  </worldbody>
  <actuator>
    <velocity joint="turn" kv="12" forcerange="-15 15"/>
    <velocity joint="shoulder" kv="12" forcerange="-15 15"/>
    <velocity joint="elbow" kv="8" forcerange="-10 10"/>
    <velocity joint="wrist" kv="4" forcerange="-5 5"/>
  </actuator>
</mujoco>
"""


@lru_cache(maxsize=8)
def _compiled(scene: str) -> Any:
    return mujoco.MjModel.from_xml_string(_ARM.format(scene=scene))


def pose_for(tip: NDArray[np.float64]) -> NDArray[np.float64]:
    """The joint positions `[4]` that hold the tip there, the finger pointing down."""
    reach, height = math.hypot(tip[0], tip[1]), tip[2] + FINGER - SHOULDER  # of the wrist, seen from the shoulder
    distance = math.hypot(reach, height)
    bend = (distance**2 - UPPER_ARM**2 - FOREARM**2) / (2 * UPPER_ARM * FOREARM)
    elbow = math.acos(min(1.0, max(-1.0, bend)))
    inner = math.atan2(FOREARM * math.sin(elbow), UPPER_ARM + FOREARM * math.cos(elbow))
    shoulder = math.atan2(reach, height) - inner
    return np.array([math.atan2(tip[1], tip[0]), shoulder, elbow, math.pi - shoulder - elbow])


def check_setting(name: str, value: Any, least: int, most: int) -> int:
    """A setting that is a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value


class RobotEnv(gym.Env[Any, NDArray[np.float32]]):
    """The arm at its table. A task says what stands on it, what that shows, and when it is over.

    Actions are three numbers from -1 to 1, the fingertip's velocity along x, y and z in `SPEED`; ten a second. A smooth
    disturbance that the seed decides is added to them, so that demonstrations show how to come back. Observations are
    float32 `[ARM_NUMBERS + numbers of the task]`; with `cameras` they are a dictionary of `camera`, uint8
    `[pixels, pixels, 3]`, and `state`, float32 `[ARM_NUMBERS]`: what the task shows is then seen by the camera alone.

    `info["success"]` says of the last step whether the episode was solved. Everything is decided by `reset(seed=...)`;
    its `options` may name the thing to be remembered (see each task), and nothing else changes with it.

    Args:
        scene: MJCF of what stands on the table.
        shown: how many numbers the task shows.
        max_steps: steps after which an episode is cut off, a failure.
        cameras: whether observations have a picture; a number: of so many pixels a side.
        disturbance: its size, as a share of the largest action; 0: none.
        render_mode: `rgb_array`, a picture of twice the usual size, with shadows.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": STEPS_PER_SECOND}  # noqa: RUF012 -- Gymnasium's own

    cue: ClassVar[str]
    """What `options` calls the thing to be remembered."""

    def __init__(
        self, scene: str, shown: int, max_steps: int, cameras: bool | int, disturbance: float, render_mode: str | None
    ) -> None:
        if not isinstance(cameras, bool) and (not isinstance(cameras, int) or not FEWEST <= cameras <= MOST):
            raise UserError(f"cameras must be true, false or pixels a side, {FEWEST} to {MOST}, not {cameras!r}")
        if isinstance(disturbance, bool) or not isinstance(disturbance, int | float) or not 0 <= disturbance <= 1:
            raise UserError(f"disturbance must be a number from 0 to 1, not {disturbance!r}")
        self.max_steps, self.cameras, self.disturbance = max_steps, cameras, float(disturbance)
        self.pixels = PIXELS if cameras is True else int(cameras)
        self.render_mode = render_mode
        self._scene = scene
        self._model = mujoco.MjModel.__copy__(_compiled(scene))  # its own, for its colours
        self._data = mujoco.MjData(self._model)
        self._joints = self._model.jnt_qposadr[:4]
        self._tip_site, self._tip_geom = self._model.site("tip").id, self._model.geom("tip").id
        self._jacobian = np.zeros((3, self._model.nv))
        self.action_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        whole = gym.spaces.Box(-np.inf, np.inf, (ARM_NUMBERS + shown,), np.float32)
        self.observation_space: gym.Space[Any] = whole
        if cameras:
            self.observation_space = gym.spaces.Dict(
                camera=gym.spaces.Box(0, 255, (self.pixels, self.pixels, 3), np.uint8),
                state=gym.spaces.Box(-np.inf, np.inf, (ARM_NUMBERS,), np.float32),
            )

    # --- what a task says --------------------------------------------------------------------------------------------

    @abstractmethod
    def _draw_episode(self, cue: Any) -> None:
        """Draw an episode with `np_random`, always the same amount from it; `cue`, if given, is to be remembered."""

    @abstractmethod
    def _shows(self) -> list[float]:
        """What the table shows at present, as numbers."""

    @abstractmethod
    def _colours(self) -> Mapping[str, tuple[float, ...]]:
        """Geom → what it looks like at present: red, green, blue and opacity."""

    @abstractmethod
    def _judge(self, touched: set[str]) -> bool | None:
        """After a step in which the tip touched these geoms: whether the episode was solved; None: it goes on."""

    # --- an episode --------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        unknown = set(options or ()) - {self.cue}
        if unknown:
            raise UserError(f"reset takes the option {self.cue!r}, not {', '.join(map(repr, sorted(unknown)))}")
        mujoco.mj_resetData(self._model, self._data)
        start = np.array(HOME) + self.np_random.uniform(-1, 1, 3) * START_NOISE
        self._data.qpos[self._joints] = pose_for(start)
        self._pushed = np.zeros(3)
        self.steps = 0
        self._draw_episode((options or {}).get(self.cue))
        mujoco.mj_forward(self._model, self._data)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = np.asarray(action, np.float64)
        if action.shape != (3,) or not np.isfinite(action).all():
            raise UserError(f"an action is three finite numbers, not {action.tolist()}")
        self._pushed = _WANDER * self._pushed + self.disturbance * self.np_random.standard_normal(3)
        touched = self._move(SPEED * (action.clip(-1, 1) + self._pushed))
        self.steps += 1
        success = self._judge(touched)
        truncated = success is None and self.steps >= self.max_steps
        info = {"success": bool(success)} if truncated or success is not None else {}
        return self._observation(), float(bool(success)), success is not None, truncated, info

    def render(self) -> Picture:
        self._paint()
        return take_picture(self._scene, self._model, self._data, 2 * PIXELS, lifelike=True)

    def numbers(self) -> Numbers:
        """What observations without cameras are: the arm's numbers, then those that the table shows."""
        data, joints = self._data, self._joints
        velocities = data.qvel[:4]
        arm = (data.qpos[joints], velocities, data.site_xpos[self._tip_site], self._tip_jacobian()[:, :4] @ velocities)
        return np.concatenate([*arm, self._shows()]).astype(np.float32)

    def _observation(self) -> Any:
        if not self.cameras:
            return self.numbers()
        self._paint()
        camera = take_picture(self._scene, self._model, self._data, self.pixels)
        return {"camera": camera, "state": self.numbers()[:ARM_NUMBERS]}

    def _paint(self) -> None:
        for name, colour in self._colours().items():
            self._model.geom(name).rgba = colour

    # --- the arm -----------------------------------------------------------------------------------------------------

    def _tip_jacobian(self) -> NDArray[np.float64]:
        mujoco.mj_jacSite(self._model, self._data, self._jacobian, None, self._tip_site)
        return self._jacobian

    def _move(self, velocity: NDArray[np.float64]) -> set[str]:
        """Move the tip at `velocity` for a step; the geoms it touched."""
        touched: set[str] = set()
        for _ in range(_UPDATES):
            bent = self._data.qpos[self._joints][1:].sum()
            jacobian = np.vstack([self._tip_jacobian()[:, :4], [0, 1, 1, 1]])
            wanted = np.append(velocity, _UPRIGHTING * (math.pi - bent))  # the finger stays upright
            damped = jacobian @ jacobian.T + _DAMPING * np.eye(4)
            self._data.ctrl[:] = jacobian.T @ np.linalg.solve(damped, wanted)
            mujoco.mj_step(self._model, self._data, _SUBSTEPS)
            touched |= self._touching()
        return touched

    def _touching(self) -> set[str]:
        pairs = self._data.contact.geom[: self._data.ncon]
        others = pairs[(pairs == self._tip_geom).any(1)].ravel()
        return {self._model.geom(int(other)).name for other in others if other != self._tip_geom}
