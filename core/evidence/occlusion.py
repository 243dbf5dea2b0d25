"""What the target's number loses when each object alone is hidden, spread over the object.

Objects are read as one batch, in which frames that no mask touches are shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.errors import OptionError
from core.evidence.case import EvidenceCase, Measured

BATCH = 8
Piece = tuple[Tensor, NDArray[np.float64]]
"""What is hidden: a mask (T, H, W) in [0, 1], and the cells (T, R, C) that it covers."""


@torch.no_grad()
def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits. Raises OptionError where no object was tracked."""
    if not len(case.masks.objects):
        raise OptionError(
            "there is no object to hide", "Choose occlusion-grid, or add an object and try again"
        )
    return spread_losses(case, view, zip(case.masks.reach, case.coverage, strict=True))


def spread_losses(case: EvidenceCase, view: str, pieces: Iterable[Piece]) -> Measured:
    """What each piece loses, over its cells; only a batch of views is held at a time."""
    masks, waiting = case.over(view), iter(pieces)
    before, before_random = case.scores(view, case.views[view][None])
    values = np.zeros((len(case.encoded.video), *case.grid))
    lost: list[float] = []
    lost_random: list[float] = []
    while batch := list(islice(waiting, BATCH)):
        case.raise_if_stopped()
        videos = torch.stack([masks.composite(mask) for mask, _ in batch])
        real, random = case.scores(view, videos)
        for (_, region), number in zip(batch, before - real, strict=True):
            if region.any():
                values += float(number) * region / region.sum()
        lost += (before - real).tolist()
        lost_random += (before_random - random).tolist()
    return Measured(
        values,
        parts=np.array(lost),
        random=np.array(lost_random) if case.options.sanity else None,
    )
