"""Beam search and self-consistency over the same views as `core.decoding.batch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

import numpy as np

from macd_studio.core.backbones.base import DecodeState, VideoLM
from macd_studio.core.decoding.batch import SecondStates, ViewBatch, answer, batch_of, decode
from macd_studio.core.decoding.contrast import log_partition, nucleus
from macd_studio.core.decoding.steps import LogitRows, make_token_step
from macd_studio.core.macd import score_token
from macd_studio.core.options import DecodeOptions
from macd_studio.core.repeats import penalised
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, StepWeights, TokenStep

T = TypeVar("T")


def find_answer(
    lm: VideoLM,
    method: str,
    base: DecodeState,
    others: SecondStates,
    rule: ScoreRule,
    options: DecodeOptions,
) -> Answer:
    """A whole answer by the search that `options` names."""
    match options.search:
        case "beam" | "vote":
            batch = batch_of(lm, base, others, hypotheses(options))
            return _finished(search(method, batch, rule, options))
        case "greedy" | "sample":
            return answer(lm, method, list(decode(lm, base, others, rule, options)), rule)
        case _:
            assert_never(options.search)


def hypotheses(options: DecodeOptions) -> int:
    """How many a search begins with."""
    return options.samples if options.search == "vote" else 1


def search(
    method: str, batch: ViewBatch, rule: ScoreRule, options: DecodeOptions
) -> Generator[None, None, Answer]:
    """Beam search or a vote; yields where a lazy batch waits to be handed its second views."""
    if options.search == "vote":
        return (yield from _vote(method, batch, rule, options))
    return answer(batch.lm, method, (yield from _beam(batch, rule, options)), rule)


def _finished(searching: Generator[None, None, T]) -> T:
    """The result of a search whose batch waits for nothing."""
    try:
        next(searching)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a batch that has its views does not wait")


def _logits(
    batch: ViewBatch, index: int, rule: ScoreRule, running: Sequence[int] | None = None
) -> Generator[None, None, list[LogitRows]]:
    """Those of the batch, once it has the views that it needs."""
    while not (rows := batch.logits(index, rule, running)):
        yield
    return rows


@dataclass(frozen=True, eq=False)
class _Hypothesis:
    steps: tuple[TokenStep, ...]
    log_p: float


def beam(
    lm: VideoLM,
    base: DecodeState,
    others: SecondStates,
    rule: ScoreRule,
    options: DecodeOptions,
) -> tuple[TokenStep, ...]:
    """The best of `beams` hypotheses by Σ log p / length ** length_penalty.

    p is the softmax of the contrastive scores over the head; the model's repetition penalty is
    taken after it, on log p, as in `generate` (on the scores where there is one beam). A
    hypothesis is complete at its end token. The search stops when `beams` are complete and the
    best running one, at its present length, ranks no better than the worst of them. That is a
    heuristic, as any beam is: with a length penalty above 0 a running hypothesis may still rise as
    it grows, so what is returned is the best that was found and need not be the best there is.
    """
    return _finished(_beam(batch_of(lm, base, others), rule, options))


def _beam(
    batch: ViewBatch, rule: ScoreRule, options: DecodeOptions
) -> Generator[None, None, tuple[TokenStep, ...]]:
    """See `beam` and `search`."""
    lm = batch.lm
    running, complete = [_Hypothesis((), 0.0)], list[_Hypothesis]()
    for index in range(options.max_tokens):
        base_rows, *other_rows = yield from _logits(batch, index, rule)
        extensions: list[tuple[float, int, int]] = []
        weights_by_row: list[StepWeights] = []
        for row, hypothesis in enumerate(running):
            other_logits = [rows[row] for rows in other_rows]
            repeats = batch.repeats(row)
            alone = repeats if options.beams == 1 else None
            weights, scores = score_token(rule, base_rows[row], other_logits, index, alone)
            weights_by_row.append(weights)
            log_p = scores - log_partition(scores)
            if alone is None:
                log_p = penalised(log_p, repeats)
            for token in np.argsort(-log_p, kind="stable")[: 2 * options.beams]:
                if np.isfinite(log_p[token]):
                    extensions.append((hypothesis.log_p + float(log_p[token]), row, int(token)))
        extensions.sort(key=lambda x: -x[0])
        running_on: list[tuple[int, _Hypothesis]] = []
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
            grown = _Hypothesis((*running[row].steps, step), total)
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


def _rank(hypothesis: _Hypothesis, options: DecodeOptions) -> float:
    return float(hypothesis.log_p / len(hypothesis.steps) ** options.length_penalty)


def _settled(complete: list[_Hypothesis], best: _Hypothesis, options: DecodeOptions) -> bool:
    if len(complete) < options.beams:
        return False
    worst = sorted((_rank(h, options) for h in complete), reverse=True)[options.beams - 1]
    return _rank(best, options) <= worst


def vote(
    lm: VideoLM,
    method: str,
    base: DecodeState,
    others: SecondStates,
    rule: ScoreRule,
    options: DecodeOptions,
) -> Answer:
    """Self-consistency: n samples from one expanded cache, the majority of normalised answers.

    Ties go to the answer that came first; its first sample is the one recorded. With α = 0 the
    samples are those of the baseline's vote only if β is 0 too: β > 0 cuts what may be sampled to
    the head, and the baseline has no head.
    """
    batch = batch_of(lm, base, others, options.samples)
    return _finished(_vote(method, batch, rule, options))


def _vote(
    method: str, batch: ViewBatch, rule: ScoreRule, options: DecodeOptions
) -> Generator[None, None, Answer]:
    """See `vote` and `search`."""
    lm, n = batch.lm, options.samples
    rngs = [np.random.default_rng([options.seed, i]) for i in range(n)]
    steps: list[list[TokenStep]] = [[] for _ in range(n)]
    ends = min(lm.end_tokens)
    for index in range(options.max_tokens):
        running = [i for i in range(n) if not steps[i] or steps[i][-1].token not in lm.end_tokens]
        base_rows, *other_rows = yield from _logits(batch, index, rule, running)
        chosen = []
        for i in range(n):
            if i not in running:
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
