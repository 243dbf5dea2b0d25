"""Whether a token would be the same for every error that its log-probabilities may have.

For models that another process holds: their log-probabilities are off by at most ε each, see
`core.backbones.remote.probe.Server.error`. Pure NumPy, over what a trace stores of a token.

With s(t) = Σ_v w_v·log p_v(t) + bias(t) over the views v, two scores' difference is off by at most
2ε·Σ_v |w_v|. A token passes the cut log p(t|V) ≥ max log p(·|V) + log β for every error, or for
none, unless it lies within 2ε of it: the maximum may be off by ε as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.macd import contrast_weights, weighted
from macd_studio.core.rules import RULES
from macd_studio.core.types import Answer, StepWeights, TokenStep, Trace

Certificate = Literal["certified", "close", "head", "rule", "search"]
"""certified: the same token for every error. close: another may win. head: tokens that pass the cut
may be missing. rule: its weights themselves follow from the log-probabilities. search: the token
was drawn, or found by a search over several answers."""

REASONS: dict[Certificate, str] = {
    "certified": "the same token wins for every error of the log-probabilities",
    "close": "another token may win within the error of the log-probabilities",
    "head": "the server tells of too few tokens for this β",
    "rule": "the rule's weights follow from the log-probabilities",
    "search": "the token was drawn or searched for, and more than one could be",
}


def certify(step: TokenStep, answer: Answer, error: float, search: str = "greedy") -> Certificate:
    """What can be said of a chosen token. error: ε, nats; search: of `DecodeOptions`.

    The token must be the one that the stored scores choose; of a changed α or β make the step's
    answer first.
    """
    rule = RULES.get(answer.rule)
    if rule is None or rule.moves_with_views or answer.head == "raw":
        return "rule"
    base = np.asarray(step.base, np.float64)
    weights = step.weights or contrast_weights(base, answer.alpha, answer.beta)
    head = base >= weights.floor - 2 * error
    place = int(np.flatnonzero(step.candidates == step.token)[0])
    plain = not any(weights.others) and not weights.bias
    left_out = step.floor > weights.floor - 2 * error  # tokens that may pass and are not stored
    if left_out and (not plain or search != "greedy"):
        return "head"
    if left_out and base[place] <= step.floor + 2 * error:
        return "close"
    if head.sum() == 1 and head[place] and not weights.bias and step.repeats is None:
        return "certified"
    if search != "greedy":
        return "search"
    if step.repeats is not None:
        return "rule"  # which score is lowered depends on its sign
    return "certified" if _wins(step, weights, place, head, error) else "close"


def _wins(
    step: TokenStep, weights: StepWeights, place: int, head: NDArray[np.bool_], error: float
) -> bool:
    """Whether a token passes the cut and beats all that may pass it, whatever the errors are."""
    base = np.asarray(step.base, np.float64)
    if len(step.others) < len(weights.others):
        return False  # decided without a second view, by a cut that is too close
    leads = base[place] > np.delete(base, place).max(initial=-np.inf) + 2 * error
    if not leads and base[place] < weights.floor + 2 * error:
        return False
    scores = weighted(base, step.others, replace(weights, floor=-np.inf), step.candidates)
    rivals = scores[head & (np.arange(len(base)) != place)]
    spread = 2 * error * (abs(weights.base) + sum(abs(w) for w in weights.others))
    return bool(scores[place] > rivals.max(initial=-np.inf) + spread)


def certificates(trace: Trace, answer: Answer) -> tuple[Certificate, ...]:
    """Of every token of an answer; empty where the model was in this process."""
    error = trace.backbone.log_p_error
    if not error:
        return ()
    search = trace.options.decode.search
    return tuple(certify(step, answer, error, search) for step in answer.tokens)


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
