"""Logits of the views and a chosen token → its TokenStep; those → an Answer. Knows no model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import floor_of, kept_candidates, log_partition, weighted
from macd_studio.core.repeats import Repeats, penalised
from macd_studio.core.rules import Linear, ScoreRule
from macd_studio.core.types import Answer, StepWeights, TokenStep

LogitRows = NDArray[np.floating[Any]]


def score_token(
    rule: ScoreRule,
    base: LogitRows,
    others: Sequence[LogitRows],
    index: int,
    repeats: Repeats | None = None,
) -> tuple[StepWeights, NDArray[np.float64]]:
    """How the rule weighs the views of a token, and the scores (V,) to choose it by.

    repeats: the model's repetition penalty, taken after the contrast.

    Raises TypeError for a rule that does not give each second view a weight.
    """
    weights = rule.weigh(base, others, index)
    if len(weights.others) != rule.second_views:
        raise TypeError(
            f"the rule {rule.name} is over {rule.second_views} second views, and gave"
            f" {len(weights.others)} weights"
        )
    return weights, penalised(weighted(base, others, weights), repeats)


def make_token_step(
    token_text: Callable[[int], str],
    index: int,
    token: int,
    base: LogitRows,
    others: Sequence[LogitRows],
    weights: StepWeights,
    rule: ScoreRule,
    keep: int,
    repeats: Repeats | None = None,
) -> TokenStep:
    """The record of one choice: the candidates worth keeping under every view.

    base, others: (V,) logits; keep: how many of each view's best are kept at least. repeats: (V,).
    """
    ids = kept_candidates([base, *others], keep, weights.floor, token, repeats)
    return TokenStep(
        index=index,
        token=token,
        text=token_text(token),
        candidates=ids,
        texts=tuple(token_text(int(i)) for i in ids),
        base=base[ids].astype(np.float32),
        base_log_z=log_partition(base),
        others=tuple(other[ids].astype(np.float32) for other in others),
        others_log_z=tuple(map(log_partition, others)),
        floor=floor_of(base, ids),
        weights=None if type(rule) is Linear else weights,
        repeats=None if repeats is None else repeats.among(ids),
    )


def make_answer(
    method: str,
    text: str,
    steps: Sequence[TokenStep],
    end_tokens: Collection[int],
    rule: ScoreRule,
) -> Answer:
    """Tokens as an Answer; finished where the last one ends it."""
    made = Answer(
        method=method,
        text=text,
        tokens=tuple(steps),
        finished=bool(steps) and steps[-1].token in end_tokens,
        rule=rule.name,
    )
    if type(rule) is not Linear:  # one that derives from it may weigh in another way
        return made
    contrast = rule.contrast
    return replace(made, alpha=contrast.alpha, beta=contrast.beta, head=contrast.head)
