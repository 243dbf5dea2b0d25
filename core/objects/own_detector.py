"""What a detector from outside must be and give for a frame, checked before it is followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import NAME
from macd_studio.core.errors import DetectorError, OptionError
from macd_studio.core.text.words import count
from macd_studio.core.types import Detections, Pixels
from macd_studio.core.validation import shown

if TYPE_CHECKING:
    from macd_studio.core.objects.detect import Detector
    from macd_studio.core.options import DetectOptions

FURTHEST = (-1.0, 2.0)
"""Boxes may lie outside the frame, as shares of it; what is further out was no share."""
ROUNDING = 1e-4
"""By so much a score may leave [0, 1], and the corners of a box lie the wrong way round."""


def check_own(detector: Any) -> None:
    """Raises DetectorError for an object that cannot be used as a `Detector`; asks it nothing."""
    kind = f"an object of {type(detector).__name__}"
    if isinstance(detector, type):
        raise DetectorError(
            f"the class {detector.__name__} is not a detector yet",
            f"Give an object of it, such as {detector.__name__}()",
        )
    lacking = [n for n in ("detect", "input_size") if not callable(getattr(detector, n, None))]
    lacking += [n for n in ("name", "open_vocabulary") if not hasattr(detector, n)]
    if lacking:
        raise DetectorError(
            f"{kind} is not a detector: it has no {' and no '.join(lacking)}",
            "See core.objects.detect.Detector for what a detector has",
        )
    try:
        NAME.read(detector.name, f"the name of {kind}")
    except OptionError as error:
        raise DetectorError(error.cause, error.remedy) from None


def size_seen(detector: Detector, frames: Pixels, options: DetectOptions) -> int | None:
    """Its `input_size`. Raises DetectorError for what is no number of pixels."""
    size: Any = detector.input_size(frames, options)
    if size is None or (isinstance(size, Integral) and int(size) > 0):
        return None if size is None else int(size)
    raise DetectorError(
        f"{detector.name} sees frames of the size {shown(size)}",
        "Give the long side in pixels as a whole number, or None",
    )


def checked(detector: Detector, found: Any, frames: int) -> Iterator[Detections]:
    """What a detector found, one Detections for each of `frames` frames, clipped to the frame.

    found: what its `detect` gave. Raises DetectorError for what cannot be its detections.
    """
    if not isinstance(found, Iterable):
        raise DetectorError(
            f"detect of {detector.name} gave a {type(found).__name__}",
            "Yield one Detections for each frame",
        )
    at = -1
    for at, one in enumerate(found):
        if at == frames:
            break
        try:
            read = _read(one)
        except (OptionError, ValueError, TypeError, RuntimeError) as error:
            cause, remedy = (
                (error.cause, error.remedy)
                if isinstance(error, OptionError)
                else (
                    str(error),
                    "Give arrays of numbers; of a tensor, tensor.detach().cpu().numpy()",
                )
            )
            raise DetectorError(f"{detector.name}, frame {at}: {cause}", remedy) from None
        yield read
    if at + 1 != frames:
        told = "more" if at == frames else str(at + 1)
        raise DetectorError(
            f"{detector.name} was asked about {count(frames, 'frame')} and answered for {told}",
            "Give one Detections for each frame, in their order, empty ones too",
        )


def _read(found: Any) -> Detections:
    if not isinstance(found, Detections):
        raise OptionError(
            f"a {type(found).__name__} came in place of Detections",
            "Give a core.types.Detections for each frame",
        )
    n = len(found.labels)
    boxes = _numbers(found.boxes, "boxes", (n, 4))
    scores = _numbers(found.scores, "scores", (n,))
    out = boxes[(boxes < FURTHEST[0]) | (boxes > FURTHEST[1])]
    if len(out):
        raise OptionError(
            f"a box has the corner {float(out[0]):g}",
            "Give x0 y0 x1 y1 as shares of the frame, from 0 to 1; pixels are divided by its size",
        )
    if (boxes[:, :2] > boxes[:, 2:] + ROUNDING).any():
        raise OptionError("a box has its corners swapped", "Give x0 y0 x1 y1, x0 ≤ x1 and y0 ≤ y1")
    out = scores[(scores < -ROUNDING) | (scores > 1 + ROUNDING)]
    if len(out):
        raise OptionError(
            f"a score is {float(out[0]):g}",
            "Give scores from 0 to 1; of per cent, a hundredth",
        )
    for label in found.labels:
        NAME.read(label, "a label")
    for outline in found.outlines:
        for ring in () if outline is None else outline:
            _numbers(ring, "a ring of an outline", (len(ring), 2))
    boxes[:, 2:] = np.maximum(boxes[:, :2], boxes[:, 2:])
    return Detections(
        boxes.clip(0, 1).astype(np.float32),
        scores.clip(0, 1).astype(np.float32),
        tuple(found.labels),
        found.outlines,
    )


def _numbers(value: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.array(value, np.float64)
    if not shape[0]:
        return np.zeros(shape)
    if array.shape != shape:
        raise OptionError(f"{name} have the shape {array.shape}", f"Give the shape {shape}")
    if not np.isfinite(array).all():
        raise OptionError(f"{name} hold a value that is not finite", "Give finite numbers")
    return array
