"""A video without content."""

from __future__ import annotations

import torch

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import BlankView


def build(context: MethodContext) -> SecondView:
    """A control: every pixel is the channel mean."""
    video = torch.zeros_like(context.encoded.video)
    return SecondView(context.prefill(video), BlankView(), video)
