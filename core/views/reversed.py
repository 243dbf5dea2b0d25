"""What MACD would leave visible is masked."""

from __future__ import annotations

from dataclasses import replace

from core.masking.ascent import finalize_ascent, no_masks
from core.views.base import SecondView
from core.views.context import MethodContext
from core.views.masked import read_view


def build(context: MethodContext) -> SecondView:
    """A control: MACD with the sign of its last gradient reversed."""
    steps = context.ascent(context.options.mask)
    if not steps:
        return read_view(context, no_masks(), context.options.mask)
    last = steps[-1]
    turned = replace(last, gradient=-last.gradient, frame_gradient=-last.frame_gradient)
    counterfactual = finalize_ascent(turned, context.options.ascent)
    return read_view(context, counterfactual, context.options.mask)
