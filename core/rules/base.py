"""What a score rule is: a row of logits for each view → how one token is chosen from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import Logits, log_partition
from macd_studio.core.types import StepWeights

if TYPE_CHECKING:
    from macd_studio.core.options import ContrastOptions, RuleOptions

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """What a rule is made from.

    contrast: α, β and cut published for the view it is paired with. options: what other rules
    take. tokens: text → token ids, for rules that use words. question: as it was asked.
    """

    contrast: ContrastOptions
    options: RuleOptions
    tokens: Any
    question: str


class ScoreRule(ABC):
    """Weighs the views of one token. A subclass in a module of its own name is found by itself.

    title: for tables. second_views: how many second views it must be given; with more or fewer it
    is refused. Its docstring names the source.
    """

    title: ClassVar[str] = ""
    second_views: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Its name in core.rules: that of its module."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    @classmethod
    @abstractmethod
    def create(cls, setting: Setting) -> Self:
        """The rule as the options have it. Raises NotApplicable for a question it cannot score."""

    @abstractmethod
    def weigh(self, base: Logits, others: Sequence[Logits], index: int) -> StepWeights:
        """The weights for the token at `index`, counted from 0.

        base: (V,) logits of the video; others: (V,) each, of the second views.
        """


def probabilities(logits: Logits) -> Float64Array:
    """Softmax in float64, (V,)."""
    return np.asarray(np.exp(np.asarray(logits, np.float64) - log_partition(logits)))
