"""Pixels as displayed, of a picture file or a decoded frame: turned, in their shape, on white.

Runs inside the bounded process of `core.media.worker`. What a file is says its content, never its
name. Pillow decodes with an allow-list of formats, after the size that the header announces was
checked.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import IO, Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from macd_studio.core.media.source import MIN_SIDE, Reject

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
MAX_PIXELS = 50_000_000
"""Cameras of phones make 50 megapixels; decoding takes about 8 bytes for each."""
TOO_DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N", "F")
REMEDY = "Export it again as PNG or JPEG"


def open_picture(path: str) -> tuple[Image.Image, list[str]]:
    """The upright picture in RGB, and what was converted; raises Reject, and MemoryError."""
    Image.MAX_IMAGE_PIXELS = None  # checked here, with a sentence of its own
    with open(path, "rb") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF
        return _decoded(stream)


def _decoded(stream: IO[bytes]) -> tuple[Image.Image, list[str]]:
    try:
        picture = Image.open(stream, formats=FORMATS)
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers raise what they like
        raise _damaged(error) from None
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise Reject(
            "VideoTooLarge",
            f"the picture has {width}×{height} pixels, above {MAX_PIXELS / 1e6:g} megapixels",
            "Scale it down, 1280 pixels on the long side are enough",
        )
    if min(width, height) < MIN_SIDE:
        raise Reject(
            "VideoTooSmall",
            f"the picture has {width}×{height} pixels",
            f"Use one of at least {MIN_SIDE}×{MIN_SIDE} pixels",
        )
    notes = []
    if (count := int(getattr(picture, "n_frames", 1))) > 1 and picture.format != "MPO":
        notes.append(
            f"the file is an animation of {count} pictures; only its first was read:"
            " save it as mp4 to have all of them"
        )
    try:
        picture.load()
        return _upright(picture, notes), notes
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> Reject:
    return Reject(
        "CorruptVideo",
        f"the picture is damaged, cut off or of an unknown kind ({type(error).__name__})",
        REMEDY,
    )


def _upright(picture: Image.Image, notes: list[str]) -> Image.Image:
    """In RGB of 8 bits, turned as the camera was held."""
    try:
        ImageOps.exif_transpose(picture, in_place=True)
    except MemoryError:
        raise
    except Exception:  # EXIF is the camera's own text, and often damaged
        notes.append("what the file says about its orientation is damaged, and was left out")
    if picture.mode in TOO_DEEP:
        notes.append("colours of more than 8 bits were converted to 8 bits")
        values = np.asarray(picture, np.float64)
        top = 65535 if picture.mode != "F" else max(1.0, float(values.max()))
        grey = np.nan_to_num(values / top).clip(0, 1) * 255
        picture = Image.fromarray(grey.round().astype(np.uint8), "L")
    if picture.mode == "CMYK":
        notes.append("printing colours (CMYK) were converted without their colour profile")
    if picture.has_transparency_data:
        notes.append("transparent parts are shown on white")
        shown = picture.convert("RGBA")
        picture = Image.new("RGBA", picture.size, "white")
        picture.alpha_composite(shown)
    return picture.convert("RGB")


def scaled(picture: Image.Image, side: int) -> NDArray[np.uint8]:
    """(H, W, 3), the long side at most `side`."""
    scale = min(1.0, side / max(picture.size))
    size = tuple(max(2, round(n * scale)) for n in picture.size)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.BICUBIC)  # type: ignore[arg-type]
    return np.asarray(picture)


def facts_of(notes: list[str]) -> dict[str, Any]:
    """What is known of a picture, as a message: it has no time. Seconds."""
    known = {"start": 0.0, "end": 0.0, "duration": 0.0, "title": "", "fps": None}
    return known | {"count": 1, "full_size": None, "stored_size": None, "notes": notes}


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
    """The picture with white behind what is transparent, in full size; and whether anything is."""
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
