"""Which size frames get, with which filter, and where the picture lies in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv
from transformers.image_utils import SizeDict
from transformers.video_processing_utils import BaseVideoProcessor

from macd_studio.core.errors import OptionError
from macd_studio.core.types import Pixels
from macd_studio.core.validation import shown

Box = tuple[int, int, int, int]


def fitted(
    frames: Pixels,
    grids: Sequence[tuple[int, int]],
    resample: str,
    colour: Tensor,
) -> tuple[Pixels, Box]:
    """Frames (T, H, W, 3) inside the grid that shows them largest, and where they lie in it.

    grids: sizes (h, w) to choose from. resample: a filter's name, "bicubic" for one. colour: (3,)
    in [0, 1] on the CPU, of the padding around the picture.
    Returns (T, h, w, 3) and the pixels x0 y0 x1 y1 that show the source.
    """
    height, width = frames.shape[1:3]
    grid = max(grids, key=lambda g: (_area(placed((height, width), g)), -g[0] * g[1]))
    box = x0, y0, x1, y1 = placed((height, width), grid)
    tensor = torch.from_numpy(np.array(frames)).permute(0, 3, 1, 2)
    filter_ = InterpolationMode(resample or "bicubic")
    picture = tv.resize(tensor, [y1 - y0, x1 - x0], filter_, antialias=True)
    out = np.empty((len(frames), *grid, 3), np.uint8)
    out[:] = (255 * colour).round().byte().numpy()
    out[:, y0:y1, x0:x1] = picture.permute(0, 2, 3, 1).numpy()
    return out, box


def placed(source: tuple[int, int], grid: tuple[int, int]) -> Box:
    """Where a source of (H, W) lies in the middle of a grid (h, w), as large as it fits.

    >>> placed((576, 768), (96, 96))
    (0, 12, 96, 84)
    """
    scale = min(grid[0] / source[0], grid[1] / source[1])
    height, width = (max(1, min(g, round(scale * n))) for n, g in zip(source, grid, strict=True))
    y, x = (grid[0] - height) // 2, (grid[1] - width) // 2
    return x, y, x + width, y + height


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def at_least(frames: Pixels, count: int) -> Pixels:
    """A single frame as often as a family's processor wants frames; longer clips as they are."""
    return frames if len(frames) >= count else frames[[0] * count]


@contextmanager
def shape_errors(name: str, size: tuple[int, int]) -> Iterator[None]:
    """Raises OptionError where a processor refuses frames of this size. size: (w, h); name: whose.

    Families differ in what they refuse, such as frames 200 times as long as wide.
    """
    try:
        yield
    except ValueError as error:
        raise OptionError(
            f"{name} cannot read frames of {size[0]}×{size[1]} pixels ({shown(str(error), 200)})",
            "Crop the clip, or choose another backbone",
        ) from error


_MODES = (
    InterpolationMode.BICUBIC,
    InterpolationMode.LANCZOS,
    InterpolationMode.BILINEAR,
    InterpolationMode.BOX,
    InterpolationMode.HAMMING,
    InterpolationMode.NEAREST_EXACT,
    InterpolationMode.NEAREST,
)


def own_copy(processor: Any) -> tuple[Any, Any]:
    """A processor and its part for video, whose settings may be changed: the caller's stay."""
    processor = copy(processor)
    processor.video_processor = copy(processor.video_processor)
    return processor, processor.video_processor


def cap_pixels(video_processor: Any) -> bool | None:
    """Whether frames share a budget of pixels, as in the Qwen families' reference code.

    The published processors leave `cap_pixels_per_frame` open, and transformers' default for that
    is about to change: it is set to the reference's True here, so that a clip of many frames, or of
    few large ones, costs as much with every version. A processor that sets it itself is left alone.
    None: this family or this transformers has no such cap.
    """
    if not hasattr(video_processor, "cap_pixels_per_frame"):
        return None
    if video_processor.cap_pixels_per_frame is None:
        video_processor.cap_pixels_per_frame = True
    return bool(video_processor.cap_pixels_per_frame)


def resampling_of(video_processor: Any) -> str:
    """The filter that frames are really resized with, "bicubic" for one; empty if none fits.

    A processor may ask for a filter that torchvision lacks and be given another one (Lanczos before
    0.27), so a small picture is resized both ways and compared.
    """
    generator = torch.Generator().manual_seed(0)
    picture = torch.randint(0, 256, (1, 3, 24, 32), generator=generator, dtype=torch.uint8)
    size = (9, 14)
    resized = BaseVideoProcessor.resize(
        video_processor,
        picture,
        SizeDict(height=size[0], width=size[1]),
        video_processor.resample,
    )
    for mode in _MODES:
        try:
            if torch.equal(resized, tv.resize(picture, list(size), mode, antialias=True)):
                return str(mode.value)
        except (NotImplementedError, ValueError):  # this torchvision lacks it for tensors
            continue
    return ""
