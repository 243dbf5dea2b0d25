"""PNG masks as whole numbers: the index, grey value or colour of each pixel, bounded and counted.

A picture of masks has few values. What has more is a photograph, or was smoothed or stored as JPEG
on its way: such a picture is refused before any mask is made.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import clean_label
from macd_studio.core.objects.formats.bounds import MAX_SIDE
from macd_studio.core.objects.outlines import Mask

MAX_PIXEL_VALUES = 256
"""Different values of one picture of masks."""
MAX_SPECKLED = 3
"""Values that lie scattered over single pixels, of a picture of masks."""
MIN_SMOOTHED = 8
"""Pixels of soft edges, to be told from a few stray ones."""
VOID_COLOUR = 224 << 16 | 224 << 8 | 192
"""Of Pascal VOC's borders, which belong to no object."""
AS_MASKS = "Write each object in one value or colour, as PNG, without smoothing and never as JPEG"


@dataclass(frozen=True, eq=False)
class Values:
    """A picture of masks. values: (h, w); present: those but 0, rising; counts: their pixels.

    colours: 0xRRGGBB of each palette entry, where it has a palette. is_colour: values are colours.
    """

    values: NDArray[np.int32]
    present: NDArray[np.int64]
    counts: NDArray[np.int64]
    colours: tuple[int, ...] = ()
    is_colour: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(h, w)."""
        return self.values.shape[0], self.values.shape[1]

    def without_pixels(self) -> Values:
        """The counts without the pixels, which then take no memory; `size` stays."""
        return replace(self, values=np.broadcast_to(np.int32(0), self.size))

    def colour_of(self, value: int) -> int:
        """A value's colour; the value itself where it is one, or where there is no palette."""
        return self.colours[value] if 0 <= value < len(self.colours) else value


def png_size(content: bytes, inner: str) -> tuple[int, int]:
    """(w, h) as the header of a PNG states it, before anything is decoded."""
    if content[:8] != b"\x89PNG\r\n\x1a\n" or content[12:16] != b"IHDR":
        raise TracksError(f"{clean_label(inner)} is not a PNG picture", "Write the masks as PNG")
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if not 1 <= width <= MAX_SIDE or not 1 <= height <= MAX_SIDE:
        raise TracksError(
            f"{clean_label(inner)} is {width}×{height}, more than {MAX_SIDE} pixels on a side",
            "Write the masks at the size of the clip",
        )
    return width, height


def read_values(content: bytes, inner: str) -> Values:
    """The values of a picture. Raises TracksError for a damaged one, and for what is no mask."""
    from PIL import Image

    try:
        picture: Image.Image = Image.open(io.BytesIO(content), formats=["PNG"])
        mode = picture.mode
        if mode in ("LA", "RGBA", "PA"):
            return _with_alpha(np.asarray(picture.convert("RGBA")), inner)
        palette = _palette(picture) if mode == "P" else ()
        if mode not in ("P", "L", "I", "I;16", "1"):
            return _counted(_packed(np.asarray(picture.convert("RGB"))), inner, is_colour=True)
        values = np.asarray(picture).astype(np.int32)
    except (TracksError, MemoryError):
        raise
    except Exception as error:  # whatever the decoder finds
        raise TracksError(
            f"the mask of {clean_label(inner)} is damaged ({type(error).__name__})",
            "Write it again",
        ) from error
    if mode in ("I", "I;16") and ((values < 0).any() or (values > 65535).any()):
        raise TracksError(f"the mask of {clean_label(inner)} has values beyond 65535", AS_MASKS)
    return _counted(values, inner, palette)


def is_soft_edge(picture: Values) -> bool:
    """Whether the value 1 is but a thin rim around 2, as in one mask of 0 and 2 that was smoothed.

    Thin: no 3 × 3 pixels of it, and all of it within 2 pixels of the value 2.
    """
    if picture.is_colour or picture.present.tolist() != [1, 2]:
        return False
    ones, twos = (np.asarray(picture.values == n, np.uint8) for n in (1, 2))
    if cv2.erode(ones, np.ones((3, 3), np.uint8)).any():
        return False
    near = cv2.dilate(twos, np.ones((5, 5), np.uint8)) > 0
    return not (ones.astype(bool) & ~near).any()


def _palette(picture: object) -> tuple[int, ...]:
    flat = picture.getpalette("RGB") or []  # type: ignore[attr-defined]
    rows = np.array(flat, np.int64).reshape(-1, 3)
    return tuple((rows @ np.array([1 << 16, 1 << 8, 1])).tolist())


def _packed(rgb: NDArray[np.uint8]) -> NDArray[np.int32]:
    red, green, blue = (rgb[..., i].astype(np.int32) for i in range(3))
    return red << 16 | green << 8 | blue


