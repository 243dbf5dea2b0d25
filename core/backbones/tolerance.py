"""How far what should be equal may differ, by the precision that a model computes in."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tolerance:
    """affine, logits: largest difference, relative to the largest value; gradient: relative."""

    affine: float
    logits: float
    gradient: float


TOLERANCES = {
    torch.float64: Tolerance(1e-5, 1e-6, 0.02),
    torch.float32: Tolerance(1e-4, 1e-3, 0.1),
    torch.float16: Tolerance(5e-3, 0.05, 0.5),
    torch.bfloat16: Tolerance(2e-2, 0.1, 0.5),
}
