"""The video with one object masked at a time, read in few passes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from macd_studio.core.masking.composite import MaskCompositor

BATCH = 8
"""Views read in one pass, so that many objects do not need the memory of all at once."""


@torch.no_grad()
def masked_one_by_one(view: MaskCompositor) -> Iterator[Tensor]:
    """Batches (B, T, 3, h, w) of K videos, each with one object at r = 1 and nothing else."""
    count, device = len(view.objects), view.objects.device
    nothing = torch.zeros(len(view.encoded.groups), device=device)
    alone = torch.eye(count, dtype=torch.float64, device=device)
    for at in range(0, count, BATCH):
        yield torch.stack([view.video(one, nothing) for one in alone[at : at + BATCH]])
