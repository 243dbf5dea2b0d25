"""What the target's number loses when each patch of each frame group alone is hidden.

It needs no object: the model's own frames are cut into equal patches, and all are read in batches.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from core.evidence.case import EvidenceCase, Measured
from core.evidence.maps import mean_to
from core.evidence.occlusion import spread_losses


@torch.no_grad()
def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits."""
    rows, columns = case.options.patch_grid()
    height, width = case.encoded.frames.size
    down, across = (np.arange(n + 1) * side // n for n, side in ((rows, height), (columns, width)))
    hidden = []
    for frames in case.encoded.groups:
        for y0, y1 in pairwise(down):
            for x0, x1 in pairwise(across):
                mask = np.zeros((len(case.encoded.video), height, width), np.float32)
                mask[list(frames), y0:y1, x0:x1] = 1
                hidden.append(mask)
    masks = case.over(view)
    device = case.encoded.video.device
    videos = torch.stack([masks.composite(torch.from_numpy(m).to(device)) for m in hidden])
    return spread_losses(case, view, videos, mean_to(np.stack(hidden), case.grid))
