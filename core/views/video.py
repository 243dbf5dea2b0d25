"""The video alone: no second view."""

from __future__ import annotations

from core.views.base import SecondView
from core.views.context import MethodContext


def build(context: MethodContext) -> SecondView:
    """The video alone, without a second view."""
    return SecondView()
