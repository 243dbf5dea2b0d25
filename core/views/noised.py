"""Noise whose strength is trained like that of masks, for the paper's ablations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from macd_studio.core.masking.ascent import ascend, finalize_ascent
from macd_studio.core.masking.composite import MaskCompositor
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import NoisedView


@dataclass(frozen=True, eq=False)
class NoiseCompositor(MaskCompositor):
    """V + M·ε: the strengths scale noise instead of masking pixels."""

    epsilon: Tensor | None = None

    def composite(self, mask: Tensor) -> Tensor:
        """From the scale of every pixel (T, H, W), (T, 3, H, W) normalised."""
        assert self.epsilon is not None
        return self.encoded.video.to(self.epsilon.dtype) + mask[:, None] * self.epsilon


def train_noise(
    context: MethodContext,
    masks: MaskCompositor,
    objects: Tensor,
    outside: Tensor | None,
    over: Literal["global", "object", "frame"],
) -> SecondView:
    """Noise inside `objects` (K, T, H, W) and `outside` (T, H, W), its scales found by ascent."""
    if not len(objects) and outside is None:
        return SecondView(context.base, NoisedView(scale=0.0))
    noisy = NoiseCompositor(
        encoded=masks.encoded,
        options=replace(masks.options, fusion="max"),
        objects=objects,
        outside=outside,
        weight=torch.ones(len(objects), device=objects.device),
        group_of=masks.group_of,
        fill=masks.fill,
        epsilon=context.noise(),
    )
    options = replace(
        context.options.ascent,
        levels="continuous",
        frame_fraction=1.0,
        gradient="exact",
        strengths="per-object",  # what shares a scale is the view's own choice
    )
    *_, last = ascend(context.lm, noisy, options, context.read, context.own_answer)
    counterfactual = finalize_ascent(last, options)
    with torch.no_grad():
        scales = (
            torch.as_tensor(z, device=objects.device)
            for z in (counterfactual.strength, counterfactual.frame_strength)
        )
        video = noisy.video(*scales)
        state = context.prefill(video)
    record = NoisedView(
        over=over,
        level=tuple(counterfactual.strength.tolist()),
        frame_level=tuple(counterfactual.frame_strength.tolist()),
    )
    return SecondView(state, record, video)
