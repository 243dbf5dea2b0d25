"""The counterfactual of MACD with another objective: the margin of its own answer."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """This project's variant: the ascent climbs
    how far that answer's first token falls behind its runner-up.
    """
    return trained_view(context, ascent=replace(context.options.ascent, objective="margin"))
