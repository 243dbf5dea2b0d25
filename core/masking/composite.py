"""Makes `core.macd.MaskCompositor`s: masks and fill on the model's device; trained noise.

Works on normalised pixels (T, 3, H, W). Masks come from `core.masking.masks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.macd import MaskCompositor
from macd_studio.core.masking.plates import plate_fill
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import MaskSet, Track

BATCH = 8
"""Views with one object masked that are read in one pass, so that memory does not grow with K."""


@torch.no_grad()
def one_object_at_a_time(view: MaskCompositor) -> Iterator[Tensor]:
    """Batches (B, T, 3, h, w) of K videos, each with one object at r = 1 and nothing else."""
    nothing = torch.zeros(len(view.encoded.groups), device=view.objects.device)
    alone = torch.eye(len(view.objects), dtype=torch.float64, device=view.objects.device)
    for at in range(0, len(alone), BATCH):
        yield torch.stack([view.video(one, nothing) for one in alone[at : at + BATCH]])


def noising(
    view: MaskCompositor, epsilon: Tensor, objects: Tensor, outside: Tensor | None
) -> MaskCompositor:
    """One whose strengths scale noise inside `objects` and `outside`, joined by maximum."""
    return NoiseCompositor(
        encoded=view.encoded,
        options=replace(view.options, fusion="max"),
        objects=objects,
        outside=outside,
        weight=torch.ones(len(objects), device=objects.device),
        group_of=view.group_of,
        fill=view.fill,
        epsilon=epsilon,
    )


@dataclass(frozen=True, eq=False)
class NoiseCompositor(MaskCompositor):
    """V + M·ε: the strengths scale noise instead of masking pixels."""

    epsilon: Tensor | None = None

    def composite(self, mask: Tensor) -> Tensor:
        """From the scale of every pixel (T, H, W), (T, 3, H, W) normalised."""
        assert self.epsilon is not None
        return self.encoded.video.to(self.epsilon.dtype) + mask[:, None] * self.epsilon


def mask_compositor(
    encoded: Encoded,
    masks: MaskSet,
    tracks: Sequence[Track],
    options: MaskOptions,
    dtype: torch.dtype = torch.float32,
) -> MaskCompositor:
    """Puts masks and fill where the model is. dtype: float32, or float64 for exact checks."""
    device = encoded.video.device
    group_of = torch.zeros(len(encoded.video), dtype=torch.long, device=device)
    for g, frames in enumerate(encoded.groups):
        group_of[list(frames)] = g
    plate = options.fill == "plate"
    fill, uncovered = plate_for(encoded, masks) if plate else (fill_for(encoded, options), ())
    return MaskCompositor(
        encoded=encoded,
        options=options,
        objects=torch.as_tensor(masks.objects, device=device).to(dtype),
        outside=None
        if options.frame_mask == "off"
        else torch.as_tensor(masks.outside, device=device).to(dtype),
        weight=torch.tensor([t.confidence for t in tracks], dtype=dtype, device=device),
        group_of=group_of,
        fill=fill.to(dtype),
        uncovered=uncovered,
    )


def plate_for(encoded: Encoded, masks: MaskSet) -> tuple[Tensor, tuple[float, ...]]:
    """The plate of a clip behind masks, normalised, and `MaskCompositor.uncovered`."""
    fill, uncovered = plate_fill(encoded.frames.pixels, masks.objects)
    rgb = torch.from_numpy(fill).permute(0, 3, 1, 2).to(encoded.video)
    mean, std = (z.to(rgb)[:, None, None] for z in (encoded.mean, encoded.std))
    return (rgb / 255 - mean) / std, uncovered


def fill_for(encoded: Encoded, options: MaskOptions) -> Tensor:
    """What masked pixels become, (T, 3, H, W) normalised.

    mean: the channel means of the model's normalisation, zero there; black; blur: Gaussian of a
    tenth of the short side; noise: uniform in RGB, from `fill_seed`; plate: what other frames show
    there, see `core.masking.plates`, here of a clip without objects; additive uses white.
    """
    video = encoded.video
    mean, std = (z.to(video.dtype)[:, None, None] for z in (encoded.mean, encoded.std))
    match options.fill:
        case "mean":
            return torch.zeros_like(video)
        case "black":
            return (-mean / std).expand_as(video)
        case "blur":
            return _blur(video, 0.1 * min(video.shape[-2:]))
        case "noise":
            generator = torch.Generator().manual_seed(options.fill_seed)
            noise = torch.rand(video.shape, generator=generator, dtype=video.dtype)
            return (noise.to(video.device) - mean) / std
        case "additive":
            return ((1 - mean) / std).expand_as(video)
        case "plate":
            nowhere = np.zeros((0, *encoded.frames.pixels.shape[:3]), np.float32)
            return plate_for(encoded, MaskSet(nowhere, nowhere))[0]
        case _:
            assert_never(options.fill)


def _blur(video: Tensor, sigma: float) -> Tensor:
    reach = max(1, round(2.5 * sigma))  # with sigma as above always less than the shorter side
    at = torch.arange(-reach, reach + 1, dtype=video.dtype, device=video.device)
    kernel = torch.exp(-0.5 * (at / sigma) ** 2)
    kernel = (kernel / kernel.sum()).expand(video.shape[1], 1, -1)
    padded = F.pad(video, (reach,) * 4, mode="reflect")
    rows = F.conv2d(padded, kernel[:, :, None], groups=video.shape[1])
    return F.conv2d(rows, kernel[..., None], groups=video.shape[1])
