"""The two-view loop: both views in one batch, the same token to both; greedy and nucleus.

Beam search and self-consistency stand on the same `TwoViewBatch` in `core.decoding.search`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from core.backbones.base import DecodeState, VideoLM
from core.backbones.host import to_host
from core.decoding.contrast import check_finite, nucleus
from core.decoding.steps import LogitRows, make_answer, make_token_step, score_token
from core.options import DecodeOptions
from core.rules.base import ScoreRule
from core.types import Answer, StepWeights, TokenStep


class TwoViewBatch:
    """n hypotheses under one or two views, kept in step.

    Both views share one batch and one cache where their prompts are of one length; a view with a
    prompt of its own (fewer frames) has its own. The given states are left as they are. Logits of
    a joint batch agree with those of single passes to rounding (1e-5 in float32), not bit for bit.
    """

    def __init__(
        self, lm: VideoLM, base: DecodeState, counter: DecodeState | None, rows: int = 1
    ) -> None:
        self.lm, self.two, self.rows = lm, counter is not None, rows
        joint = counter is not None and (counter.length, counter.prune) == (base.length, base.prune)
        if counter is None:
            self.states = [lm.join([base])]
        elif joint:
            self.states = [lm.join([base, counter])]
        else:
            self.states = [lm.join([base]), lm.join([counter])]
        if rows > 1:
            views = range(len(self.states[0].logits))
            index = [v for v in views for _ in range(rows)]
            self.states = [lm.select(s, index[: len(s.logits) * rows]) for s in self.states]

    def logits(self, index: int) -> tuple[LogitRows, LogitRows | None]:
        """(n, V) of the video, and of the counterfactual if there is one."""
        views = np.concatenate([to_host(s.logits) for s in self.states])
        check_finite(views, f"token {index + 1}")
        return views[: self.rows], views[self.rows :] if self.two else None

    def hidden(self) -> NDArray[np.bool_] | None:
        """(N,) vision tokens that the first hypothesis's counterfactual does not see; or None."""
        hidden = self.states[-1].hidden
        return None if hidden is None else to_host(hidden[0])

    def step(self, tokens: Sequence[int]) -> None:
        """Feeds each hypothesis its token, the same under both views."""
        self.states = [
            self.lm.step(s, list(tokens) * (len(s.logits) // self.rows)) for s in self.states
        ]

    def crop(self, kept: int) -> None:
        """Forgets every decoded token but the first `kept`; `step` must follow."""
        self.states = [self.lm.crop(s, s.prompt + kept) for s in self.states]

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the given hypotheses, in that order."""
        kept = []
        for s in self.states:
            offsets = range(0, len(s.logits), self.rows)
            kept.append(self.lm.select(s, [o + r for o in offsets for r in rows]))
        self.states, self.rows = kept, len(rows)


def decode(
    lm: VideoLM,
    base: DecodeState,
    counter: DecodeState | None,
    rule: ScoreRule,
    options: DecodeOptions,
) -> Iterator[TokenStep]:
    """Yields one TokenStep per token, the end token included; greedy, or sampled from its seed.

    base, counter: prefilled states, left as they are. The linear rule with α = 0 gives the same
    tokens as plain decoding. Raises NumericalError at a logit that is not finite, naming the token.
    """
    yield from continue_decoding(TwoViewBatch(lm, base, counter), rule, options)


def redecode(
    batch: TwoViewBatch, index: int, token: int, rule: ScoreRule, options: DecodeOptions
) -> Iterator[TokenStep]:
    """Continues after replacing the token at `index` by another: what follows it, without it.

    batch: as an earlier `continue_decoding` left it, which has fed at least `index` tokens. Crops
    the cache instead of reading the prompt again.
    """
    if token in batch.lm.end_tokens:
        return
    batch.crop(index)
    batch.step([token])
    yield from continue_decoding(batch, rule, options, index + 1)


def continue_decoding(
    batch: TwoViewBatch, rule: ScoreRule, options: DecodeOptions, first: int = 0
) -> Iterator[TokenStep]:
    """Decodes from where the batch stands; `first` is the index of the next token."""
    lm, rng = batch.lm, np.random.default_rng([options.seed, first])
    for index in range(first, options.max_tokens):
        rows, other_rows = batch.logits(index)
        base, other = rows[0], None if other_rows is None else other_rows[0]
        weights, scores = score_token(rule, base, other, index)
        if options.search == "sample":
            p = nucleus(scores, options.temperature, options.top_p)
            token = int(rng.choice(len(p), p=p))
        else:
            token = int(scores.argmax())
        step = token_step(lm, index, token, base, other, weights, rule, options)
        yield replace(step, hidden=batch.hidden())
        if token in lm.end_tokens:
            return
        batch.step([token])


def token_step(
    lm: VideoLM,
    index: int,
    token: int,
    base: LogitRows,
    counter: LogitRows | None,
    weights: StepWeights,
    rule: ScoreRule,
    options: DecodeOptions,
) -> TokenStep:
    """The record of one choice by a model; see `make_token_step`."""
    return make_token_step(lm.token_text, index, token, base, counter, weights, rule, options.keep)


def answer(lm: VideoLM, method: str, steps: Sequence[TokenStep], rule: ScoreRule) -> Answer:
    """The tokens so far as an Answer."""
    text = lm.text([s.token for s in steps if s.token not in lm.end_tokens])
    return make_answer(method, text, steps, lm.end_tokens, rule)
