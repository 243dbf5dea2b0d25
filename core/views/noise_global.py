"""Trained noise over the whole clip."""

from __future__ import annotations

from dataclasses import replace

import torch

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.noised import train_noise


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "Trainable Noise Only": one trained scale for the whole clip."""
    masks = context.masks(replace(context.options.mask, frame_mask="off"))
    whole = torch.ones_like(context.encoded.video[:, 0], dtype=torch.float32)[None]
    return train_noise(context, masks, whole, None, "global")
