"""What is found in a clip: detections, tracks with what was drawn on them, soft masks."""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import (
    COUNT,
    MAX_RINGS,
    NAME,
    SHARE,
    Array,
    Line,
    Rows,
    Stored,
    stored,
)
from macd_studio.core.errors import DetectorError
from macd_studio.core.types.clips import Floats
from macd_studio.core.validation import Flag, Many, Maybe, Number

Outline = tuple[Floats, ...]
"""Closed polygons (P, 2), one for each part that is seen."""
LOST, INTERPOLATED, SEEN = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Detections:
    """What a detector saw in one frame: boxes (N, 4) in [0, 1], scores (N,), labels (N,).

    outlines: from a detector that segments, N outlines in shares of the frame, None where it gave
    none; empty from one that does not segment.
    """

    boxes: Floats
    scores: Floats
    labels: tuple[str, ...]
    outlines: tuple[Outline | None, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.boxes) == len(self.scores) == len(self.labels):
            lengths = ", ".join(str(len(z)) for z in (self.boxes, self.scores, self.labels))
            raise DetectorError(
                f"the lengths of boxes, scores and labels differ: {lengths}",
                "Give one of each for each object",
            )
        if self.outlines and len(self.outlines) != len(self.labels):
            raise DetectorError(
                f"{len(self.outlines)} outlines but {len(self.labels)} labels",
                "Give an outline or None for each object, or no outlines",
            )


@dataclass(frozen=True, eq=False)
class Stroke(Stored):
    """A line that was brushed onto a track's mask; it is carried along with the track's box."""

    points: Floats = stored(
        Line(), "(N, 2) in shares of the box, 0 0 its upper left corner; they may lie outside"
    )
    radius: float = stored(Number(0.0, 10.0), "in shares of the frame's short side")
    erase: bool = stored(
        Flag(), "takes away from the mask instead of adding to it", False, needed=True
    )


@dataclass(frozen=True, eq=False)
class Track(Stored):
    """One object through the clip, read off at the sampled frames."""

    id: int = stored(COUNT, "from 1, most important first (confidence × sightings)")
    label: str = stored(NAME, "class name")
    confidence: float = stored(SHARE, "mean detector score of its sightings")
    boxes: Floats = stored(
        Array("T 4", lost=True, digits=5, kept="f4"),
        "x0 y0 x1 y1 in shares of the source frame, NaN where the track is lost",
    )
    state: NDArray[np.int8] = stored(
        Array("T", 0, SEEN, whole=True, kept="i1"), "0 lost, 1 interpolated, 2 seen"
    )
    frames_seen: int = stored(COUNT, "sightings on the dense frames")
    brush: tuple[Stroke, ...] = stored(
        Rows(Stroke, 200), "what was drawn by hand on its mask, in order", ()
    )
    outlines: tuple[Outline | None, ...] = stored(
        Many(Maybe(Many(Line(4), 0, MAX_RINGS))),
        "polygons of its parts on each frame in shares of the box, null where only the box is"
        " known; empty where it always is",
        (),
    )

    def outline(self, frame: int) -> Outline | None:
        """Its outline on a sampled frame, in shares of the box; None: the box itself."""
        return self.outlines[frame] if self.outlines else None


@dataclass(frozen=True, eq=False)
class MaskSet:
    """Soft masks. objects: (K, T, H, W) in [0, 1]; outside: (T, H, W), what no object covers."""

    objects: Floats
    outside: Floats
