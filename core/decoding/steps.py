"""Rows of the views and a chosen token → its TokenStep; those → an Answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from macd_studio.core.decoding.contrast import floor_of, kept_candidates
from macd_studio.core.repeats import Repeats
from macd_studio.core.rules import ScoreRule
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import Answer, StepWeights, TokenStep

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import Reader


CERTIFICATE_MARGIN = 0.125
"""How far below the cut the candidates of a server's row reach, nats: further than twice the error
that the plain video has at least in 8 bits."""


def make_token_step(
    token_text: Callable[[int], str],
    index: int,
    token: int,
    base: NextTokenLogits,
    others: Sequence[NextTokenLogits],
    weights: StepWeights,
    rule: ScoreRule,
    keep: int,
    repeats: Repeats | None = None,
) -> TokenStep:
    """The record of one choice: the candidates worth keeping under every view.

    base, others: over the same tokens. keep: how many of each view's best are kept at least; of
    rows that do not hold the whole vocabulary every token is kept. repeats: (C,).
    """
    if base.ids is None:
        # of a server's row also those that may pass the cut within its error, for certificates
        near = weights.floor - (0.0 if base.log_z is None else CERTIFICATE_MARGIN)
        at = kept_candidates([base.values, *(z.values for z in others)], keep, near, token, repeats)
        ids, floor = at, floor_of(base.values, at)
    else:
        at = np.argsort(-base.values, kind="stable")
        ids, floor = base.ids[at], float(np.nextafter(np.float32(base.floor), np.float32(np.inf)))
        floor = -np.inf if base.floor == -np.inf else floor
    return TokenStep(
        index=index,
        token=token,
        text=token_text(token),
        candidates=ids,
        texts=tuple(token_text(int(i)) for i in ids),
        base=base.values[at].astype(np.float32),
        base_log_z=base.log_partition,
        others=tuple(other.values[at].astype(np.float32) for other in others),
        others_log_z=tuple(other.log_partition for other in others),
        floor=floor,
        weights=weights if rule.constant_contrast is None else None,
        repeats=None if repeats is None else repeats.among(at),
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
    contrast = rule.constant_contrast
    if contrast is None:
        return made
    return replace(made, alpha=contrast.alpha, beta=contrast.beta, head=contrast.head)


def answer(lm: Reader, method: str, steps: Sequence[TokenStep], rule: ScoreRule) -> Answer:
    """The tokens so far as an Answer."""
    text = lm.text([s.token for s in steps if s.token not in lm.end_tokens])
    return make_answer(method, text, steps, lm.end_tokens, rule)
