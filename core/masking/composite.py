"""Masks and strengths → the counterfactual view V_d, differentiable in the strengths.

Works on normalised pixels (T, 3, H, W); normalisation is affine, so blending there equals
blending the picture. Masks come from `core.masking.masks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import torch
import torch.nn.functional as F
from torch import Tensor

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import MaskSet, Track

BATCH = 8
"""Views with one object masked that are read in one pass, so that memory does not grow with K."""


@dataclass(frozen=True, eq=False)
class MaskCompositor:
    """Everything V_d(r) needs but the strengths.

    objects: (K, T, H, W); outside: (T, H, W), None when there is no frame mask; weight: (K,)
    detector confidence; group_of: (T,) frame → frame group; fill: (T, 3, H, W) normalised.
    """

    encoded: Encoded
    options: MaskOptions
    objects: Tensor
    outside: Tensor | None
    weight: Tensor
    group_of: Tensor
    fill: Tensor

    def mask(self, strength: Tensor, frame_strength: Tensor) -> Tensor:
        """M (T, H, W) in [0, 1] from strengths (K,) and (G,); docs/methods.md, step 5.

        "max" is the pixelwise maximum, the strength applied once, ties sharing the gradient. The
        paper's other fusions average the strengths of the masks over a pixel, by confidence or
        equally, and keep the soft outline. "or" is 1 − Π(1 − r·m) over objects and frame mask, in
        which no mask takes the gradient from another. NumPy reference:
        `core.masking.masks.combine_masks`.
        """
        dtype = self.objects.dtype
        if self.options.fusion == "or":
            left = (1 - strength.to(dtype)[:, None, None, None] * self.objects).prod(0)
            if self.outside is not None:
                rf = frame_strength.to(dtype)[self.group_of][:, None, None]
                left = left * (1 - rf * self.outside)
            return (1 - left).clamp(0, 1)
        layers = [strength.to(dtype)[:, None, None, None] * self.reach]
        if self.options.fusion != "max":
            layers = [layers[0].sum(0, keepdim=True)]
        if self.outside is not None:
            rf = frame_strength.to(dtype)[self.group_of][:, None, None]
            layers.append((rf * self.outside)[None])
        return torch.cat(layers).amax(0).clamp(0, 1)

    @property
    def reach(self) -> Tensor:
        """What each strength alone does to M, (K, T, H, W): M = r_k · reach_k where the rest is 0.

        The mask itself, or, in the fusions that average, its share of the outline of all.
        """
        if self.options.fusion in ("max", "or") or not len(self.objects):
            return self.objects
        w = self.weight if self.options.fusion == "confidence" else torch.ones_like(self.weight)
        shares = w[:, None, None, None] * self.objects
        return shares / shares.sum(0).clamp_min(1e-9) * self.objects.amax(0)

    def changed_frames(self) -> Tensor:
        """(T,) bool: frames that any strength can change."""
        changed = self.objects.flatten(2).any(-1).any(0)
        return changed if self.outside is None else changed | self.outside.flatten(1).any(-1)

    def video(self, strength: Tensor, frame_strength: Tensor) -> Tensor:
        """V_d from strengths (K,) and (G,), (T, 3, H, W) normalised."""
        return self.composite(self.mask(strength, frame_strength))

    def composite(self, mask: Tensor) -> Tensor:
        """V_d = (1 − M)·V + M·fill from M (T, H, W), (T, 3, H, W) normalised.

        docs/methods.md, step 6.
        """
        mask = mask[:, None]
        video = self.encoded.video.to(self.fill.dtype)
        if self.options.fill == "additive":  # the paper's literal equation, in RGB
            mean, std = (z.to(video.dtype)[:, None, None] for z in self._affine())
            return ((video * std + mean + mask).clamp(0, 1) - mean) / std
        return video + mask * (self.fill - video)

    @torch.no_grad()
    def one_by_one(self) -> Iterator[Tensor]:
        """Batches (B, T, 3, h, w) of K videos, each with one object at r = 1 and nothing else."""
        nothing = torch.zeros(len(self.encoded.groups), device=self.objects.device)
        alone = torch.eye(len(self.objects), dtype=torch.float64, device=self.objects.device)
        for at in range(0, len(alone), BATCH):
            yield torch.stack([self.video(one, nothing) for one in alone[at : at + BATCH]])

    def noising(self, epsilon: Tensor, objects: Tensor, outside: Tensor | None) -> MaskCompositor:
        """One whose strengths scale noise inside `objects` and `outside`, joined by maximum."""
        return NoiseCompositor(
            encoded=self.encoded,
            options=replace(self.options, fusion="max"),
            objects=objects,
            outside=outside,
            weight=torch.ones(len(objects), device=objects.device),
            group_of=self.group_of,
            fill=self.fill,
            epsilon=epsilon,
        )

    def slopes_at_zero(self, slope: Tensor, shared: bool = False) -> tuple[Tensor, Tensor]:
        """dL/dr (K,) and dL/dr_f (G,) where every strength is 0, from dL/dV (T, 3, H, W).

        Each strength as if it alone moved; at 0 the maximum of all would split it among them.
        shared: of one strength that all objects share, K times the same.
        """
        # a hair above 0, so that what cannot grow brighter ("additive") has no slope
        mask = torch.full_like(self.fill[:, 0], 1e-6).requires_grad_()
        shown = self.composite(mask)
        (per_pixel,) = torch.autograd.grad(shown, mask, slope.to(shown.dtype))
        objects = torch.einsum("thw,kthw->k", per_pixel, self.reach)
        if shared and len(objects):
            reach = self.reach.amax(0) if self.options.fusion == "max" else self.reach.sum(0)
            objects = (per_pixel * reach).sum().expand_as(objects)
        frames = per_pixel.new_zeros(len(self.encoded.groups))
        if self.outside is None:
            return objects, frames[:0]
        each = (per_pixel * self.outside).sum((1, 2))
        return objects, frames.index_add(0, self.group_of, each)

    def _affine(self) -> tuple[Tensor, Tensor]:
        return self.encoded.mean, self.encoded.std


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
    return MaskCompositor(
        encoded=encoded,
        options=options,
        objects=torch.as_tensor(masks.objects, device=device).to(dtype),
        outside=None
        if options.frame_mask == "off"
        else torch.as_tensor(masks.outside, device=device).to(dtype),
        weight=torch.tensor([t.confidence for t in tracks], dtype=dtype, device=device),
        group_of=group_of,
        fill=fill_for(encoded, options).to(dtype),
    )


def fill_for(encoded: Encoded, options: MaskOptions) -> Tensor:
    """What masked pixels become, (T, 3, H, W) normalised.

    mean: the channel means of the model's normalisation, zero there; black; blur: Gaussian of a
    tenth of the short side; noise: uniform in RGB, from `fill_seed`; additive uses white.
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
