"""Attention of the row that predicts the token, to each vision token: mean over heads and layers.

It does not ask which token is predicted, so a map of it is the same for every candidate, and for a
head of random weights.
"""

from __future__ import annotations

import torch

from macd_studio.core.backbones.base import Watch
from macd_studio.core.evidence.case import EvidenceCase, Measured


def measure(case: EvidenceCase, view: str) -> Measured:
    """Values in shares of the row; together they are what the row gives to the video."""
    state, token = case.before_last(view)
    with case.lm.watching(state, Watch(attention=case.layers)) as seen:
        case.lm.step(state, [token])
    rows = torch.stack([seen.attention[layer][0] for layer in case.layers])
    values = case.spread(rows.double().mean(0))
    return Measured(values, random=values if case.options.sanity else None)
