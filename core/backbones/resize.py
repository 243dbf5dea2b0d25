"""How a processor resizes frames: made explicit where it is left open, and found out by trying."""

from __future__ import annotations

from typing import Any

import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv
from transformers.image_utils import SizeDict
from transformers.video_processing_utils import BaseVideoProcessor

_MODES = (
    InterpolationMode.BICUBIC,
    InterpolationMode.LANCZOS,
    InterpolationMode.BILINEAR,
    InterpolationMode.BOX,
    InterpolationMode.HAMMING,
    InterpolationMode.NEAREST_EXACT,
    InterpolationMode.NEAREST,
)


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
