"""No contrast: the model as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class Plain(ScoreRule):
    """z: plain decoding of the video."""

    title = "Plain decoding"
    second_views = 0

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """Takes no option."""
        return cls()

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The base alone."""
        return StepWeights()
