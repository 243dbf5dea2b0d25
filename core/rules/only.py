"""ONLY's switch between adding the second view and taking it off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.rules.base import ScoreRule, Setting, probabilities
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class Only(ScoreRule):
    """z + 3·z′ where Σ|p − p′| < γ, else 2·z − z′; both where z ≥ max z + log β.

    ONLY (Wan et al., ICCV 2025, github.com/zifuwan/ONLY). γ: `rules.only_threshold`.
    """

    title = "ONLY's switch"
    threshold: float
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """γ = 0.2 and β = 0.1 as published."""
        return cls(setting.options.only_threshold, setting.options.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Two views that agree are added, two that differ are contrasted."""
        distance = np.abs(probabilities(base) - probabilities(others[0])).sum()
        weights = (1.0, 3.0) if distance < self.threshold else (2.0, -1.0)
        return StepWeights(weights[0], (weights[1],), cut_floor(base, self.beta))
