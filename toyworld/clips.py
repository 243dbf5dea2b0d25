"""Clips of the toy world: as an mp4 that any player opens, or straight from the spec."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from macd_studio.core.types import Clip
from macd_studio.toyworld.scenes import MASTER
from macd_studio.toyworld.world import ClipSpec, frame_times, render

SECONDS, FPS, FRAMES = 4, 12, 8
TITLE = "toy world"


def write_mp4(spec: ClipSpec, path: Path, preset: str = "slow") -> None:
    """4 s of 384×384 at 12 fps, H.264; the title marks it as a clip the embedded model knows.

    preset: see `write_frames`.
    """
    frames = render(spec, frame_times(SECONDS * FPS), MASTER)
    write_frames(frames, path, FPS, {"title": TITLE}, preset)


def drawn_clip(spec: ClipSpec, name: str, sha256: str, size: int = 192, dense: int = 16) -> Clip:
    """The clip as `core` samples it, drawn and never through a codec: 8 frames and `dense`."""
    times, dense_times = frame_times(FRAMES), frame_times(dense)
    return Clip(
        frames=render(spec, times, size),
        times=times * SECONDS,
        dense_frames=render(spec, dense_times, size),
        dense_times=dense_times * SECONDS,
        name=name,
        sha256=sha256,
        duration=float(SECONDS),
        size=(size, size),
        title=TITLE,
    )


def write_frames(
    frames: np.ndarray,
    path: Path,
    fps: int,
    metadata: dict[str, str] | None = None,
    preset: str = "slow",
) -> None:
    """(N, H, W, 3) RGB 0-255 → H.264 in mp4, visually lossless; preset: of x264, size for time."""
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        container.metadata.update(metadata or {})
        stream = container.add_stream("libx264", rate=fps)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "20", "preset": preset, "g": str(2 * fps)}
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
