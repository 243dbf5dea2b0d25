"""The video alone: no second view."""

from __future__ import annotations

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext


def build(context: MethodContext) -> SecondView:
    """The video alone, without a second view."""
    return SecondView()
