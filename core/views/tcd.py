"""Fewer of the sampled frames, as TCD has it."""

from __future__ import annotations

import numpy as np

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import FramesView

PUBLISHED = {16: 4, 12: 8, 32: 8}


def subset(frames: int, keep: int | None = None) -> tuple[int, ...]:
    """A chronological uniform subset: 16→4, 12→8, 32→8 as published, else half.

    >>> subset(16), subset(8)
    ((0, 5, 10, 15), (0, 2, 5, 7))
    """
    n = min(frames, keep or PUBLISHED.get(frames) or max(1, frames // 2))
    return tuple(sorted({round(float(i)) for i in np.linspace(0, frames - 1, n)}))


def build(context: MethodContext) -> SecondView:
    """TCD (EventHallusion, Zhang et al. 2024): the same question over some of the frames."""
    index = subset(len(context.encoded.frames.pixels), context.options.tcd.keep)
    encoded = context.subset(index)
    return SecondView(context.lm.prefill(encoded, encoded.video), FramesView(index))
