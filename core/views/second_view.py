"""A second view: what the model is shown beside the video, and the same behind masks.

`core.views.table` builds them. Importing this module imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.macd import empty_counterfactual
from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.types import Counterfactual, Track
from macd_studio.core.view_records import MaskedView, NoView, View

if TYPE_CHECKING:
    from torch import Tensor

    from macd_studio.core.backbones.base import Handle
    from macd_studio.core.views.context import MethodContext


@dataclass(frozen=True, eq=False)
class SecondView:
    """What the model is shown in addition to the video, prefilled.

    state: None where there is nothing to show. record: what it is, for the trace. video: its pixels
    (T, 3, h, w) normalised, None where it has those of the first view or none at all. base: the
    first view's state where that too is another: the video as it is, under another prompt.
    """

    state: Handle | None = None
    record: View = NoView()  # noqa: RUF009  (frozen)
    video: Tensor | None = None
    base: Handle | None = None

    @property
    def states(self) -> tuple[Handle, ...]:
        """Its state; none where there is nothing to show."""
        return () if self.state is None else (self.state,)


def masked_view(
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


def trained_view(
    context: MethodContext, mask: MaskOptions | None = None, ascent: AscentOptions | None = None
) -> SecondView:
    """The counterfactual that an ascent on those masks ends at; the run's own by default."""
    mask = mask or context.options.mask
    return masked_view(context, context.counterfactual(mask, ascent), mask)


def fixed_view(context: MethodContext, level: NDArray[np.float64]) -> SecondView:
    """Every object at a fixed level (K,) without an ascent; no frame mask."""
    mask = replace(context.options.mask, frame_mask="off")
    return masked_view(context, replace(empty_counterfactual(), level=level), mask)
