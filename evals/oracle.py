"""A second view that only an evaluation can have: the truth says which object it hides.

It bounds what any rule for choosing objects could gain. It is no method of `core`, because outside
an evaluation nobody knows the truth.
"""

from __future__ import annotations

import numpy as np

from core.views.base import SecondView
from core.views.context import MethodContext
from core.views.masked import fixed_view

ORACLE = "oracle"


def oracle_view(context: MethodContext, about: str) -> SecondView:
    """Every track of the asked class fully masked, and nothing else.

    about: the class of `Item.about`; "" hides nothing, and the view is the video itself.
    """
    return fixed_view(context, np.array([float(t.label == about) for t in context.tracks]))
