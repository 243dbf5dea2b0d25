"""The counterfactual of MACD with masks that do not move."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import trained_view


def build(context: MethodContext) -> SecondView:
    """This project's variant: masks swept over time, so that they do not reveal the motion."""
    return trained_view(context, replace(context.options.mask, swept=True))
