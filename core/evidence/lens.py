"""The token's probability as read out after each decoder layer: the logit lens.

Each layer's hidden state goes through the model's final norm and head (nostalgebraist 2020). Early
layers were never trained to be read that way, so only the later ones can be taken at their word.
"""

from __future__ import annotations

import torch

from macd_studio.core.backbones.base import Watch
from macd_studio.core.backbones.host import to_float
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.records import Lens


def read_layers_out(case: EvidenceCase) -> Lens:
    """Under both views; the last layer's probability is the model's own."""
    return Lens(**{view: _probabilities(case, view) for view in case.views})


def _probabilities(case: EvidenceCase, view: str) -> tuple[float, ...]:
    state, token = case.before_last(view)
    with case.lm.watching(state, Watch(lens=True)) as seen:
        case.lm.step(state, [token])
    return tuple(
        to_float(torch.softmax(logits[0].double(), -1)[case.target.token]) for logits in seen.lens
    )
