"""Arrays, mappings and pictures from another program, checked where they come in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from macd_studio.core.description import MAX_FRAMES
from macd_studio.core.errors import OptionError
from macd_studio.core.media.webp import PICTURE_PIXELS
from macd_studio.core.traces.format import ALL_PIXELS, MODEL_PIXELS, SOURCE_PIXELS
from macd_studio.core.types import Answer, ModelFrames, Pixels
from macd_studio.core.validation import shown


def read_array(
    value: Any, path: str, *, lost: bool = False, finite: bool = True
) -> NDArray[np.float64]:
    """float64; finite, except what is `lost`, which may be NaN."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"{path} is not an array of numbers ({type(error).__name__})",
            "Give an array; of a tensor, tensor.detach().float().cpu().numpy()",
        ) from None
    if finite and not (np.isfinite(array) | (lost & np.isnan(array))).all():
        raise OptionError(f"{path} holds a value that is not finite", "Give finite numbers")
    return array


def describe_shape(array: NDArray[Any]) -> str:
    """For a message."""
    return f"an array {array.shape}" if array.ndim else "one number"


def read_shares(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,) in [0, 1]."""
    array = read_vector(value, path, length)
    if (array != array.clip(0, 1)).any():
        raise OptionError(f"{path} holds a value outside 0 to 1", "Give shares from 0 to 1")
    return array


def read_vector(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,), finite."""
    array = read_array(value, path)
    if array.shape != (length,):
        raise OptionError(
            f"{path} is {describe_shape(array)}", f"Give an array of the shape ({length},)"
        )
    return array


def read_mapping(value: Any, path: str, known: Collection[str]) -> dict[str, Any]:
    """A dict with known keys only; NumPy's numbers, and tensors of one, as Python has them."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{path} is {shown(value)}", f"Give a mapping of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise OptionError(f"{path} holds {shown(key)}", f"Give of {', '.join(known)}")
    return {key: _plain(one) for key, one in value.items()}


def require(fields: Mapping[str, Any], path: str, key: str) -> Any:
    """The value under a key that must be there."""
    if key not in fields:
        raise OptionError(f"{path}.{key} is missing", "Give it")
    return fields[key]


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


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
    if len(pixels) > MAX_FRAMES:
        raise OptionError(f"there are {len(pixels)} frames", f"Give at most {MAX_FRAMES}")
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
