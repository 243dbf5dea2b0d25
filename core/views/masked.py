"""The video behind masks, prefilled: what most views are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.masking.ascent import no_masks
from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.types import Counterfactual, Track
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import MaskedView


def trained_view(
    context: MethodContext, mask: MaskOptions | None = None, ascent: AscentOptions | None = None
) -> SecondView:
    """The counterfactual that an ascent on those masks ends at; the run's own by default."""
    mask = mask or context.options.mask
    return read_view(context, context.counterfactual(mask, ascent), mask)


def fixed_view(context: MethodContext, level: NDArray[np.float64]) -> SecondView:
    """Every object at a fixed level (K,) without an ascent; no frame mask."""
    mask = replace(context.options.mask, frame_mask="off")
    return read_view(context, replace(no_masks(), level=level), mask)


def read_view(
    context: MethodContext,
    counterfactual: Counterfactual,
    mask: MaskOptions,
    tracks: tuple[Track, ...] | None = None,
) -> SecondView:
    """The video behind masks of the counterfactual's levels, prefilled.

    tracks: where the masks lie, the context's own by default.
    """
    level, frame_level = counterfactual.level, counterfactual.frame_level
    video = context.composite(context.masks(mask, tracks), level, frame_level)
    return SecondView(context.prefill(video), masked_record(counterfactual, mask), video)


def masked_record(counterfactual: Counterfactual, mask: MaskOptions) -> MaskedView:
    """How the trace describes a view behind masks."""
    return MaskedView(
        level=tuple(float(z) for z in counterfactual.level),
        frame_level=tuple(float(z) for z in counterfactual.frame_level),
        swept=mask.swept,
        frame_mask=mask.frame_mask,
    )
