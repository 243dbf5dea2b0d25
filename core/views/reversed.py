"""What MACD would leave visible is masked."""

from __future__ import annotations

from macd_studio.core.masking.ascent import finalize_ascent, no_masks, reverse
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import read_view


def build(context: MethodContext) -> SecondView:
    """A control: MACD with the sign of its last gradient reversed."""
    steps = context.ascent(context.options.mask)
    if not steps:
        return read_view(context, no_masks(), context.options.mask)
    turned = finalize_ascent(reverse(steps[-1]), context.options.ascent)
    return read_view(context, turned, context.options.mask)
