"""Second views made by noise: VCD, and the paper's trainable noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.masking.ascent import ascend, finalize_ascent
from core.masking.composite import MaskedView
from core.methods.base import DecodingViews, MethodContext


@cache
def vcd_alphas_bar() -> NDArray[np.float64]:
    """ᾱ_t of VCD's 1000-step sigmoid schedule, (1000,)."""
    x = np.linspace(-6, 6, 1000)
    betas = 1 / (1 + np.exp(-x)) * (0.005 - 1e-5) + 1e-5
    return np.asarray(np.cumprod(1 - betas))


def vcd(case: MethodContext) -> DecodingViews:
    """VCD (Leng et al., CVPR 2024): DDPM noise on the normalised pixels, one draw an answer."""
    options = case.options.vcd
    kept = float(vcd_alphas_bar()[options.step])
    video = kept**0.5 * case.encoded.video + (1 - kept) ** 0.5 * case.noise()
    video = video.to(case.encoded.video.dtype)
    view = {"kind": "noise", "scale": (1 - kept) ** 0.5}
    return DecodingViews(case.base, case.prefill(video), options.contrast, view, video=video)


@dataclass(frozen=True, eq=False)
class NoiseView(MaskedView):
    """V + M·ε: the strengths scale noise instead of hiding pixels."""

    epsilon: Tensor | None = None

    def composite(self, mask: Tensor) -> Tensor:
        """From the scale of every pixel (T, H, W), (T, 3, H, W) normalised."""
        assert self.epsilon is not None
        return self.encoded.video.to(self.epsilon.dtype) + mask[:, None] * self.epsilon


def noise_global(case: MethodContext) -> DecodingViews:
    """The paper's ablation "Trainable Noise Only": one trained scale for the whole clip."""
    view = case.masked(replace(case.options.mask, frame_mask="off"))
    whole = torch.ones_like(case.encoded.video[:, 0], dtype=torch.float32)[None]
    return _trained_noise(case, view, whole, None, "global")


def noise_object(case: MethodContext) -> DecodingViews:
    """The paper's ablation "Object-level Trainable Noise": one trained scale an object."""
    view = case.masked(replace(case.options.mask, frame_mask="off"))
    return _trained_noise(case, view, view.objects, None, "object")


def noise_frame(case: MethodContext) -> DecodingViews:
    """The paper's ablation "Frame-level Trainable Noise": one trained scale a frame group."""
    # no objects, so that no fusion can take their gradients
    view = case.masked(replace(case.options.mask, frame_mask="whole"))
    return _trained_noise(case, view, view.objects[:0], view.outside, "frame")


def _trained_noise(
    case: MethodContext, view: MaskedView, objects: Tensor, outside: Tensor | None, over: str
) -> DecodingViews:
    noisy = NoiseView(
        encoded=view.encoded,
        options=replace(view.options, fusion="max"),
        objects=objects,
        outside=outside,
        weight=torch.ones(len(objects), device=objects.device),
        group_of=view.group_of,
        fill=view.fill,
        epsilon=case.noise(),
    )
    if not len(objects) and outside is None:
        return DecodingViews(
            case.base, case.base, case.options.contrast, {"kind": "noise", "scale": 0}
        )
    options = replace(
        case.options.ascent, levels="continuous", frame_fraction=1.0, gradient="exact"
    )
    *_, last = ascend(case.lm, noisy, options, case.read)
    found = finalize_ascent(last, options)
    device = objects.device
    with torch.no_grad():
        scales = (
            torch.as_tensor(found.strength, device=device),
            torch.as_tensor(found.frame_strength, device=device),
        )
        video = noisy.video(*scales)
        state = case.prefill(video)
    shown = {
        "kind": "noise",
        "over": over,
        "level": found.strength.tolist(),
        "frame_level": found.frame_strength.tolist(),
    }
    return DecodingViews(case.base, state, case.options.contrast, shown, video=video)
