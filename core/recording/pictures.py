"""The pictures of another program: source frames, and what its second views showed.

The second view is handed over as pictures, or as the mask that it hides the frames behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from macd_studio.core.errors import OptionError
from macd_studio.core.media.webp import PICTURE_PIXELS
from macd_studio.core.recording.arrays import describe_shape, read_array, read_mapping, require
from macd_studio.core.traces.format import ALL_PIXELS, MODEL_PIXELS, SOURCE_PIXELS
from macd_studio.core.traces.schema import FRAMES
from macd_studio.core.types import Answer, ModelFrames, Pixels


class MaskRecord(TypedDict):
    """What hides the frames. mask: M (T, H, W) in [0, 1], 1 where nothing of the frame is left.

    fill: what lies behind it, RGB from 0 to 255: one colour (3,), or pictures (T, H, W, 3).
    """

    mask: ArrayLike
    fill: ArrayLike


ShownRecord = ArrayLike | MaskRecord
"""Frames of a second view: (T, H, W, 3) uint8, of the shape of the source frames, or their mask."""


def read_frames(value: ArrayLike) -> Pixels:
    """The source frames (T, H, W, 3), uint8. Raises OptionError."""
    pixels = _array(value, "frames")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] != 3 or not pixels.size:
        raise OptionError(
            f"frames are {pixels.dtype} {pixels.shape}",
            "Give RGB pictures as uint8 from 0 to 255, shaped (T, H, W, 3)",
        )
    if len(pixels) > FRAMES:
        raise OptionError(f"there are {len(pixels)} frames", f"Give at most {FRAMES}")
    return pixels


def read_shown(value: ShownRecord, path: str, frames: Pixels) -> Pixels:
    """What a second view showed in place of the frames, of their shape. Raises OptionError."""
    if isinstance(value, Mapping):
        return _behind_mask(value, path, frames)
    pixels = _array(value, path)
    if pixels.dtype != np.uint8 or pixels.shape != frames.shape:
        raise OptionError(
            f"{path} is {pixels.dtype} {pixels.shape}",
            f"Give RGB pictures as uint8 from 0 to 255, of the frames' shape {frames.shape},"
            ' or {"mask": M, "fill": colour}',
        )
    return pixels


def _behind_mask(value: Mapping[str, Any], path: str, frames: Pixels) -> Pixels:
    """V_d = (1 − M)·V + M·fill, rounded to 8 bits; docs/methods.md, step 6."""
    fields = read_mapping(value, path, MaskRecord.__annotations__)
    mask = read_array(require(fields, path, "mask"), f"{path}.mask")
    if mask.shape != frames.shape[:3]:
        raise OptionError(
            f"{path}.mask is {describe_shape(mask)}", f"Give the shape {frames.shape[:3]}"
        )
    fill = read_array(require(fields, path, "fill"), f"{path}.fill")
    if fill.shape not in ((3,), frames.shape):
        raise OptionError(
            f"{path}.fill is {describe_shape(fill)}",
            f"Give one colour (3,), or pictures of the shape {frames.shape}",
        )
    for name, array, top in (("mask", mask, 1), ("fill", fill, 255)):
        if array.min() < 0 or array.max() > top:
            raise OptionError(f"{path}.{name} holds a value outside 0 to {top}", "Scale it")
    cover = mask[..., None]
    return np.asarray(((1 - cover) * frames + cover * fill).round(), np.uint8)


def frames_as_read(
    frames: Pixels, seconds: np.ndarray[Any, np.dtype[np.float64]], answers: Sequence[Answer]
) -> ModelFrames | None:
    """The frames as what the model read, beside which a file stores the second views' pictures.

    None where no second view has pictures. Raises OptionError for more than a file can hold.
    """
    views = [second.shown for a in answers for second in a.second_views]
    pictures = sum(view is not None for view in views)
    if not pictures:
        return None
    count, height, width, _ = frames.shape
    clip = count * height * width
    whole = min(clip, SOURCE_PIXELS) + (1 + pictures) * clip
    if height * width > PICTURE_PIXELS or clip > MODEL_PIXELS or whole > ALL_PIXELS:
        raise OptionError(
            f"{count} frames of {width} × {height} pixels with second views of {pictures} answers"
            " are more than a trace can hold",
            "Give smaller frames, or leave shown out of some answers",
        )
    return ModelFrames(frames, seconds, float(seconds[-1]), (0, 0, width, height))


def _array(value: Any, path: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"{path} is not an array ({type(error).__name__})",
            "Give an array; of a tensor, tensor.cpu().numpy()",
        ) from None
