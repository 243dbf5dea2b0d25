"""The counterfactual of MACD before its strengths become levels."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """The paper's ablation of the three levels: the strengths as the ascent left them."""
    options = replace(context.options.ascent, levels="continuous")
    return trained_view(context, ascent=options)
