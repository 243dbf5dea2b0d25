"""Fits source frames into a grid that a backbone can read, without changing their shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

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
    picture = resize(tensor, [y1 - y0, x1 - x0], filter_, antialias=True)
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
