"""The occlusion report: the measured effect of masking each object alone, beside its gradient.

One batched pass over K views; knows neither how objects were found nor how a view is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.errors import OptionError
from macd_studio.core.macd import MaskCompositor, mean_question_loss
from macd_studio.core.masking.composite import one_object_at_a_time
from macd_studio.core.measurements import OcclusionReport
from macd_studio.core.statistics import spearman

Float64Array = NDArray[np.float64]


@torch.no_grad()
def measure(
    lm: Reader,
    view: MaskCompositor,
    base: Handle,
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
    losses: list[float] = []
    chances: list[list[float]] = []
    for videos in chain([view.encoded.video[None]], one_object_at_a_time(view)):
        read = lm.forced(view.encoded, videos, answer, base)
        losses += [mean_question_loss(question) for question in read.question()]
        columns = [[row.log_p(t) for row in read.rows(n, ())] for n, t in enumerate(answer)]
        chances += [list(row) for row in zip(*columns, strict=True)]
    loss, log_p = np.array(losses), np.array(chances)
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


def _log_odds(log_p: Float64Array) -> Float64Array:
    log_p = np.minimum(log_p, -1e-12)
    return np.asarray(log_p - np.log(-np.expm1(log_p)))


def _correlation(a: Float64Array, b: Float64Array) -> float | None:
    found = spearman(a, b)
    return None if math.isnan(found) else found


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
    agreement = f"for {agree} of {n} objects the loss moves the way their gradient says"
    if n == 1:
        agreement = "for the one object the loss does not move the way its gradient says"
    if not chosen.any():
        return f"nothing was hidden; {agreement}"
    if (loss_change[chosen] > 0).all():
        return f"supported for what was hidden: the loss rises without it; {agreement}"
    if agree * 2 > n:
        return f"partly supported: {agreement}"
    return f"not supported: {agreement}"
