"""Trained noise over each frame group."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.noised import train_noise


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "Frame-level Trainable Noise": one trained scale per frame group."""
    # no objects, so that no fusion can take their gradients
    masks = context.masks(replace(context.options.mask, frame_mask="whole"))
    return train_noise(context, masks, masks.objects[:0], masks.outside, "frame")
