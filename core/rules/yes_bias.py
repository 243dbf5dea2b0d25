"""A constant on the logit of "yes", the decisive control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits
from macd_studio.core.question import require_yes_no, word_tokens
from macd_studio.core.rules.base import ScoreRule, Setting
from macd_studio.core.types import StepWeights


@dataclass(frozen=True)
class YesBias(ScoreRule):
    """z + δ on the tokens that begin "yes", at the first token ("Mirage", arXiv 2504.10020).

    What a contrast gains on yes-no questions must be more than this gains. δ: `rules.delta`.
    """

    title = "Constant on yes"
    second_views = 0
    delta: float
    yes: tuple[int, ...]

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """δ = 1. Raises NotApplicable where the question does not ask for yes or no."""
        require_yes_no(setting.question, "yes-bias")
        return cls(setting.options.delta, word_tokens(setting.tokens, "yes"))

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Nothing but the constant; what follows the first token is plain."""
        if index:
            return StepWeights()
        return StepWeights(bias=tuple((token, self.delta) for token in self.yes))
