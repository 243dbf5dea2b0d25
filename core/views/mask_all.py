"""Every object masked."""

from __future__ import annotations

import numpy as np

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import fixed_view


def build(context: MethodContext) -> SecondView:
    """A control: every object fully masked, whatever the query loss is."""
    return fixed_view(context, np.ones(len(context.tracks)))
