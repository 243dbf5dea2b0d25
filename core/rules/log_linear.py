"""Contrast as the MACD paper introduces it, on log-probabilities with λ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class LogLinear(ScoreRule):
    """log p − λ·log p′ (the MACD paper, eq. 2), where p ≥ β·max p.

    Equation 2 has no cut; β = 0 leaves it out. λ: `rules.log_lambda`.
    """

    title = "Log-probabilities with λ"
    strength: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """λ = 1, β = 0.1."""
        return cls(setting.options.log_lambda, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token; each view's log partition changes no choice."""
        return StepWeights(1.0, (-self.strength,), cut_floor(base, self.beta))
