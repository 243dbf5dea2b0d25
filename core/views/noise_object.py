"""Trained noise over each object."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.noised import train_noise


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "Object-level Trainable Noise": one trained scale per object."""
    masks = context.masks(replace(context.options.mask, frame_mask="off"))
    return train_noise(context, masks, masks.objects, None, "object")
