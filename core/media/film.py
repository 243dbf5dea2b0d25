"""Pictures → an mp4 that every player opens: H.264, 4:2:0."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import VideoError
from macd_studio.core.system.whole import written_whole
from macd_studio.core.types import Pixels

TICKS = 1000
"""Per second: times are kept to the millisecond."""


def write_film(
    frames: Iterable[Pixels], times: NDArray[np.float64], path: Path, last: float
) -> None:
    """Pictures (H, W, 3) RGB of even height and width, each shown from its time on.

    times: (N,) seconds, rising; the film begins with the first. last: how long the last picture is
    shown, seconds. The file is written whole or not at all. Raises VideoError if it cannot be.
    """
    # ends are where the next picture begins, so a film lasts as long as its clip
    starts = [round(TICKS * float(t - times[0])) for t in times]
    try:
        with (
            written_whole(path) as part,
            av.open(str(part), "w", format="mp4", options={"movflags": "faststart"}) as film,
        ):
            stream = film.add_stream("libx264", rate=30)
            stream.pix_fmt = "yuv420p"
            stream.options = {"crf": "18", "preset": "medium"}
            stream.codec_context.time_base = Fraction(1, TICKS)
            picture = None
            for frame, start in zip(frames, starts, strict=True):
                if picture is None:
                    stream.height, stream.width = frame.shape[:2]
                picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
                picture.pts, picture.time_base = start, Fraction(1, TICKS)
                film.mux(stream.encode(picture))
            if picture is not None:  # shown again at the end, which gives the last one a length
                again = av.VideoFrame.from_ndarray(frame, format="rgb24")
                again.pts = starts[-1] + max(1, round(TICKS * last))
                again.time_base = Fraction(1, TICKS)
                film.mux(stream.encode(again))
            film.mux(stream.encode())
    except (OSError, av.FFmpegError) as error:
        raise VideoError(
            f"the film cannot be written ({error.strerror or type(error).__name__})",
            "Choose another place, or free space",
        ) from error
