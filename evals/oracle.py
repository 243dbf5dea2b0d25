"""A second view that only an evaluation can have: the truth says which object it hides.

It bounds what any rule for choosing objects could gain. It is not a method of `core`, because
outside an evaluation nobody knows the truth.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from macd_studio.core.context import MethodContext
from macd_studio.core.masking.masks import no_masks
from macd_studio.core.views import SecondView, masked_view

ORACLE = "oracle"


def oracle_view(context: MethodContext, about: str) -> SecondView:
    """The asked class fully masked and nothing else, whatever other objects overlap it.

    about: the class of `Item.about`; "" hides nothing, and the view is the video itself.
    """
    mask = replace(context.options.mask, frame_mask="off")
    asked = tuple(t for t in context.tracks if t.label == about)
    return masked_view(context, replace(no_masks(), level=np.ones(len(asked))), mask, asked)
