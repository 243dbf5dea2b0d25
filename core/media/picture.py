"""A picture file → the pixels of a clip of one frame. Used by `core.media.worker` only.

It runs inside that bounded process. What a file is says its content, never its name. Pillow decodes
with an allow-list of formats, after the size that the header announces was checked.
"""

from __future__ import annotations

import warnings
from typing import IO, Any

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
    """The upright picture in RGB, and what was converted. Raises Reject.

    Raises MemoryError for one that takes more than this process may have.
    """
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
