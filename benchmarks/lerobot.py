"""LeRobot data sets in and out, beside the bare decoders, and beside reading what came in. One core."""

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attentiontuner.demos import Demonstration, DemoStore, DemoWriter
from attentiontuner.demos.exchange.lerobot.exporting import to_lerobot
from attentiontuner.demos.exchange.lerobot.importing import from_lerobot
from attentiontuner.spaces.action import ActionSpec
from attentiontuner.spaces.observation import ObservationSpec, Part
from benchmarks import Row

SIDE, EPISODES, STEPS = 128, 40, 15
CAMERAS = ("front", "wrist")
SPEC = ObservationSpec(
    parts={**{name: Part("image", (SIDE, SIDE, 3)) for name in CAMERAS}, "state": Part("vector", (8,))}
)


def film(rng: np.random.Generator) -> np.ndarray:
    """`[STEPS, SIDE, SIDE, 3]`: a square that moves over a textured ground, with a camera's noise."""
    down, across = np.mgrid[:SIDE, :SIDE]
    ground = np.stack([across, down, (across + down) // 2], -1) + rng.normal(0, 6, (SIDE, SIDE, 3))
    frames = ground + rng.normal(0, 1.5, (STEPS, SIDE, SIDE, 1))
    top, left, colour = *rng.integers(0, SIDE - 40, 2), rng.integers(0, 255, 3)
    for step in range(STEPS):
        frames[step, top + step : top + step + 24, left : left + 24] = colour
    return frames.clip(0, 255).astype(np.uint8)


def recorded(folder: Path) -> DemoStore:
    rng = np.random.default_rng(0)
    writer = DemoWriter(folder, task="film", observation=SPEC, actions=ActionSpec.box(-np.ones(7), np.ones(7)))
    made = []
    for seed in range(EPISODES):
        seen = {name: film(rng) for name in CAMERAS} | {"state": rng.normal(size=(STEPS, 8)).astype(np.float32)}
        made.append(Demonstration(seen, rng.uniform(-1, 1, (STEPS, 7)), pairs=[(0, STEPS - 1)], seed=seed))
    writer.append(made, "expert")
    return DemoStore.open(folder)


def bare_pngs(root: Path) -> None:
    """Decode every PNG and keep none."""
    import pyarrow.parquet as pq
    from PIL import Image

    for path in root.glob("data/*/*.parquet"):
        for name in CAMERAS:
            for row in pq.read_table(path, columns=[f"observation.images.{name}"]).column(0).to_pylist():
                np.asarray(Image.open(io.BytesIO(row["bytes"])))


def bare_videos(root: Path) -> None:
    """Decode every frame and keep none."""
    import av

    for path in root.glob("videos/*/*/*.mp4"):
        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                frame.to_ndarray(format="rgb24")


def seconds(function: Callable[[], object]) -> float:
    """Of this process, whatever else the machine does."""
    started = time.process_time()
    function()
    return time.process_time() - started


def read_all(store: DemoStore) -> None:
    for demonstration in store:
        assert len(demonstration)


def bench() -> list[Row]:
    megabytes = 2 * EPISODES * STEPS * SIDE * SIDE * 3 / 1e6
    rows = [Row(f"{EPISODES} episodes, {2 * EPISODES * STEPS} frames of {SIDE}×{SIDE}", megabytes, "MB")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = recorded(folder / "store")
        for cameras, bare in (("image", bare_pngs), ("video", bare_videos)):
            theirs, back = folder / cameras, folder / f"{cameras}-back"
            out = seconds(lambda theirs=theirs, cameras=cameras: to_lerobot(store, theirs, cameras=cameras))
            into = seconds(lambda theirs=theirs, back=back: from_lerobot(theirs, back))
            decoding = seconds(lambda theirs=theirs, bare=bare: bare(theirs))
            reading = min(seconds(lambda back=back: read_all(DemoStore.open(back))) for _ in range(3))
            kind = "PNG" if cameras == "image" else "videos"
            rows += [
                Row(f"to LeRobot, {kind}", megabytes / out, "MB/s of CPU"),
                Row(f"from LeRobot, {kind}", megabytes / into, "MB/s of CPU"),
                Row(f"… beside decoding them alone, {kind}", decoding / into, "times as fast", ">= 0.2"),
                Row(f"reading what came in beside decoding {kind} again", decoding / reading, "times as fast", ">= 2"),
            ]
    return rows


if __name__ == "__main__":
    for row in bench():
        print(row)
