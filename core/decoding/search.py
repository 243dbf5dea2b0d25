"""Beam search and self-consistency, over the views that `core.decoding.loop` decodes, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from macd_studio.core.decoding.contrast import nucleus
from macd_studio.core.decoding.loop import Decoded, decode_views
from macd_studio.core.decoding.steps import answer
from macd_studio.core.decoding.views import DecodedViews, Scored, ViewsNeeded
from macd_studio.core.options import DecodeOptions
from macd_studio.core.repeats import penalised
from macd_studio.core.rules import ScoreRule
from macd_studio.core.token_logits import log_partition
from macd_studio.core.types import Answer, TokenStep


@dataclass(frozen=True, eq=False)
class _Hypothesis:
    steps: tuple[TokenStep, ...]
    log_p: float


def beam(
    views: DecodedViews, rule: ScoreRule
) -> Generator[ViewsNeeded, None, tuple[TokenStep, ...]]:
    """The best of `beams` hypotheses by Σ log p / length ** length_penalty.

    p is the softmax of the contrastive scores over the head; the model's repetition penalty is
    taken after it, on log p, as in `generate` (on the scores where there is one beam). A
    hypothesis is complete at its end token. The search stops when `beams` are complete and the
    best running one, at its present length, ranks no better than the worst of them. That is a
    heuristic, as any beam is: with a length penalty above 0 a running hypothesis may still rise as
    it grows, so what is returned is the best that was found and need not be the best there is.
    """
    lm, options = views.lm, views.options
    running, complete = [_Hypothesis((), 0.0)], list[_Hypothesis]()
    for index in range(options.max_tokens):
        scored = yield from views.wait_for_scores(index, rule, options.beams == 1)
        extensions: list[tuple[float, int, int]] = []
        for row, one in enumerate(scored):
            log_p = one.scores - log_partition(one.scores)
            if options.beams > 1:
                log_p = penalised(log_p, one.repeats)
            for place in np.argsort(-log_p, kind="stable")[: 2 * options.beams]:
                if np.isfinite(log_p[place]):
                    total = running[row].log_p + float(log_p[place])
                    extensions.append((total, row, one.choose(int(place), sampled=True)))
        extensions.sort(key=lambda x: -x[0])
        running_on: list[tuple[int, _Hypothesis]] = []
        for rank, (total, row, token) in enumerate(extensions[: 2 * options.beams]):
            step = views.record(scored[row], index, token, rule, options.keep, row)
            grown = _Hypothesis((*running[row].steps, step), total)
            if token in lm.end_tokens:
                if rank < options.beams:
                    complete.append(grown)
            elif len(running_on) < options.beams:
                running_on.append((row, grown))
        if not running_on or _settled(complete, running_on[0][1], options):
            break
        running = [g for _, g in running_on]
        views.select([row for row, _ in running_on])
        views.step([g.steps[-1].token for g in running])
    else:
        complete += running
    return max(complete or running, key=lambda h: _rank(h, options)).steps


def _rank(hypothesis: _Hypothesis, options: DecodeOptions) -> float:
    return float(hypothesis.log_p / len(hypothesis.steps) ** options.length_penalty)


def _settled(complete: list[_Hypothesis], best: _Hypothesis, options: DecodeOptions) -> bool:
    if len(complete) < options.beams:
        return False
    worst = sorted((_rank(h, options) for h in complete), reverse=True)[options.beams - 1]
    return _rank(best, options) <= worst


def vote(views: DecodedViews, method: str, rule: ScoreRule) -> Generator[ViewsNeeded, None, Answer]:
    """Self-consistency: n samples from one expanded cache, the majority of normalised answers.

    Ties go to the answer that came first; its first sample is the one recorded. With α = 0 the
    samples are those of the baseline's vote only if β is 0 too: β > 0 cuts what may be sampled to
    the head, and the baseline has no head.
    """
    lm, options, n = views.lm, views.options, views.options.samples
    rngs = [np.random.default_rng([options.seed, i]) for i in range(n)]
    steps: list[list[TokenStep]] = [[] for _ in range(n)]

    def sample(row: int, scored: Scored) -> int:
        return sampled(scored, options, rngs[row])

    for item in decode_views(views, rule, sample, range(options.max_tokens), options.keep):
        if isinstance(item, Decoded):
            steps[item.row].append(item.step)
        else:
            yield item
    answers = [answer(lm, method, z, rule) for z in steps]
    votes = Counter(normalised(a.text) for a in answers)
    winner = votes.most_common(1)[0][0]
    first = next(a for a in answers if normalised(a.text) == winner)
    return replace(first, votes=dict(votes))


def sampled(scored: Scored, options: DecodeOptions, rng: np.random.Generator) -> int:
    """A token drawn from the nucleus; takes one number, also where one token is left."""
    p = nucleus(scored.scores, options.temperature, options.top_p)
    return scored.choose(int(rng.choice(len(p), p=p)), sampled=True)


def normalised(text: str) -> str:
    """An answer as it is counted: lower case, one blank between words, no final full stop.

    >>> normalised(" Yes.  It is ")
    'yes. it is'
    """
    return " ".join(text.lower().split()).rstrip(".!")
