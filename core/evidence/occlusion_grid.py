"""What the target's number loses when each patch of each frame group alone is hidden.

It needs no object: the model's own frames are cut into equal patches, which are read in batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from macd_studio.core.evidence.case import EvidenceCase, Measured
from macd_studio.core.evidence.maps import mean_to
from macd_studio.core.evidence.occlusion import Piece, batched, spread_losses


@torch.no_grad()
def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits."""
    groups = (_patches(case, frames) for frames in case.encoded.groups)
    return spread_losses(case, view, (batch for g in groups for batch in batched(case, g)))


def _patches(case: EvidenceCase, frames: Sequence[int]) -> Iterator[Piece]:
    """Those of one frame group."""
    rows, columns = case.options.patch_grid()
    height, width = case.encoded.frames.size
    down, across = (np.arange(n + 1) * side // n for n, side in ((rows, height), (columns, width)))
    video = case.encoded.video
    for y0, y1 in pairwise(down):
        for x0, x1 in pairwise(across):
            patch = np.zeros((height, width), np.float32)
            patch[y0:y1, x0:x1] = 1
            mask = torch.zeros((len(video), height, width), device=video.device)
            mask[list(frames)] = torch.from_numpy(patch).to(video.device)
            region = np.zeros((len(video), *case.grid))
            region[list(frames)] = mean_to(patch, case.grid)
            yield mask, region
