"""What becomes of frames: their size, with which filter, where the picture lies; their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
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


ROUNDS = 4
"""Passes after which a size that still changes is kept."""
MAX_DRIFT = 1.1
"""Of the first size's shape: some processors choose another grid for what they have resized."""
STEP = 1.5
"""Largest difference of pixels that count as the same, in steps of 8 bits."""
_RESIZING = re.compile(r"_?upsample_(bilinear|bicubic|nearest_exact|nearest|lanczos)2d(_aa)?")


class Resizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While inside, `found` grows by each size (h, w), its filter, whether that is antialiased, and
    whether numbers were floats."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[tuple[tuple[int, int], InterpolationMode, bool, bool]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if named := _RESIZING.match(func.__name__):
            mode = InterpolationMode(named[1].replace("_", "-"))
            size, exact = (out.shape[-2], out.shape[-1]), args[0].is_floating_point()
            self.found.append((size, mode, named[2] is not None, exact))
        return out


@dataclass(frozen=True, eq=False)
class Scale:
    """What a processor does to colours in [0, 1].

    mean, std: (3,), (rgb − mean) / std is what the model is given; 255 times as much is where the
    processor leaves colours as they are, 0-255. brightest: what 1 is before mean and deviation are
    taken. step: what the model sees of one step of 8 bits, at most.
    """

    mean: Tensor
    std: Tensor
    brightest: float
    step: float


def scale_of(part: Any) -> Scale:
    """That of a video or image processor, by its own settings."""
    rescales = getattr(part, "do_rescale", True)
    brightest = 255 * float(part.rescale_factor) if rescales else 255.0
    own = tuple(
        getattr(part, f"image_{n}", None) or getattr(part, f"norm_{n}", None)
        for n in ("mean", "std")
    )
    used = getattr(part, "do_normalize", True) and own[0] and own[1] and len(own[0]) == 3
    mean, std = map(torch.tensor, own if used else ([0.0] * 3, [1.0] * 3))
    unit = brightest if rescales else 1.0
    return Scale(mean / brightest, std / unit, brightest, brightest / 255 / float(std.min()))


@dataclass(frozen=True, eq=False)
class Read:
    """Frames (T, H, W, 3) at a size, what a processor made of these, and of the clip's own."""

    frames: Pixels
    laid: Mapping[str, Any]
    own: Mapping[str, Any]


def as_read(
    frames: Pixels, process: Callable[[Pixels], Mapping[str, Any]], copies: int = 1
) -> Read:
    """Frames (T, H, W, 3) at the size in which a processor lays them out, so that it keeps it.

    Where it reads one picture at several sizes, at the largest.

    process: runs the processor. copies: how often it lays out one value.
    """
    shown, aspect, own = frames, 0.0, None
    for _ in range(ROUNDS):
        with Resizes() as seen:
            laid = process(shown)
        own = own or laid
        if not seen.found:
            break
        size, mode, antialias, exact = max(seen.found, key=lambda f: f[0][0] * f[0][1])
        values = 3 * len(frames) * size[0] * size[1]
        total = sum(v.numel() for v in floats(laid).values()) // copies
        overview = len({f[0] for f in seen.found}) == 1 and total >= shown.size + values
        if overview and size[0] <= shown.shape[1] and size[1] <= shown.shape[2]:
            break  # tiles hold every pixel already
        aspect = aspect or size[1] / size[0]
        if not 1 / MAX_DRIFT <= size[1] / size[0] / aspect <= MAX_DRIFT:
            break
        rgb = torch.from_numpy(np.array(frames)).permute(0, 3, 1, 2)
        resized = tv.resize(rgb.float() if exact else rgb, list(size), mode, antialias=antialias)
        resized = resized.round().clamp(0, 255).byte() if exact else resized
        shown = resized.permute(0, 2, 3, 1).contiguous().numpy()
    else:
        laid = process(shown)
    return Read(shown, laid, own or laid)


def floats(out: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a processor made of pixels."""
    return {k: v for k, v in out.items() if isinstance(v, Tensor) and v.is_floating_point()}


def alike(own: Mapping[str, Any], other: Mapping[str, Any], most: float) -> bool:
    """Whether a processor laid out two clips in one way: ids, grids and pixels.

    most: largest difference of pixels.
    """
    if own is other:
        return True
    if own.keys() != other.keys():
        return False
    for name, one in own.items():
        two = other[name]
        if not isinstance(one, Tensor):
            if str(one) != str(two):
                return False
        elif one.shape != two.shape:
            return False
        elif one.is_floating_point():
            if float((one.float() - two.float()).abs().max()) > most:
                return False
        elif not torch.equal(one, two):
            return False
    return True


def named_by_size(given: Mapping[str, Tensor], value: Tensor) -> str | None:
    """The one float input with as many values, which the processor calls by another name."""
    fits = [k for k, v in given.items() if v.is_floating_point() and v.numel() == value.numel()]
    return fits[0] if len(fits) == 1 else None
