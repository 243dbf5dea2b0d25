"""Beam search and self-consistency over the same views as `core.decoding.batch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from macd_studio.core.backbones.base import DecodeState, VideoLM
from macd_studio.core.decoding.batch import ViewBatch, answer, decode
from macd_studio.core.decoding.contrast import log_partition, nucleus
from macd_studio.core.decoding.steps import make_token_step
from macd_studio.core.macd import score_token
from macd_studio.core.options import DecodeOptions
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, StepWeights, TokenStep


def find_answer(
    lm: VideoLM,
    method: str,
    base: DecodeState,
    others: Sequence[DecodeState],
    rule: ScoreRule,
    options: DecodeOptions,
) -> Answer:
    """A whole answer by the search that `options` names."""
    match options.search:
        case "beam":
            return answer(lm, method, beam(lm, base, others, rule, options), rule)
        case "vote":
            return vote(lm, method, base, others, rule, options)
        case "greedy" | "sample":
            return answer(lm, method, list(decode(lm, base, others, rule, options)), rule)
        case _:
            assert_never(options.search)


@dataclass(frozen=True, eq=False)
class _Beam:
    steps: tuple[TokenStep, ...]
    log_p: float


def beam(
    lm: VideoLM,
    base: DecodeState,
    others: Sequence[DecodeState],
    rule: ScoreRule,
    options: DecodeOptions,
) -> tuple[TokenStep, ...]:
    """The best of `beams` hypotheses by Σ log p / length ** length_penalty.

    p is the softmax of the contrastive scores over the head. A hypothesis is complete at its end
    token. The search stops when `beams` are complete and the best running one, at its present
    length, ranks no better than the worst of them. That is a heuristic, as any beam is: with a
    length penalty above 0 a running hypothesis may still rise as it grows, so what is returned is
    the best that was found and need not be the best there is.
    """
    batch = ViewBatch(lm, base, others)
    running, complete = [_Beam((), 0.0)], list[_Beam]()
    for index in range(options.max_tokens):
        base_rows, *other_rows = batch.logits(index)
        extensions: list[tuple[float, int, int]] = []
        weights_by_row: list[StepWeights] = []
        for row, hypothesis in enumerate(running):
            other_logits = [rows[row] for rows in other_rows]
            repeats = batch.repeats(row)
            weights, scores = score_token(rule, base_rows[row], other_logits, index, repeats)
            weights_by_row.append(weights)
            log_p = scores - log_partition(scores)
            for token in np.argsort(-log_p, kind="stable")[: 2 * options.beams]:
                if np.isfinite(log_p[token]):
                    extensions.append((hypothesis.log_p + float(log_p[token]), row, int(token)))
        extensions.sort(key=lambda x: -x[0])
        running_on: list[tuple[int, _Beam]] = []
        for rank, (total, row, token) in enumerate(extensions[: 2 * options.beams]):
            other_logits = [rows[row] for rows in other_rows]
            own = base_rows[row]
            step = make_token_step(
                lm.token_text,
                index,
                token,
                own,
                other_logits,
                weights_by_row[row],
                rule,
                options.keep,
                batch.repeats(row),
            )
            grown = _Beam((*running[row].steps, step), total)
            if token in lm.end_tokens:
                if rank < options.beams:
                    complete.append(grown)
            elif len(running_on) < options.beams:
                running_on.append((row, grown))
        if not running_on or _settled(complete, running_on[0][1], options):
            break
        running = [g for _, g in running_on]
        batch.select([row for row, _ in running_on])
        batch.step([g.steps[-1].token for g in running])
    else:
        complete += running
    return max(complete or running, key=lambda h: _rank(h, options)).steps


def _rank(hypothesis: _Beam, options: DecodeOptions) -> float:
    return float(hypothesis.log_p / len(hypothesis.steps) ** options.length_penalty)


def _settled(complete: list[_Beam], best: _Beam, options: DecodeOptions) -> bool:
    if len(complete) < options.beams:
        return False
    worst = sorted((_rank(h, options) for h in complete), reverse=True)[options.beams - 1]
    return _rank(best, options) <= worst


def vote(
    lm: VideoLM,
    method: str,
    base: DecodeState,
    others: Sequence[DecodeState],
    rule: ScoreRule,
    options: DecodeOptions,
) -> Answer:
    """Self-consistency: n samples from one expanded cache, the majority of normalised answers.

    Ties go to the answer that came first; its first sample is the one recorded. With α = 0 the
    samples are those of the baseline's vote only if β is 0 too: β > 0 cuts what may be sampled to
    the head, and the baseline has no head.
    """
    n = options.samples
    batch = ViewBatch(lm, base, others, rows=n)
    rngs = [np.random.default_rng([options.seed, i]) for i in range(n)]
    steps: list[list[TokenStep]] = [[] for _ in range(n)]
    ends = min(lm.end_tokens)
    for index in range(options.max_tokens):
        base_rows, *other_rows = batch.logits(index)
        chosen = []
        for i in range(n):
            if steps[i] and steps[i][-1].token in lm.end_tokens:
                chosen.append(ends)
                continue
            other_logits = [rows[i] for rows in other_rows]
            repeats = batch.repeats(i)
            weights, scores = score_token(rule, base_rows[i], other_logits, index, repeats)
            p = nucleus(scores, options.temperature, options.top_p)
            chosen.append(int(rngs[i].choice(len(p), p=p)))
            own = base_rows[i]
            step = make_token_step(
                lm.token_text,
                index,
                chosen[i],
                own,
                other_logits,
                weights,
                rule,
                options.keep,
                repeats,
            )
            steps[i].append(step)
        if all(z[-1].token in lm.end_tokens for z in steps):
            break
        batch.step(chosen)
    answers = [answer(lm, method, z, rule) for z in steps]
    votes = Counter(normalised(a.text) for a in answers)
    winner = votes.most_common(1)[0][0]
    first = next(a for a in answers if normalised(a.text) == winner)
    return replace(first, votes=dict(votes))


def normalised(text: str) -> str:
    """An answer as it is counted: lower case, one blank between words, no final full stop.

    >>> normalised(" Yes.  It is ")
    'yes. it is'
    """
    return " ".join(text.lower().split()).rstrip(".!")
