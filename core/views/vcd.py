"""Noise over the whole clip, as VCD has it."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import NoisedView


@cache
def alphas_bar() -> NDArray[np.float64]:
    """ᾱ_t of VCD's 1000-step sigmoid schedule, (1000,)."""
    x = np.linspace(-6, 6, 1000)
    betas = 1 / (1 + np.exp(-x)) * (0.005 - 1e-5) + 1e-5
    return np.asarray(np.cumprod(1 - betas))


def build(context: MethodContext) -> SecondView:
    """VCD (Leng et al., CVPR 2024): DDPM noise on the normalised pixels, one draw per answer."""
    kept = float(alphas_bar()[context.options.vcd.step])
    scale = (1 - kept) ** 0.5
    video = kept**0.5 * context.encoded.video + scale * context.noise()
    video = video.to(context.encoded.video.dtype)
    return SecondView(context.prefill(video), NoisedView(scale=scale), video)
