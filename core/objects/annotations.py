"""Objects as a file describes them: shapes on its own frames, before they are placed on a clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import MAX_POINTS
from macd_studio.core.objects.outlines import Mask, filled, outline_of, within
from macd_studio.core.text.words import visible, writable
from macd_studio.core.types import Floats, Outline

Between = Literal["even", "closest"]
Counted = Literal["stated", "open"]
LONGEST_LABEL = 200


Look = tuple[Floats, Outline | None, bool]
"""A box, the outline in shares of it, and whether that is exact."""


@dataclass(frozen=True, eq=False)
class Shape:
    """An object on one described frame; nothing is drawn before `see`."""

    at: float
    """The frame's number."""
    box: Floats | None = None
    """x0 y0 x1 y1 in shares of the frame; None: out of sight from here on, where there is no mask
    either."""
    rings: tuple[NDArray[np.float64], ...] = ()
    """Polygons in pixels of `size` = (h, w), or in shares of the frame where that is 0 0; the
    object is all of them."""
    size: tuple[int, int] = (0, 0)
    runs: Callable[[], Mask] | None = None
    """Gives its mask, which is made when it is needed."""
    kept: Outline = ()
    """Its outline in shares of the box."""
    place: str = ""
    """Where in the file it stands, in words."""

    @property
    def in_sight(self) -> bool:
        """Whether there is anything of it on this frame."""
        return self.box is not None or self.runs is not None

    def see(self, frame: tuple[int, int]) -> Look | None:
        """Box, outline in shares of it, whether exact; None: out of sight. frame: (h, w)."""
        if self.runs is not None:
            return outline_of(self.runs())
        size, rings = self.size, self.rings
        if rings and not size[0]:
            size, rings = frame, tuple(ring * (frame[1], frame[0]) for ring in rings)
        if len(rings) > 1:  # together they may overlap, where an even-odd rule leaves a hole
            mask = np.zeros(size, bool)
            for ring in rings:
                mask |= filled([ring], size)
            return outline_of(mask)
        if rings:
            return ring_seen(rings[0], size)
        if self.box is None:
            return None
        box = self.box.clip(0, 1)
        return (box, self.kept or None, True) if (box[2:] > box[:2]).all() else None


def ring_seen(ring: NDArray[np.float64], size: tuple[int, int]) -> Look | None:
    """A polygon as it is, if it lies inside of the frame, has few points, and none of them twice.

    Any other is drawn: it is cut at the edge, or has lines between parts, which are no edges.
    """
    scale = np.array([size[1], size[0]], np.float64)
    inside = (ring >= 0).all() and (ring <= scale).all()
    if not inside or len(ring) > MAX_POINTS or len(np.unique(ring, axis=0)) < len(ring):
        return outline_of(filled([ring], size))
    ends = np.concatenate([ring.min(axis=0) / scale, ring.max(axis=0) / scale])
    box = ends.astype(np.float32)
    if not (box[2:] > box[:2]).all():
        return None
    return box, within([ring], box, size), True


@dataclass(frozen=True, eq=False)
class Annotated:
    """One object of a file. shapes: by their frame, in order."""

    label: str
    shapes: tuple[Shape, ...]
    confidence: float = 1.0
    certain: bool = True
    """Whether the file says which shapes are of it, or no other has its label; else they were
    linked by overlap."""

    @property
    def frames_seen(self) -> int:
        """On how many described frames it is in sight."""
        return sum(shape.in_sight for shape in self.shapes)


@dataclass(frozen=True, eq=False)
class TrackFile:
    """What a file says, as it says it."""

    name: str
    sha256: str
    """`name` and `sha256` of the file."""
    format: str
    """The format's name for people."""
    frames: NDArray[np.float64]
    objects: tuple[Annotated, ...] = ()
    fps: float | None = None
    first: float = 0.0
    """`fps` and `first`: rate and first number of its own count of frames, where it states one."""
    size: tuple[int, int] | None = None
    """(w, h) of its pictures, where it states them."""
    between: Between = "closest"
    """What it says of frames that it does not describe."""
    stays: bool = False
    """Whether an object stays where it was last."""
    seconds: bool = False
    """Whether it states times instead of counting frames."""
    notes: tuple[str, ...] = ()
    counted: Counted = "stated"
    """Whether its format says with which number frames begin."""
    lists_all: bool = False
    """Whether it lists every picture that was annotated, those without an object too."""
    look: Callable[[Sequence[float]], tuple[tuple[Annotated, ...], tuple[str, ...]]] | None = None
    """Gives the objects on some frames, and notes, for a file whose objects are known only once its
    pictures are read."""


def clean_label(text: object) -> str:
    """A label as a trace may hold it: short, without control characters.

    >>> clean_label(" dog\\x00 "), clean_label("")
    ('dog\\\\x00', 'object')
    """
    return visible(writable(str(text)[: 2 * LONGEST_LABEL])).strip()[:LONGEST_LABEL] or "object"
