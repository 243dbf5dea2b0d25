"""Input × gradient of the target's number, by one backward pass.

Pixels are normalised, so 0 is the mean colour: to first order, a cell's value is what the number
loses when the cell becomes that colour (Shrikumar et al. 2016, arXiv 1605.01713).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.evidence.case import EvidenceCase, Measured
from macd_studio.core.evidence.maps import sum_to


def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in logits. The gradient of the pixels is taken in float32 at least."""
    video = case.views[view].detach().clone().requires_grad_()
    hidden = case.lm.answer_hidden(
        case.encoded, video, case.prefix, low_memory=case.options.low_memory
    )
    sanity = case.options.sanity
    (real,) = torch.autograd.grad(case.read(hidden)[0], video, retain_graph=sanity)
    if not sanity:
        return Measured(_by_cell(case, video, real))
    (random,) = torch.autograd.grad(case.read_random(hidden)[0], video)
    return Measured(_by_cell(case, video, real), random=_by_cell(case, video, random))


def _by_cell(case: EvidenceCase, video: Tensor, gradient: Tensor) -> NDArray[np.float64]:
    return sum_to(to_host((video.detach() * gradient).sum(1)), case.grid)
