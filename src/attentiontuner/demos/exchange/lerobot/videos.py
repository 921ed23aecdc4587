"""Frames of videos, read and written one after the other."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentiontuner.core.errors import UserError
from attentiontuner.demos.exchange.lerobot.layout import StepError, installed

CODEC = "libx264"
OPTIONS = {"crf": "18", "preset": "veryfast", "g": "2", "bf": "0"}
"""Fine to the eye; every second frame can be read without those before it, as LeRobot's own videos have it."""

SEEK_SECONDS = 5.0
"""What lies further ahead is jumped to, not decoded through."""


class VideoReader:
    """One file, decoded once as long as what is asked for lies ahead.

    A frame belongs to a time if it is shown within a quarter of a frame of it.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self.path, self._av = path, installed("av")
        self._near = 0.25 / fps
        if not path.is_file():
            raise UserError(f"{path} is missing: get the data set again, whole")
        try:
            self._container = self._av.open(str(path))
            self._stream = self._container.streams.video[0]
        except self._av.FFmpegError as error:
            raise UserError(f"{path} is no video that can be read: {error.strerror}") from error
        except IndexError:
            raise UserError(f"{path} has no pictures in it: it is no video") from None
        self._stream.thread_type = "AUTO"
        # A missing frame lowers the average, uneven times the other: only a video of another speed has both wrong.
        rates = [float(rate) for rate in (self._stream.average_rate, self._stream.base_rate) if rate]
        if rates and all(abs(rate - fps) > 0.01 * fps for rate in rates):
            self.close()
            raise UserError(f"{path} runs at {rates[0]:g} fps, the data set at {fps:g}: they must agree")
        self._colours = self._av.video.reformatter.VideoReformatter()  # one for all frames: setting up takes longest
        self._frames = self._container.decode(self._stream)
        self._present: Any = None
        self._time = -1.0

    def close(self) -> None:
        self._container.close()

    def read(self, times: Sequence[float], height: int, width: int) -> NDArray[np.uint8]:
        """`[T, height, width, 3]`, the frames at these rising seconds after the file's start."""
        found = np.empty((len(times), height, width, 3), np.uint8)
        if times[0] < self._time - self._near or times[0] > self._time + SEEK_SECONDS:
            self._seek(times[0])
        for step, wanted in enumerate(times):
            try:
                while self._time < wanted - self._near:
                    self._advance()
            except StopIteration:
                raise StepError(f"the video ends before {wanted:.3f} s: frames are missing", step) from None
            except self._av.FFmpegError as error:
                raise StepError(f"the video is damaged at {wanted:.3f} s: {error.strerror}", step) from error
            if self._time > wanted + self._near:
                raise StepError(f"the video has no frame at {wanted:.3f} s", step)
            size = self._present.height, self._present.width
            if size != (height, width):
                raise StepError(f"a frame of {size[0]}×{size[1]}, not {height}×{width}", step)
            found[step] = self._colours.reformat(self._present, format="rgb24").to_ndarray()
        return found

    def _advance(self) -> None:
        self._present = next(frame for frame in self._frames if frame.pts is not None)
        self._time = float(self._present.pts * self._stream.time_base)

    def _seek(self, seconds: float) -> None:
        """Go to the last frame before `seconds` that can be decoded on its own."""
        before = max(0, int(seconds / self._stream.time_base) - 1)
        with suppress(self._av.FFmpegError):  # past the end: reading on says so
            self._container.seek(before, stream=self._stream, backward=True)
        self._frames, self._time = self._container.decode(self._stream), -1.0


class VideoWriter:
    """One file that frames are added to."""

    def __init__(self, path: Path, fps: float, height: int, width: int) -> None:
        av = installed("av")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.frames = path, 0
        self._av, self._fps = av, Fraction(fps).limit_denominator(1000)
        self._container = av.open(str(path), "w", options={"movflags": "faststart"})
        self._stream = self._container.add_stream(CODEC, self._fps, options=OPTIONS)
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
        self._stream.time_base = 1 / self._fps

    def add(self, images: NDArray[np.uint8]) -> float:
        """Add `[T, H, W, 3]`; the time at which the first of them is shown, in seconds."""
        start = float(self.frames / self._fps)
        for image in images:
            frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame.pts, frame.time_base = self.frames, 1 / self._fps
            self._put(self._stream.encode(frame))
            self.frames += 1
        return start

    def _put(self, packets: Iterator[Any]) -> None:
        for packet in packets:
            self._container.mux(packet)

    def size(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size

    def close(self) -> None:
        """Write what is left; without it the file cannot be read."""
        self._put(self._stream.encode())
        self._container.close()
