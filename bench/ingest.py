"""Reading 16 uniform frames of a 20 s 720p clip against plain sequential PyAV decoding of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np

from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.toyworld.clips import write_frames

SECONDS, FPS, WIDTH, HEIGHT, FRAMES = 20, 25, 1280, 720, 16


def write_sample(path: Path) -> None:
    """A drifting texture with grain: no easier to decode than a hand-held recording."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (120, 214, 3), dtype=np.uint8)
    scene = cv2.resize(small, (WIDTH + 200, HEIGHT + 100), interpolation=cv2.INTER_CUBIC)
    frames = np.empty((SECONDS * FPS, HEIGHT, WIDTH, 3), np.uint8)
    for i in range(len(frames)):
        x, y = round(90 + 90 * np.sin(i / 40)), round(45 + 45 * np.cos(i / 55))
        grain = rng.integers(0, 3, (HEIGHT, WIDTH, 1), dtype=np.uint8)
        frames[i] = cv2.add(scene[y : y + HEIGHT, x : x + WIDTH], np.repeat(grain, 3, 2))
    write_frames(frames, path, FPS)


def plain(path: Path) -> int:
    """Decodes everything in order, threads on, and converts 16 frames to RGB."""
    indices = {int((i + 0.5) * SECONDS * FPS / FRAMES) for i in range(FRAMES)}
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        return sum(
            frame.to_ndarray(format="rgb24").shape[0] > 0
            for i, frame in enumerate(container.decode(stream))
            if i in indices
        )


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(runs: int = 5) -> dict[str, float]:
    """Medians of runs taken in turn, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.mp4"
        write_sample(path)
        options = VideoOptions(frames=FRAMES, dense_fps=0)
        plain(path), read_clip(path, options)
        pairs = [
            (seconds(lambda: plain(path)), seconds(lambda: read_clip(path, options)))
            for _ in range(runs)
        ]
    base, decoded = (statistics.median(z) for z in zip(*pairs, strict=True))
    return {
        "decode16_pyav_ms": round(1000 * base, 1),
        "decode16_ms": round(1000 * decoded, 1),
        "decode16_over_pyav": round(decoded / base, 3),
    }
