"""A trace as a study sees it: display frames, tracks, levels and gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import AscentStep, Counterfactual, Pixels, Trace, Track

SIDE = 640
"""Long side of the frames that raters see, pixels; smaller ones are shown as they are."""
MAX_FRAMES = 32
GREY = (0.5, 0.5, 0.5)
ONE_TIME = "broken times: all its pictures stand at one time, so that one frame was read"
UNORDERED = "broken times: those of its frames do not rise"


@dataclass(frozen=True, eq=False)
class Source:
    """One clip and one question."""

    name: str
    sha256: str
    question: str
    frames: Pixels
    """(T, H, W, 3) RGB 0-255 as they are shown."""
    times: NDArray[np.float64]
    """(T,) times of the frames, seconds."""
    kept: tuple[int, ...]
    """Numbers of these frames in the trace."""
    tracks: tuple[Track, ...]
    groups: tuple[tuple[int, ...], ...]
    trace_frames: int
    mask: MaskOptions
    ascent: AscentOptions
    steps: tuple[AscentStep, ...]
    counterfactual: Counterfactual | None
    fill: tuple[float, float, float]
    """RGB of the mean fill, [0, 1]."""
    problem: str = ""
    """Why it cannot be rated, else ""."""
    motion: tuple[bytes, ...] = ()
    """Pictures of the clip between its frames, as WebP, with their times (P,) in seconds; they are
    shown without a mask, since only the frames are masked. Empty: the frames alone."""
    motion_times: tuple[float, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) of a frame."""
        return self.frames.shape[1], self.frames.shape[2]

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same clip and question as another."""
        return self.sha256, self.question.strip()


def read_source(path: str | Path) -> Source:
    """Reads a trace file; raises TraceError for anything else."""
    return source_of(load(path))


def without_pixels(source: Source) -> Source:
    """A source without its pictures, of which the frames keep their shape: for what needs masks.

    Black frames that share one byte take no memory.
    """
    return replace(source, frames=np.broadcast_to(np.uint8(0), source.frames.shape), motion=())


def source_of(trace: Trace) -> Source:
    """What a study needs of a trace."""
    kept = _kept(len(trace.frames))
    mean = trace.backbone.pixel_mean
    return Source(
        name=trace.clip.name,
        sha256=trace.clip.sha256,
        question=trace.question,
        frames=_display(trace.frames[list(kept)]),
        times=np.asarray(trace.times, np.float64)[list(kept)],
        kept=kept,
        tracks=trace.tracks,
        groups=trace.groups,
        trace_frames=len(trace.frames),
        mask=trace.mask,
        ascent=trace.options.ascent,
        steps=trace.steps,
        counterfactual=trace.counterfactual,
        fill=(mean[0], mean[1], mean[2]) if len(mean) == 3 else GREY,
        problem=_problem(trace),
    )


def _kept(frames: int) -> tuple[int, ...]:
    if frames <= MAX_FRAMES:
        return tuple(range(frames))
    return tuple(int(i) for i in np.linspace(0, frames - 1, MAX_FRAMES).round())


def _display(frames: Pixels) -> Pixels:
    height, width = frames.shape[1:3]
    scale = SIDE / max(height, width, 1)
    if scale >= 1:
        return frames
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.stack(
        [np.asarray(Image.fromarray(f).resize(size, Image.Resampling.LANCZOS)) for f in frames]
    )


def _problem(trace: Trace) -> str:
    final = trace.counterfactual
    if not len(trace.frames) or not trace.groups or final is None:
        return "the run was not finished"
    if broken := _broken_times(trace):
        return broken
    if not trace.tracks:
        return "no detection"
    return "" if len(final.level) == len(trace.tracks) else "the run was not finished"


def _broken_times(trace: Trace) -> str:
    """Why the clip cannot be shown as it ran, else "": its frames need times that rise."""
    times = np.asarray(trace.times, np.float64)
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        return UNORDERED
    if len(times) == 1 and trace.options.video.frames > 1 and not trace.is_picture:
        return ONE_TIME
    return ""
