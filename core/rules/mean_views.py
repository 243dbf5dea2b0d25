"""The linear contrast with the mean of two second views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits, cut_floor
from macd_studio.core.options import ContrastOptions
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class MeanViews(ScoreRule):
    """(1 + α)·z − α·½(z′ + z″) where p ≥ β·max p.

    The form of SEASON (arXiv 2512.04643), (1 + α)·z − α·(w_S·z_S + w_T·z_T) over a spatially and a
    temporally degraded view, with equal weights. It is not SEASON, whose weights come from the
    divergence of the frames' attention, which the decoding loop does not read.
    """

    title = "Mean of views"
    second_views = 2
    contrast: ContrastOptions

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """α, β and cut of the run."""
        return cls(setting.contrast)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        floor = cut_floor(base, self.contrast.beta, self.contrast.head)
        share = -self.contrast.alpha / len(others)
        return StepWeights(1 + self.contrast.alpha, (share,) * len(others), floor)
