"""The counterfactual of MACD with another objective: the model's own answer."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """This project's variant: the ascent climbs
    the negative log likelihood of the answer that plain decoding gives.
    """
    return trained_view(context, ascent=replace(context.options.ascent, objective="answer"))
