"""Whether a token would be the same for every error that its log-probabilities may have.

For models that another process holds: their log-probabilities are off by at most ε_V each in the
plain video, and by at most ε in any other view, see `core.backbones.remote.probe.Server`. Pure
NumPy, over what a trace stores of a token.

With s(t) = w_V·log p(t|V) + Σ_v w_v·log p_v(t) + bias(t) over the second views v, two scores'
difference is off by at most 2(ε_V·|w_V| + ε·Σ_v |w_v|). A token passes the cut
log p(t|V) ≥ max log p(·|V) + log β for every error, or for none, unless it lies within 2ε_V of it:
the maximum may be off by ε_V as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.macd import contrast_weights, weighted
from macd_studio.core.rules import RULES
from macd_studio.core.types import Answer, StepWeights, TokenStep, Trace

Certificate = Literal["certified", "close", "head", "rule", "search"]
"""certified: the same token for every error. close: another may win. head: tokens that pass the cut
may be missing. rule: its weights themselves follow from the log-probabilities. search: the token
was drawn, or found by a search over several answers."""


class Errors(NamedTuple):
    """How far each log-probability may be off, nats: `video` in the plain video, `second` in any
    other view. The first view of every answer is the plain video, see `core.run.order`."""

    video: float
    second: float


def errors_of(log_p_error: float, video_log_p_error: float) -> Errors | None:
    """As a `BackboneRecord` or a `BackboneInfo` holds them; None where no server was asked.

    video_log_p_error: 0 where it was not recorded; the other value holds of every view then.

    >>> errors_of(0.5, 0.0), errors_of(0.0, 0.0)
    (Errors(video=0.5, second=0.5), None)
    """
    if not log_p_error:
        return None
    return Errors(video_log_p_error or log_p_error, log_p_error)


def certify(step: TokenStep, answer: Answer, errors: Errors, search: str = "greedy") -> Certificate:
    """What can be said of a chosen token. search: of `DecodeOptions`.

    The token must be the one that the stored scores choose; of a changed α or β make the step's
    answer first.
    """
    rule = RULES.get(answer.rule)
    if rule is None or rule.moves_with_views or answer.head == "raw":
        return "rule"
    base = np.asarray(step.base, np.float64)
    weights = step.weights or contrast_weights(base, answer.alpha, answer.beta)
    head = base >= weights.floor - 2 * errors.video
    place = int(np.flatnonzero(step.candidates == step.token)[0])
    plain = not any(weights.others) and not weights.bias
    # whether tokens may pass that are not stored
    left_out = step.floor > weights.floor - 2 * errors.video
    if left_out and (not plain or search != "greedy"):
        return "head"
    if left_out and base[place] <= step.floor + 2 * errors.video:
        return "close"
    if head.sum() == 1 and head[place] and not weights.bias and step.repeats is None:
        return "certified"
    if search != "greedy":
        return "search"
    if step.repeats is not None:
        return "rule"  # which score is lowered depends on its sign
    return "certified" if _wins(step, weights, place, head, errors) else "close"


def _wins(
    step: TokenStep, weights: StepWeights, place: int, head: NDArray[np.bool_], errors: Errors
) -> bool:
    """Whether a token passes the cut and beats all that may pass it, whatever the errors are."""
    base = np.asarray(step.base, np.float64)
    if len(step.others) < len(weights.others):
        return False  # decided without a second view, by a cut that is too close
    leads = base[place] > np.delete(base, place).max(initial=-np.inf) + 2 * errors.video
    if not leads and base[place] < weights.floor + 2 * errors.video:
        return False
    scores = weighted(base, step.others, replace(weights, floor=-np.inf), step.candidates)
    rivals = scores[head & (np.arange(len(base)) != place)]
    others = sum(abs(w) for w in weights.others)
    spread = 2 * (errors.video * abs(weights.base) + errors.second * others)
    return bool(scores[place] > rivals.max(initial=-np.inf) + spread)


def errors_in(trace: Trace) -> Errors | None:
    """What the certificates of a trace rest on; None where the model was in this process."""
    return errors_of(trace.backbone.log_p_error, trace.backbone.video_log_p_error)


def certificates(trace: Trace, answer: Answer) -> tuple[Certificate, ...]:
    """Of every token of an answer; empty where the model was in this process."""
    errors = errors_in(trace)
    if errors is None:
        return ()
    search = trace.options.decode.search
    return tuple(certify(step, answer, errors, search) for step in answer.tokens)


def least_beta(trace: Trace, answer: Answer) -> float:
    """The least β for which every token that passes the cut is stored; 0 where the rows are whole.

    Of a server that gives the likeliest tokens only.
    """
    if not trace.backbone.log_p_error or "rows" not in trace.backbone.lacks:
        return 0.0
    floors = [step.floor - float(np.max(step.base)) for step in answer.tokens if step.others]
    return float(np.exp(min(0.0, max(floors, default=-np.inf))))


def count_certified(trace: Trace, answer: Answer) -> tuple[int, int] | None:
    """How many tokens of an answer are certified, and of how many; None without a server."""
    found = certificates(trace, answer)
    return (sum(one == "certified" for one in found), len(found)) if found else None
