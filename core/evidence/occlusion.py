"""What the target's number loses when each object alone is hidden, spread over the object.

All objects are read as one batch, in which frames that no mask touches are shared.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from core.errors import OptionError
from core.evidence.case import EvidenceCase, Measured


@torch.no_grad()
def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits. Raises OptionError where no object was tracked."""
    count = len(case.masks.objects)
    if not count:
        raise OptionError(
            "there is no object to hide", "Choose occlusion-grid, or add an object and try again"
        )
    masks = case.over(view)
    videos = torch.stack([masks.composite(one) for one in masks.reach])
    return spread_losses(case, view, videos, case.coverage)


def spread_losses(
    case: EvidenceCase, view: str, videos: torch.Tensor, regions: NDArray[np.float64]
) -> Measured:
    """Videos (B, T, 3, H, W) that hide regions (B, T, R, C) → what each loses, over its region."""
    shown = torch.cat([case.views[view][None].to(videos.dtype), videos])
    real, random = case.scores(view, shown)
    area = regions.sum((1, 2, 3))[:, None, None, None]
    each = np.divide(regions, area, where=area > 0, out=np.zeros_like(regions))
    lost = real[0] - real[1:]
    return Measured(
        np.einsum("b,btrc->trc", lost, each),
        parts=lost,
        random=random[0] - random[1:] if case.options.sanity else None,
    )
