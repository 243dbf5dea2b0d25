"""The occlusion report: the measured effect of masking each object alone, beside its gradient.

One batched pass over K views; knows neither how objects were found nor how a view is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from macd_studio.core.backbones.base import DecodeState, VideoLM
from macd_studio.core.backbones.host import to_float, to_host
from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.records import OcclusionReport
from macd_studio.core.macd import MaskCompositor, loss_of
from macd_studio.core.masking.composite import one_by_one
from macd_studio.core.words import count

Float64Array = NDArray[np.float64]


@torch.no_grad()
def measure(
    lm: VideoLM,
    view: MaskCompositor,
    base: DecodeState,
    answer: Sequence[int],
    gradient: Float64Array,
    level: Float64Array,
) -> OcclusionReport:
    """Masks one object after the other (r = 1, nothing else) and measures what changes.

    base: the video itself, prefilled. answer: token ids of the baseline answer, which is fed to
    every view. gradient, level: (K,), of the ascent's first step, and the levels it chose. Raises
    OptionError without an object or an answer.
    """
    count = len(view.objects)
    if not count or not answer:
        raise OptionError("there is nothing to measure", "Add an object, or run another clip")
    encoded = view.encoded
    losses, chances = [_loss(base, lm, encoded, 0)], [_answer_log_p(lm, base, answer)]
    for videos in one_by_one(view):
        state = lm.prefill(encoded, videos, reuse=base)
        losses += [_loss(state, lm, encoded, i) for i in range(len(videos))]
        chances.append(_answer_log_p(lm, state, answer))
    loss, log_p = np.array(losses), np.concatenate(chances)
    odds = _log_odds(log_p.sum(1))
    loss_change = loss[1:] - loss[0]
    return OcclusionReport(
        gradient=np.asarray(gradient, np.float64),
        loss_change=loss_change,
        odds_change=odds[1:] - odds[0],
        token_change=log_p[1:] - log_p[0],
        correlation=_correlation(gradient, loss_change),
        verdict=verdict(gradient, loss_change, level),
    )


def _loss(state: DecodeState, lm: VideoLM, encoded: object, row: int) -> float:
    assert state.query_logits is not None
    return to_float(loss_of(state.query_logits[row], encoded))  # type: ignore[arg-type]


def _answer_log_p(lm: VideoLM, state: DecodeState, answer: Sequence[int]) -> Float64Array:
    """(B, A) log probability of each of the answer's tokens after those before it."""
    rows = len(state.logits)
    columns = []
    for i, token in enumerate(answer):
        columns.append(to_host(torch.log_softmax(state.logits.double(), -1)[:, token]))
        if i + 1 < len(answer):
            # a copy, so that the given state's cache stays as it is
            state = lm.select(state, range(rows)) if i == 0 else state
            state = lm.step(state, [token] * rows)
    return np.stack(columns, 1)


def _log_odds(log_p: Float64Array) -> Float64Array:
    log_p = np.minimum(log_p, -1e-12)
    return np.asarray(log_p - np.log(-np.expm1(log_p)))


def _correlation(a: Float64Array, b: Float64Array) -> float | None:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(spearmanr(a, b).statistic)


def verdict(gradient: Float64Array, loss_change: Float64Array, level: Float64Array) -> str:
    """Whether hiding raises the loss where the gradient is positive, and nowhere else.

    >>> verdict(np.array([1.0, -1.0]), np.array([0.5, -0.1]), np.array([1.0, 0.0]))
    'supported: for every object the loss moves the way its gradient says'
    """
    agree = int((np.sign(gradient) == np.sign(loss_change)).sum())
    n = len(gradient)
    chosen = level >= 1
    if agree == n:
        return "supported: for every object the loss moves the way its gradient says"
    agreement = f"for {agree} of {count(n, 'object')} the loss moves the way their gradient says"
    if not chosen.any():
        return f"nothing was hidden; {agreement}"
    if (loss_change[chosen] > 0).all():
        return f"supported for what was hidden: the loss rises without it; {agreement}"
    if agree * 2 > n:
        return f"partly supported: {agreement}"
    return f"not supported: {agreement}"
