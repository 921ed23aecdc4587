"""Pictures of a MuJoCo world, where a renderer is there: a process draws all worlds of a kind in one context."""

import os
import sys
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

Picture = NDArray[np.uint8]
"""`[side, side, 3]` RGB, row 0 at the top."""

PIXELS = 128
"""The side of a camera's picture."""

CAMERA = "front"

SAMPLES = 2
"""Of each pixel of a lifelike picture."""


class _Renderer(NamedTuple):
    """What MuJoCo draws with. The context of OpenGL must live as long as the rest."""

    context: Any
    drawing: Any
    scene: Any
    options: Any
    camera: Any
    viewport: Any


def take_picture(name: str, model: Any, data: Any, side: int, lifelike: bool = False) -> Picture:
    """What the camera `front` sees; `lifelike`: with shadows and smooth edges, which where no GPU draws take six times
    as long. Models that share a `name` differ in nothing but colours."""
    import mujoco

    # A forked process must have a context of its own.
    renderer = _renderer(_Named(name, model), side, lifelike, os.getpid())
    renderer.context.make_current()
    mujoco.mjv_updateScene(
        model, data, renderer.options, None, renderer.camera, mujoco.mjtCatBit.mjCAT_ALL, renderer.scene
    )
    mujoco.mjr_render(renderer.viewport, renderer.scene, renderer.drawing)
    picture = np.empty((side, side, 3), np.uint8)
    mujoco.mjr_readPixels(picture, None, renderer.viewport, renderer.drawing)
    return np.ascontiguousarray(picture[::-1])


class _Named(NamedTuple):
    """A model that is told apart from others by its name alone."""

    name: str
    model: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@lru_cache(maxsize=8)
def _renderer(named: _Named, side: int, lifelike: bool, process: int) -> _Renderer:
    import mujoco

    context = _context(side)
    context.make_current()
    model = mujoco.MjModel.__copy__(named.model)
    model.vis.quality.offsamples = SAMPLES if lifelike else 0
    model.vis.global_.offwidth = model.vis.global_.offheight = side
    drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawing)
    drawing.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZERONEAR
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, named.model.camera(CAMERA).id
    scene = mujoco.MjvScene(named.model, maxgeom=1000)
    scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = lifelike
    return _Renderer(context, drawing, scene, mujoco.MjvOption(), camera, mujoco.MjrRect(0, 0, side, side))


def _context(side: int) -> Any:
    """OpenGL without a window: on Linux EGL unless `MUJOCO_GL` says otherwise."""
    try:
        if sys.platform == "linux" and not os.environ.get("MUJOCO_GL"):
            from mujoco.egl import GLContext
        else:
            from mujoco import GLContext
        return GLContext(side, side)
    except Exception as error:  # whatever a missing or broken driver raises
        raise UserError(
            f"no renderer for pictures of MuJoCo ({type(error).__name__}: {' '.join(str(error).split())}): install EGL "
            "(Debian: libegl1 libgl1-mesa-dri), or set MUJOCO_GL to osmesa or glfw; states need none"
        ) from error
