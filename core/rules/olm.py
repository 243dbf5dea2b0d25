"""Mirage's output-layer rule: a close call becomes "yes"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from macd_studio.core.decoding.contrast import Logits
from macd_studio.core.question import require_yes_no, word_tokens
from macd_studio.core.rules.base import ScoreRule, Setting, probabilities
from macd_studio.core.types import StepWeights

MASS, MARGIN = 0.2, 0.5


@dataclass(frozen=True)
class Olm(ScoreRule):
    """ "yes" where p_yes + p_no > 0.2 and |p_yes − p_no| < 0.5, else z ("Mirage", arXiv 2504.10020,
    github.com/ustc-hyin/cd_rethink). The first token alone is looked at.
    """

    title = "Output-layer rule"
    second_views = 0
    yes: tuple[int, ...]
    no: tuple[int, ...]

    @classmethod
    def create(cls, setting: Setting) -> Self:
        """Takes no option. Raises NotApplicable where yes or no is not asked for."""
        require_yes_no(setting.question, "olm")
        yes, no = (word_tokens(setting.tokens, word) for word in ("yes", "no"))
        return cls(yes, no)

    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """Raises the likelier "yes" to just above every other token."""
        if index:
            return StepWeights()
        p = probabilities(base)
        yes, no = (max(ids, key=lambda i: p[i]) for ids in (self.yes, self.no))
        if p[yes] + p[no] <= MASS or abs(p[yes] - p[no]) >= MARGIN:
            return StepWeights()
        return StepWeights(bias=((yes, float(base.max() - base[yes]) + 1.0),))
