"""Pictures of a MuJoCo world, where a renderer is there: a process draws all worlds of a kind in one context, and all
of them in one thread of its own, since a context of OpenGL belongs to the thread that uses it."""

import importlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError

Picture = NDArray[np.uint8]
"""`[side, side, 3]` RGB, row 0 at the top."""

PIXELS = 128
"""The side of a camera's picture where nothing else is said."""

FEWEST, MOST = 36, 512
"""What else it may be: the smallest is what the paper's convolutions need."""

CAMERA = "front"

VARIABLE = "MUJOCO_GL"
RENDERERS = ("egl", "osmesa", "glfw")
"""What MuJoCo draws with on Linux, as that environment variable names it."""

SAMPLES = 2
"""Of each pixel of a lifelike picture."""


_threads: dict[int, ThreadPoolExecutor] = {}
"""By process: what draws in it."""


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
    as long. Models that share a `name` differ in nothing but colours. Any thread may ask."""
    process = os.getpid()  # a forked one must have a thread and a context of its own
    thread = _threads.get(process) or _threads.setdefault(process, ThreadPoolExecutor(1, "pictures"))
    return thread.submit(_draw, name, model, data, side, lifelike).result()


def _draw(name: str, model: Any, data: Any, side: int, lifelike: bool) -> Picture:
    import mujoco

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
    try:
        return _made_renderer(named.model, side, lifelike)
    except Exception as error:  # whatever a missing or broken driver raises
        said = os.environ.get(VARIABLE)
        raise UserError(
            f"no renderer for pictures of MuJoCo{f' with {VARIABLE}={said}' if said else ''} ({type(error).__name__}: "
            f"{' '.join(str(error).split())}): install EGL (Debian: libegl1 libgl1-mesa-dri) and leave {VARIABLE} "
            "unset, or set it to osmesa (libosmesa6) or glfw (a screen); states need none"
        ) from error


def _made_renderer(model: Any, side: int, lifelike: bool) -> _Renderer:
    import mujoco

    context = _context(side)
    context.make_current()
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(CAMERA).id
    scene = mujoco.MjvScene(model, maxgeom=1000)
    scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = lifelike
    model = mujoco.MjModel.__copy__(model)
    model.vis.quality.offsamples = SAMPLES if lifelike else 0
    model.vis.global_.offwidth = model.vis.global_.offheight = side
    drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawing)
    drawing.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZERONEAR
    return _Renderer(context, drawing, scene, mujoco.MjvOption(), camera, mujoco.MjrRect(0, 0, side, side))


def _context(side: int) -> Any:
    """OpenGL without a window: on Linux EGL unless `MUJOCO_GL` says otherwise."""
    named = os.environ.get(VARIABLE, "").strip().lower()
    if not named and sys.platform == "linux":
        named = "egl"
    if named in RENDERERS:
        return importlib.import_module(f"mujoco.{named}").GLContext(side, side)
    import mujoco

    if not hasattr(mujoco, "GLContext"):  # it is told to have none, or what it does not know
        raise ValueError(f"that is none of {', '.join(RENDERERS)}")
    return mujoco.GLContext(side, side)


@contextmanager
def no_renderer_named() -> Iterator[None]:
    """MuJoCo imports here without a renderer, whatever `MUJOCO_GL` says."""
    said = os.environ[VARIABLE]
    os.environ[VARIABLE] = "off"
    try:
        yield
    finally:
        os.environ[VARIABLE] = said
