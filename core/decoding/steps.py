"""Logits of the views and a chosen token → its TokenStep; those → an Answer. Knows no model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import floor_of, kept_candidates, log_partition
from macd_studio.core.repeats import Repeats
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, StepWeights, TokenStep

LogitRows = NDArray[np.floating[Any]]


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
        weights=weights if rule.constant is None else None,
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
    contrast = rule.constant
    if contrast is None:
        return made
    return replace(made, alpha=contrast.alpha, beta=contrast.beta, head=contrast.head)
