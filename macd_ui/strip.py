"""The filmstrip of an uploaded clip: small pictures over its length, and what is chosen on it.

Read by the same bounded process as a run reads its frames, with the same limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.media.video import OWN_MACHINE, ReadLimits
from macd_studio.core.media.webp import picture_uri
from macd_studio.core.options import VideoOptions
from macd_studio.core.types import Clip, Pixels
from macd_studio.core.validation import Part, refuse_unknown
from macd_studio.macd_ui.reading import read_beside

PICTURES, SIDE = 24, 240
"""How many pictures a strip shows, and their long side at most, in pixels."""
STRIP = VideoOptions(frames=PICTURES, dense_fps=0, max_seconds=36_000)
"""A clip that is too long for a run still shows its strip, on which a range is chosen."""
CHOSEN = ("start", "end", "at")
"""The options of `VideoOptions` that are chosen on a strip."""


def read_strip(
    video: str,
    chosen: Mapping[str, Any],
    stopped: Callable[[], bool],
    readers: AbstractContextManager[None],
    limits: ReadLimits = OWN_MACHINE,
) -> Clip:
    """PICTURES frames of the range `start` to `end` in `chosen`, of the whole clip without it.

    readers: a turn to read. Raises Cancelled as soon as `stopped`, OptionError, and the VideoErrors
    of `read_clip`.
    """
    bounds = {name: chosen[name] for name in ("start", "end") if chosen.get(name) is not None}
    options = video_options(STRIP, bounds)
    return read_beside(video, options, stopped, readers, limits)


def video_options(options: VideoOptions, chosen: Any) -> VideoOptions:
    """The options with what was chosen on a strip, `{}` where nothing was. Raises OptionError."""
    if not chosen:
        return options
    if not isinstance(chosen, Mapping):
        raise OptionError("the choice of frames is not an object", "Reload the page")
    refuse_unknown(chosen, CHOSEN, "frames")
    read: VideoOptions = Part(options).read(dict(chosen), "video")
    return read


def strip_value(clip: Clip, longest_s: float) -> dict[str, Any]:
    """What the page draws a strip from, as plain values; times in seconds.

    longest_s: the longest range that a run reads, seconds.
    """
    return {
        "name": clip.name,
        "duration": round(clip.duration, 3),
        "longest": longest_s,
        "times": [round(float(t), 3) for t in clip.times],
        "pictures": [picture_uri(smaller(frame, SIDE)) for frame in clip.frames],
        "size": [clip.size[0], clip.size[1]],
    }


def smaller(frame: Pixels, side: int) -> Pixels:
    """A frame (H, W, 3) with a long side of at most `side` pixels, by means over whole blocks."""
    height, width = frame.shape[:2]
    by = math.ceil(max(height, width) / side)
    if by == 1:
        return frame
    h, w = max(1, height // by), max(1, width // by)
    tall, wide = min(by, height), min(by, width)
    blocks = frame[: h * tall, : w * wide].reshape(h, tall, w, wide, 3)
    small: Pixels = blocks.mean((1, 3), dtype=np.float32).round().astype(np.uint8)
    return small
