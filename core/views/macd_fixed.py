"""Every object at the strength the ascent starts from."""

from __future__ import annotations

import numpy as np

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import fixed_view


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "No Mask Training": every object at r0, no frame mask."""
    return fixed_view(context, np.full(len(context.tracks), context.options.ascent.r0))
