"""What the target's number loses when each object alone is hidden, spread over the object.

Objects are read as one batch, in which frames that no mask touches are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.case import EvidenceCase, Measured

BATCH, BATCH_TOKENS = 8, 2048
"""Views that are read together: at least so many, and more while they hold few vision tokens."""
Piece = tuple[Tensor, NDArray[np.float64]]
"""What is hidden: a mask (T, H, W) in [0, 1], and the cells (T, R, C) that it covers."""


@torch.no_grad()
def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits. Raises OptionError where no object was tracked."""
    if not len(case.masks.objects):
        raise OptionError(
            "there is no object to hide", "Choose occlusion-grid, or add an object and try again"
        )
    pieces = zip(case.masks.reach, case.coverage, strict=True)
    return spread_losses(case, view, batched(case, pieces))


def batched(case: EvidenceCase, pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces in lists of what is read together; made when they are needed."""
    most = max(BATCH, BATCH_TOKENS // max(1, case.encoded.vision_tokens))
    waiting = iter(pieces)
    while batch := list(islice(waiting, most)):
        yield batch


def spread_losses(case: EvidenceCase, view: str, batches: Iterable[list[Piece]]) -> Measured:
    """What each piece loses, over its cells; only a batch of views is held at a time.

    Views of one batch share what they have in common from the start, so a batch is best of pieces
    that begin at the same frame.
    """
    masks = case.over(view)
    before, before_random = case.unhidden(view)
    values = np.zeros((len(case.encoded.video), *case.grid))
    lost: list[float] = []
    lost_random: list[float] = []
    for batch in batches:
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
