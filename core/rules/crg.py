"""CRG: contrast at full strength, without a cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class Crg(ScoreRule):
    """2·z − z′, nothing cut (Contrastive Region Guidance, Wan et al., ECCV 2024)."""

    title = "CRG"

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """Takes no option; α is 1."""
        return cls()

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The same weights for every token."""
        return StepWeights(2.0, (-1.0,))
