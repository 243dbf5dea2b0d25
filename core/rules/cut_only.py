"""The plausibility cut without contrast, a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class CutOnly(ScoreRule):
    """z where p ≥ β·max p: what the cut alone does to sampling ("Mirage", arXiv 2504.10020)."""

    title = "Plausibility cut alone"
    second_views = 0
    beta: float

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """β of the contrast."""
        return cls(setting.contrast.beta)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The base alone, cut."""
        return StepWeights(floor=cut_floor(base, self.beta))
