"""A decoded picture → pixels as they are displayed: turned, mirrored, in their shape, on white.

Used by `core.media.worker` only.
"""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

SLANT = 0.05
"""From this share of the other axis on, a display matrix is not one of quarter turns."""
ROWS = 64
"""Rows that are put on white at once."""


class Turn:
    """How a stored picture is turned and mirrored for display, by its display matrix.

    matrix: a, b, …: a stored place (x, y) is displayed at (a·x + c·y, b·x + d·y). It may stand for
    any of the eight ways to lay a rectangle on its sides; other turns become the nearest of them,
    and `slanted` is then true.
    """

    def __init__(self, a: int = 1, b: int = 0, c: int = 0, d: int = 1) -> None:
        along, across = abs(a) + abs(d), abs(b) + abs(c)
        self.swaps = across > along
        self.flips_x = (c if self.swaps else a) < 0
        self.flips_y = (b if self.swaps else d) < 0
        self.slanted = min(along, across) > SLANT * max(along, across)

    def applied(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The picture (H, W, 3) as displayed: (W, H, 3) where `swaps`."""
        if self.swaps:
            picture = picture.transpose(1, 0, 2)
        return picture[:: -1 if self.flips_y else 1, :: -1 if self.flips_x else 1]


class Turns:
    """What a file says of how its pictures are turned. It is asked once for each angle.

    A frame that was asked for its side data is kept until garbage is collected, with all of the
    memory that a decoder has for it.
    """

    def __init__(self) -> None:
        self._known: dict[int, Turn] = {}

    def of(self, frame: av.VideoFrame) -> Turn:
        """How this picture is turned."""
        angle = frame.rotation
        if angle not in self._known:
            data = frame.side_data.get("DISPLAYMATRIX")
            turn = Turn()
            if data is not None and data.buffer_size >= 36:
                m = np.frombuffer(bytes(data)[:36], np.int32).tolist()
                turn = Turn(m[0], m[1], m[3], m[4])
            self._known[angle] = turn
        return self._known[angle]

    @property
    def slanted(self) -> bool:
        """Whether any was `Turn.slanted`."""
        return any(turn.slanted for turn in self._known.values())


def to_rgb(frame: av.VideoFrame, side: int, aspect: Fraction, turn: Turn) -> NDArray[np.uint8]:
    """Upright RGB with square pixels, the long side at most `side`."""
    width, height = max(1, round(frame.width * aspect)), frame.height
    scale = min(1.0, side / max(width, height))
    width, height = max(2, round(width * scale)), max(2, round(height * scale))
    return turn.applied(frame.reformat(width=width, height=height, format="rgb24").to_ndarray())


def on_white(frame: av.VideoFrame) -> tuple[av.VideoFrame, bool]:
    """The same with white behind what is transparent, in full size; and whether anything is."""
    if not frame.format.has_palette and not any(c.is_alpha for c in frame.format.components):
        return frame, False
    pixels = frame.reformat(format="rgba").to_ndarray()
    if pixels[..., 3].min() == 255:
        return frame, False
    for start in range(0, len(pixels), ROWS):
        rows = pixels[start : start + ROWS]
        alpha = rows[..., 3:].astype(np.uint16)
        mixed = rows[..., :3] * alpha + 255 * (255 - alpha)
        rows[..., :3] = (mixed + 127) // 255
    opaque = np.ascontiguousarray(pixels[..., :3])
    return av.VideoFrame.from_ndarray(opaque, format="rgb24"), True
