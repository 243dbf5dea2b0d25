"""CODE: the more the views differ, the weaker the contrast and the tighter the cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.rules.base import ScoreRule, Setting, probabilities
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class Code(ScoreRule):
    """(2 − D)·z − (1 − D)·z′ where p ≥ D·max p, with D = ½ Σ log₂(|p − p′|^a + 1)·(p + p′).

    CODE (Kim et al., NeurIPS 2024, github.com/IVY-LVLM/CODE). a: `rules.code_power`.
    """

    title = "CODE"
    power: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """a = 0.2 as published."""
        return cls(setting.options.code_power)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """D is computed for every token; it lies in [0, 1]."""
        p, q = probabilities(base), probabilities(others[0])
        d = float(0.5 * (np.log2(np.abs(p - q) ** self.power + 1) * (p + q)).sum())
        return StepWeights(2 - d, (d - 1,), cut_floor(base, d))
