"""The counterfactual of MACD."""

from __future__ import annotations

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """MACD as its paper has it: object and frame masks, ascent, three levels."""
    return trained_view(context)
