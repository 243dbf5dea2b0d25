"""Clips that are measured on: drawn ones, a kept one, and parts of real ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import numpy as np

from macd_studio.core.types import SEEN, Clip, Track
from macd_studio.toyworld.clips import drawn_clip, write_mp4
from macd_studio.toyworld.world import sample

CUP = Path(__file__).parent / "fixtures" / "cup.mp4"
"""A drawn clip of the opening example of former versions, with three objects; beside it its trace,
of five steps. Figures of different versions are of the same clip."""
REAL = Path(os.environ.get("MACD_REAL_DATA") or Path(__file__).parents[2] / "shared" / "real")
"""Real clips that are not part of the project; without them, old figures are kept."""
SPEC = sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0)


def drawn() -> Clip:
    """The drawn clip that most parts measure on."""
    return drawn_clip(SPEC, "bench", "0" * 64)


@contextmanager
def drawn_file() -> Iterator[Path]:
    """The drawn clip as a video file, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_mp4(SPEC, path)
        yield path


def still(n: int, frames: int) -> tuple[Track, ...]:
    """Tracks of objects at random places that do not move."""
    state = np.full(frames, SEEN, np.int8)
    low = np.random.default_rng(0).uniform(0, 0.7, (n, 2))
    boxes = np.concatenate([low, low + 0.25], 1).astype(np.float32)
    return tuple(
        Track(i, "dog", 0.9, np.tile(b, (frames, 1)), state, 8) for i, b in enumerate(boxes)
    )


def cut(source: Path, target: Path, seconds: float) -> Path:
    """The first seconds of a video, copied packet by packet without encoding; returns `target`."""
    with av.open(str(source)) as clip, av.open(str(target), "w") as out:
        stream = clip.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for packet in clip.demux(stream):
            if packet.dts is None or packet.pts is None:
                continue
            if float(packet.pts * packet.time_base) >= seconds:
                continue
            packet.stream = copy
            out.mux(packet)
    return target
