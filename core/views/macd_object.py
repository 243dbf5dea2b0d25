"""The counterfactual of MACD without its frame mask."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "No Frame-level Mask": objects alone."""
    return trained_view(context, replace(context.options.mask, frame_mask="off"))
