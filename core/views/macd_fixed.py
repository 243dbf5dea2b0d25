"""Every object at the strength the ascent starts from."""

from __future__ import annotations

import numpy as np

from core.views.base import SecondView
from core.views.context import MethodContext
from core.views.masked import fixed_view


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "No Mask Training": every object at r0, no frame mask."""
    return fixed_view(context, np.full(len(context.tracks), context.options.ascent.r0))
