"""The counterfactual of MACD without its frame mask, every second frame of it."""

from __future__ import annotations

from dataclasses import replace

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import masked_record


def build(context: MethodContext) -> SecondView:
    """The paper's ablation "No Frame-level Mask + Frame Extraction": every second frame of V_d."""
    mask = replace(context.options.mask, frame_mask="off")
    counterfactual = context.counterfactual(mask)
    video = context.composite(context.masks(mask), counterfactual.level, counterfactual.frame_level)
    index = tuple(range(0, len(video), 2))
    state = context.lm.prefill(context.subset(index), video[list(index)])
    return SecondView(state, replace(masked_record(counterfactual, mask), frames=index), video)
