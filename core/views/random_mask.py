"""MACD's masks at random places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from macd_studio.core.masking.random_masks import RandomPlacement, place_at_random
from macd_studio.core.types import Counterfactual
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import read_view
from macd_studio.core.views.records import MaskedView


def place(context: MethodContext, counterfactual: Counterfactual, seed: int) -> RandomPlacement:
    """Random places of the context's tracks that hide as much as the counterfactual's levels."""
    x0, y0, x1, y1 = context.encoded.frames.content
    return place_at_random(
        context.tracks,
        counterfactual.level,
        counterfactual.frame_level,
        context.encoded.groups,
        (y1 - y0, x1 - x0),
        context.options.mask,
        seed,
    )


def build(context: MethodContext) -> SecondView:
    """A control: MACD's masks, of the same levels and area, moved to random places and frames.

    The record says how well that could be done; see `core.masking.random_masks`.
    """
    mask = context.options.mask
    counterfactual = context.counterfactual(mask)
    placed = place(context, counterfactual, context.options.seed)
    moved = replace(counterfactual, frame_level=placed.frame_level)
    view = read_view(context, moved, mask, placed.tracks)
    boxes = tuple(
        tuple(None if np.isnan(b[0]) else tuple(b.tolist()) for b in t.boxes) for t in placed.tracks
    )
    assert isinstance(view.record, MaskedView)
    return replace(view, record=replace(view.record, boxes=boxes, random=placed.as_dict()))
