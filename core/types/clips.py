"""Clips as sampled, the frames that a backbone reads, and how far a slow piece of work is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import Stored, stored
from macd_studio.core.validation import Many, Number

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]


@dataclass
class Progress:
    """How far a slow piece of work is; written by its worker, read by the caller that waits.

    fraction: of what the message names, [0, 1]. stopped: the result is not needed any more; the
    worker ends with Cancelled.
    """

    message: str = ""
    fraction: float = 0.0
    stopped: bool = False

    def begin(self, message: str) -> None:
        """The next piece starts."""
        self.fraction, self.message = 0.0, message


@dataclass(frozen=True, eq=False)
class Clip:
    """Sampled frames for the backbone, and denser, smaller ones for the tracker."""

    frames: Pixels
    """(T, H, W, 3) RGB 0-255, upright, square pixels, long side ≤ 1280."""
    times: NDArray[np.float64]
    """(T,) seconds from the start of the file, rising; 0 of a picture, whose duration is 0."""
    dense_frames: Pixels
    """(D, h, w, 3) RGB 0-255, upright, square pixels, long side ≤ 640."""
    dense_times: NDArray[np.float64]
    """(D,) seconds from the start of the file, rising."""
    name: str
    sha256: str
    duration: float
    size: tuple[int, int]
    title: str = ""
    notes: tuple[str, ...] = ()
    numbers: Ints | None = None
    """(T,) numbers of the frames among those of the file, from 0."""
    fps: float | None = None
    """Frames per second of the file."""
    count: int | None = None
    """Frames of the file."""
    full_size: tuple[int, int] | None = None
    """(w, h) of the file's frames as they are shown."""
    stored_size: tuple[int, int] | None = None
    """(w, h) of them as they are stored, where their pixels are not square."""

    def __repr__(self) -> str:
        shape = f"{len(self.frames)} frames of {self.size[0]}×{self.size[1]}"
        return f"<Clip {self.name!r}: {shape}, {self.duration:.1f} s>"

    @property
    def is_picture(self) -> bool:
        """Whether it is one picture, which has no length, rather than a video of one frame."""
        return len(self.times) == 1 and self.duration == 0

    def __post_init__(self) -> None:
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or self.frames.dtype != np.uint8:
            raise ValueError(f"frames must be (T, H, W, 3) uint8, got {self.frames.shape}")
        if len(self.frames) != len(self.times):
            raise ValueError(f"{len(self.frames)} frames but {len(self.times)} times")


@dataclass(frozen=True, eq=False)
class ModelFrames(Stored):
    """The frames as a backbone reads them: resized by its own rule, 8 bits per channel.

    pixels: (T, h, w, 3) RGB 0-255. times: (T,) seconds.
    """

    pixels: Pixels
    times: NDArray[np.float64]
    duration: float = stored(Number(0.0, 1e9), "of the clip, seconds")
    content: tuple[int, int, int, int] = stored(
        Many(Number(0, 2**16, whole=True), 4, 4),
        "x0 y0 x1 y1, the pixels of a model frame that show the source frame; the rest is padding",
    )
    stretch: float = stored(
        Number(1e-3, 1e3),
        "how much wider the source appears than it is, 1 where its shape is kept",
        1.0,
        needed=True,
    )

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.pixels.shape[-1] != 3 or self.pixels.dtype != np.uint8:
            raise ValueError(f"pixels must be (T, h, w, 3) uint8, got {self.pixels.shape}")
        if len(self.pixels) != len(self.times):
            raise ValueError(f"{len(self.pixels)} frames but {len(self.times)} times")
        x0, y0, x1, y1 = self.content
        if not (0 <= x0 < x1 <= self.pixels.shape[2] and 0 <= y0 < y1 <= self.pixels.shape[1]):
            raise ValueError(f"content {self.content} lies outside the frames")

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of a model frame."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def padded(self) -> bool:
        """Whether the source frame fills less than the whole model frame."""
        return self.content != (0, 0, self.size[1], self.size[0])

    def subset(self, index: Sequence[int]) -> ModelFrames:
        """Some of the frames, in the order of `index`."""
        return replace(self, pixels=self.pixels[list(index)], times=self.times[list(index)])
