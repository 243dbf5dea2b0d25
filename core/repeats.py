"""A model's repetition penalty: what it lowers, and by how much. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.token_logits import NextTokenLogits


@dataclass(frozen=True, eq=False)
class Repeats:
    """Which tokens came before, in the prompt or the answer, and what their scores are lowered by.

    penalty: a score above 0 is divided by it, one below is multiplied; above 0, and 1 changes
    nothing. at: bool, of the whole vocabulary (V,) or of a step's candidates (C,).
    """

    penalty: float
    at: NDArray[np.bool_]

    def among(self, index: NDArray[Any]) -> Repeats:
        """Of the tokens at `index` alone, which holds places or is bool."""
        return Repeats(self.penalty, self.at[index])


def repeats_of(penalty: float, row: NextTokenLogits, tokens: Sequence[int]) -> Repeats | None:
    """What a model's penalty does after these tokens; None where it has none, which is 1.

    row: what is scored, of the whole vocabulary or of some tokens.
    """
    if penalty == 1.0:
        return None
    if row.ids is not None:
        return Repeats(penalty, np.isin(row.ids, list(tokens)))
    at = np.zeros(len(row.values), bool)
    at[list(tokens)] = True
    return Repeats(penalty, at)


def penalised(scores: NDArray[Any], repeats: Repeats | None) -> NDArray[np.float64]:
    """Scores after the penalty (Keskar et al. 2019, section 4.1).

    It is that of transformers' RepetitionPenaltyLogitsProcessor, taken after the contrast.

    >>> penalised(np.array([3.0, -1.0, 2.0]), Repeats(2.0, np.array([True, True, False]))).tolist()
    [1.5, -2.0, 2.0]
    """
    scores = np.asarray(scores, np.float64)
    if repeats is None:
        return scores
    lowered = np.where(scores < 0, scores * repeats.penalty, scores / repeats.penalty)
    return np.where(repeats.at, lowered, scores)


def undo_repetition_penalty(scores: NDArray[Any], repeats: Repeats | None) -> NDArray[np.float64]:
    """What `penalised` makes these scores of.

    >>> one = Repeats(2.0, np.array([True, True, False]))
    >>> undo_repetition_penalty(penalised(np.array([3.0, -1.0, 2.0]), one), one).tolist()
    [3.0, -1.0, 2.0]
    """
    return penalised(scores, repeats and Repeats(1 / repeats.penalty, repeats.at))
