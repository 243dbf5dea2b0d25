"""M3ID: the contrast grows as the answer gets longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class M3id(ScoreRule):
    """l + k·(l − l′), k = (1 − γ)/γ, γ = e^(−λt), on log-probabilities, where z ≥ max z + log β.

    M3ID (Favero et al., CVPR 2024; github.com/sangminwoo/AvisC). t counts from 1, so that the
    first token can change too. λ: `rules.m3id_decay`. Log-probabilities differ from logits by a
    constant of each view, which changes no choice.
    """

    title = "M3ID"
    decay: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """λ = 0.02 and β = 0.1 as published."""
        return cls(setting.options.m3id_decay, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """(1 − γ)/γ = e^(λt) − 1."""
        k = float(np.expm1(self.decay * (index + 1)))
        return StepWeights(1 + k, (-k,), cut_floor(base, self.beta))
