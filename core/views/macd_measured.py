"""The counterfactual whose levels come from the measured effect of each object."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.masking.ascent import no_masks
from macd_studio.core.masking.one_by_one import masked_one_by_one
from macd_studio.core.options import MaskOptions
from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.masked import read_view

MASKED_FROM, PARTLY_FROM = 0.5, 0.1
"""Shares of the largest change from which an object is masked, and from which partly."""

LEAST_CHANGE = 1e-3
"""Nats: where no object changes the answer's distribution by more, none is masked."""


def build(context: MethodContext) -> SecondView:
    """This project's variant: levels by what masking each object alone does to the distribution of
    the answer's first token, instead of by a gradient; no frame mask. See `measured_levels`.
    """
    mask = _masks(context)
    level = measured_levels(measured_changes(context), context.options.ascent.r0)
    return read_view(context, replace(no_masks(), level=level), mask)


def _masks(context: MethodContext) -> MaskOptions:
    return replace(context.options.mask, frame_mask="off")


def measured_changes(context: MethodContext) -> NDArray[np.float64]:
    """(K,) KL(p(·|V) ‖ p(·|V without object k)) of the first token, nats, at least 0.

    One batched pass over the video and K views with one object masked at a time.
    """
    mask = _masks(context)

    def measure() -> NDArray[np.float64]:
        if not context.tracks:
            return np.zeros(0)
        rows: list[Tensor] = []
        for videos in masked_one_by_one(context.masks(mask)):
            first = [] if rows else [context.encoded.video[None].to(videos.dtype)]
            state = context.prefill(torch.cat([*first, videos]))
            rows.append(torch.log_softmax(state.logits.double(), -1))
        log_p = to_host(torch.cat(rows))
        change = (np.exp(log_p[0]) * (log_p[0] - log_p[1:])).sum(1)
        return np.asarray(np.maximum(change, 0.0), np.float64)

    return context.memoize("measured", mask, measure)


def measured_levels(change: NDArray[np.float64], r0: float) -> NDArray[np.float64]:
    """Levels (K,): 1 from MASKED_FROM of the largest change on, r0 from PARTLY_FROM on, else 0.

    All 0 where the largest change is below LEAST_CHANGE: nothing there is what the answer rests on.

    >>> measured_levels(np.array([2.0, 1.1, 0.4, 0.1]), 0.75).tolist()
    [1.0, 1.0, 0.75, 0.0]
    """
    if not len(change) or change.max() < LEAST_CHANGE:
        return np.zeros(len(change))
    share = change / change.max()
    return np.where(share >= MASKED_FROM, 1.0, np.where(share >= PARTLY_FROM, r0, 0.0))
