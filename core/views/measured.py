"""Levels without a gradient: what masking each object alone does to the answer's first token.

Importing this module imports no torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.text.question import asks_yes_no, word_tokens
from macd_studio.core.token_logits import NextTokenLogits, log_partition
from macd_studio.core.types import Counterfactual

if TYPE_CHECKING:
    from macd_studio.core.views.context import MethodContext

MASKED_FROM, PARTLY_FROM = 0.5, 0.1
"""Shares of the largest change from which an object is masked, and from which partly."""

MIN_CHANGE = 1e-3
"""Nats: where no object changes the answer's distribution by more, none is masked."""


def measured_counterfactual(context: MethodContext) -> Counterfactual:
    """The levels of `macd_measured`, where no ascent gives any; no frame group is masked."""
    r0 = context.options.ascent.r0
    level = measured_levels(measured_changes(context), r0)
    masked = context.masks(context.options.mask).outside is not None
    frames = np.zeros(len(context.encoded.groups) if masked else 0)
    return Counterfactual(level, level - r0, level, frames, frames - r0, frames)


def measured_changes(context: MethodContext) -> NDArray[np.float64]:
    """(K,) KL(p(·|V) ‖ p(·|V without object k)) of the first token, nats, at least 0.

    p is over the first tokens of the answers that the question offers, see `offered_answers`; over
    the whole vocabulary where it offers none. One batched pass over the video and K views with one
    object masked at a time.
    """
    import torch

    from macd_studio.core.masking.composite import one_object_at_a_time

    mask = replace(context.options.mask, frame_mask="off")
    answers = offered_answers(context.encoded.question, context.options.choices)
    tokens = sorted({i for a in answers for i in word_tokens(context.lm.tokens, a)})

    def measure() -> NDArray[np.float64]:
        if not context.tracks:
            return np.zeros(0)
        rows: list[NextTokenLogits] = []
        ids = np.array(tokens, np.int64) if tokens else None
        for videos in one_object_at_a_time(context.masks(mask)):
            first = [] if rows else [context.encoded.video[None].to(videos.dtype)]
            views = context.prefill(torch.cat([*first, videos]))
            if not rows and ids is None:  # those that the reader tells of the video, if not all
                ids = context.lm.next_logits(views)[0].ids
            rows += context.lm.next_logits(views, ids=() if ids is None else ids.tolist())
        log_p = np.stack([_log_p(row, ids, bool(tokens)) for row in rows])
        change = (np.exp(log_p[0]) * (log_p[0] - log_p[1:])).sum(1)
        return np.asarray(np.maximum(change, 0.0), np.float64)

    return context.cache.memoize("measured", (mask, context.options.choices), measure)


def _log_p(row: NextTokenLogits, ids: NDArray[np.int64] | None, alone: bool) -> NDArray[np.float64]:
    """log p of the tokens `ids`, None for all. alone: as if there were no others.

    Else what is left of the mass stands at the end, as one outcome.
    """
    if ids is None:
        return np.asarray(row.values, np.float64) - row.log_partition
    values = np.asarray(row.among(ids).values, np.float64)
    if alone:
        return values - log_partition(values)
    log_p = values - row.log_partition
    return np.append(log_p, np.log(max(1e-12, -np.expm1(log_partition(log_p)))))


def offered_answers(question: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    """The answers that a question offers: the given ones, else yes and no where it asks for them.

    >>> offered_answers("Is there a dog?", ()), offered_answers("Which animal?", ("dog", "cat"))
    (('yes', 'no'), ('dog', 'cat'))
    """
    return choices or (("yes", "no") if asks_yes_no(question) else ())


def measured_levels(change: NDArray[np.float64], r0: float) -> NDArray[np.float64]:
    """Levels (K,): 1 from MASKED_FROM of the largest change on, r0 from PARTLY_FROM on, else 0.

    All 0 where the largest change is below MIN_CHANGE: nothing there is what the answer rests on.

    >>> measured_levels(np.array([2.0, 1.1, 0.4, 0.1]), 0.75).tolist()
    [1.0, 1.0, 0.75, 0.0]
    """
    if not len(change) or change.max() < MIN_CHANGE:
        return np.zeros(len(change))
    share = change / change.max()
    return np.where(share >= MASKED_FROM, 1.0, np.where(share >= PARTLY_FROM, r0, 0.0))
