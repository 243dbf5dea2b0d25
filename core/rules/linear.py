"""The contrast of MACD, VCD, SID and TCD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.options import ContrastOptions
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class Linear(ScoreRule):
    """(1 + α)·z − α·z′ where p ≥ β·max p; with `head` "raw" where z ≥ β·max z (the MACD paper, eq.
    6; VCD, arXiv 2311.16922; TCD cuts by raw logits).
    """

    title = "Linear contrast"
    contrast: ContrastOptions

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """α, β and cut of the view."""
        return cls(setting.contrast)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        floor = cut_floor(base, self.contrast.beta, self.contrast.head)
        return StepWeights(1 + self.contrast.alpha, (-self.contrast.alpha,), floor)