def _with_alpha(rgba: NDArray[np.uint8], inner: str) -> Values:
    """Objects in colours on what is transparent; else what is cut out is one object."""
    opaque = rgba[..., 3] >= 128
    values = _packed(rgba[..., :3])
    if opaque.all() and (rgba[..., 3] == 255).all():
        return _counted(values, inner, is_colour=True)
    values[~opaque] = 0
    black = opaque & (values == 0)
    if not black.any() and np.count_nonzero(_seen(values)) <= MAX_PIXEL_VALUES:
        try:
            return _counted(values, inner, is_colour=True)
        except TracksError:
            pass  # a photograph of few colours
    return _counted(opaque.astype(np.int32), inner)


def _seen(values: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which values there are, from 0 to the largest, without sorting: they are 0 to 0xFFFFFF."""
    seen = np.zeros(int(values.max()) + 1, bool)
    seen[values] = True
    return seen


def _counted(
    values: NDArray[np.int32], inner: str, palette: tuple[int, ...] = (), is_colour: bool = False
) -> Values:
    """Counts values, and refuses a picture that has too many or scatters them."""
    seen = _seen(values)
    different = np.count_nonzero(seen)
    if different > MAX_PIXEL_VALUES:
        raise TracksError(
            f"{clean_label(inner)} has {different} different values, and no picture of masks has"
            f" more than {MAX_PIXEL_VALUES}: it looks like a photograph",
            AS_MASKS,
        )
    every = np.flatnonzero(seen)
    place = np.zeros(len(seen), np.uint8)
    place[every] = np.arange(len(every))
    small = place[values]
    counts = np.bincount(small.ravel(), minlength=len(every))
    _refuse_speckles(small, counts, inner)
    if not palette:  # whose values are no levels
        _refuse_smoothed(values, small, counts, inner)
    kept = every != 0
    return Values(values, every[kept], counts[kept], palette, is_colour)


def _refuse_speckles(small: NDArray[np.uint8], counts: NDArray[np.int64], inner: str) -> None:
    """Refuses values that lie scattered over single pixels, as those of a photograph."""
    if len(counts) <= MAX_SPECKLED + 2:
        return
    joined = np.zeros(small.shape, bool)
    for first, second in _NEIGHBOURS:
        same = small[first] == small[second]
        joined[first] |= same
        joined[second] |= same
    together = np.bincount(small[joined].ravel(), minlength=len(counts))
    speckled = int((together < 0.5 * counts).sum())
    if speckled > max(MAX_SPECKLED, len(counts) // 4):
        raise TracksError(
            f"{clean_label(inner)} has {speckled} values that are scattered over single pixels, as"
            " a photograph or a JPEG has them, so that it is no picture of masks",
            AS_MASKS,
        )


def _refuse_smoothed(
    values: NDArray[np.int32], small: NDArray[np.uint8], counts: NDArray[np.int64], inner: str
) -> None:
    """Refuses values most of whose pixels lie between a darker and a lighter one: soft edges."""
    if len(counts) <= 2:
        return
    if values.max() > 0xFFFF:
        values = (values >> 16) + (values >> 8 & 255) + (values & 255)
    darker, lighter = np.zeros(small.shape, bool), np.zeros(small.shape, bool)
    for first, second in _NEIGHBOURS:
        rises = values[first] < values[second]
        falls = values[first] > values[second]
        lighter[first] |= rises
        darker[second] |= rises
        darker[first] |= falls
        lighter[second] |= falls
    between = np.bincount(small[darker & lighter].ravel(), minlength=len(counts))
    smoothed = between > 0.5 * counts
    if between[smoothed].sum() >= MIN_SMOOTHED:
        raise TracksError(
            f"{clean_label(inner)} has values that lie on the edges between others alone, as a"
            " picture with soft edges or a JPEG has them, so that it is no picture of masks",
            AS_MASKS,
        )


_ALL, _BUT_LAST, _BUT_FIRST = slice(None), slice(None, -1), slice(1, None)
_NEIGHBOURS = (
    ((_BUT_LAST, _ALL), (_BUT_FIRST, _ALL)),
    ((_ALL, _BUT_LAST), (_ALL, _BUT_FIRST)),
)
"""Pixels, and those below or to the right of them."""


def read_mask(read: Callable[[], Values], value: int | None) -> Mask:
    """`mask_of` a picture that is read when its mask is needed."""
    return mask_of(read(), value)


def mask_of(picture: Values, value: int | None) -> Mask:
    """(h, w): where a value is; None: any but 0."""
    found = picture.values > 0 if value is None else picture.values == value
    return np.asarray(found, bool)
