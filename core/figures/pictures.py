"""Frames as parts of figures: which of them, how large, and as what a library takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from macd_studio.core.errors import OptionError
from macd_studio.core.media.webp import picture_uri
from macd_studio.core.types import Pixels, Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST = 4
"""Frames of a figure where none are named."""
SIDE = 320
"""Long side of a frame in a figure, pixels."""


def choose_frames(trace: Trace, frames: Any = None) -> tuple[int, ...]:
    """Indices from 0: the named ones, or up to MOST at equal distances; raises OptionError."""
    count = len(trace.frames)
    if frames is None:
        return tuple(np.unique(np.linspace(0, count - 1, min(MOST, count)).round().astype(int)))
    chosen = tuple(frames) if isinstance(frames, list | tuple | range) else (frames,)
    for index in chosen:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise OptionError(f"there is no frame {index!r}", f"Choose from 0 to {count - 1}")
    if not chosen:
        raise OptionError("no frame was named", f"Choose from 0 to {count - 1}")
    return chosen


def small(frame: Pixels, side: int = SIDE) -> Pixels:
    """The picture (H, W, 3), its long side at most `side` pixels."""
    scale = side / max(frame.shape[:2])
    if scale >= 1:
        return frame
    height, width = (max(1, round(scale * n)) for n in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS))


def of_content(trace: Trace, frames: Pixels) -> Pixels:
    """Model frames (T, h, w, 3) without their padding."""
    assert trace.model_frames is not None
    x0, y0, x1, y1 = trace.model_frames.content
    return frames[:, y0:y1, x0:x1]


def as_image(frame: Pixels, row: int, column: int, figure: go.Figure) -> None:
    """Puts a picture into a subplot whose axes run from 0 to 1, y downwards."""
    import plotly.graph_objects as go

    height, width = frame.shape[:2]
    figure.add_trace(
        go.Image(source=picture_uri(frame), x0=0.5 / width, y0=0.5 / height, dx=1 / width,
                 dy=1 / height, hoverinfo="skip"),
        row=row, col=column,
    )  # fmt: skip
    axis: dict[str, Any] = {
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }
    figure.update_xaxes(**axis, range=[0, 1], constrain="domain", row=row, col=column)
    shape = {
        "scaleanchor": figure.get_subplot(row, column).yaxis.anchor,
        "scaleratio": height / width,
    }
    figure.update_yaxes(**axis, range=[1, 0], **shape, row=row, col=column)


def bare_axes(axes: Any, frame: Pixels) -> None:
    """Matplotlib axes with a picture over 0 … 1, y downwards, without ticks."""
    height, width = frame.shape[:2]
    axes.imshow(frame, extent=(0, 1, 1, 0), aspect=height / width, interpolation="antialiased")
    axes.set(xticks=[], yticks=[])
