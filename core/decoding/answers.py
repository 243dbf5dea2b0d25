"""Views → an answer as it grows: by the search that the options name, its thought before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

import numpy as np

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.decoding.batch import SecondViews, ViewBatch, open_views
from macd_studio.core.decoding.loop import Decoded, decode_views
from macd_studio.core.decoding.search import beam, sampled, vote
from macd_studio.core.decoding.steps import answer
from macd_studio.core.decoding.views import DecodedViews, Scored, ViewsNeeded
from macd_studio.core.options import DecodeOptions
from macd_studio.core.records import Thought
from macd_studio.core.repeats import penalised
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, TokenStep

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class AnswerSoFar:
    """An answer as far as it is. finished: whether nothing follows."""

    answer: Answer
    finished: bool


def answer_events(
    views: DecodedViews, method: str, rule: ScoreRule
) -> Iterator[AnswerSoFar | ViewsNeeded]:
    """The answer token by token, its thought before it; beam search and voting give it at once.

    views: of as many rows as `hypotheses` says. `ViewsNeeded` comes where `views.open` must be
    called before the next event is asked for. Raises NumericalError at a logit that is not finite,
    naming the token.
    """
    lm, options = views.lm, views.options
    if options.search in ("beam", "vote"):
        found: Answer
        if options.search == "vote":
            found = yield from vote(views, method, rule)
        else:
            found = answer(lm, method, (yield from beam(views, rule)), rule)
        yield AnswerSoFar(found, True)
        return
    thought: Thought | None = None
    if options.contrast_thought:
        thinking = Thinking(views)
        for item in thinking.steps(rule):
            if isinstance(item, TokenStep):
                yield AnswerSoFar(answer(lm, method, (), rule), False)
            else:
                yield item
        thought = thinking.record
    steps: list[TokenStep] = []
    for item in decode_from(views, rule):
        if isinstance(item, TokenStep):
            steps.append(item)
            grown = replace(answer(lm, method, steps, rule), thought=thought)
            yield AnswerSoFar(grown, False)
        else:
            yield item
    yield AnswerSoFar(replace(answer(lm, method, steps, rule), thought=thought), True)


def find_answer(
    lm: Reader,
    method: str,
    base: Handle,
    others: SecondViews,
    rule: ScoreRule,
    options: DecodeOptions,
) -> Answer:
    """A whole answer by the search that `options` names. Its thought is in the prompt already."""
    build = others if callable(others) else None
    options = replace(options, contrast_thought=False)
    second = None if callable(others) else others
    views = open_views(lm, base, second, options, hypotheses(options))
    for item in with_views(answer_events(views, method, rule), views, build):
        if item.finished:
            return item.answer
    raise AssertionError("the last event is the whole answer")


def with_views(
    items: Iterator[Item | ViewsNeeded],
    views: DecodedViews,
    build: Callable[[], Sequence[Handle]] | None,
) -> Iterator[Item]:
    """The items, with the second views handed over where they are needed. build: gives them."""
    for item in items:
        if isinstance(item, ViewsNeeded):
            assert build is not None
            views.open(build())
        else:
            yield item


def hypotheses(options: DecodeOptions) -> int:
    """How many a search begins with."""
    return options.samples if options.search == "vote" else 1


def decode(
    lm: Reader, base: Handle, others: Sequence[Handle], rule: ScoreRule, options: DecodeOptions
) -> Iterator[TokenStep]:
    """Yields one TokenStep per token, the end token included; greedy, or sampled from its seed.

    base, others: prefilled, left as they are. The linear rule with α = 0 gives the same tokens as
    plain decoding. Raises NumericalError at a logit that is not finite, naming the token.
    """
    views = open_views(lm, base, others, options)
    yield from with_views(decode_from(views, rule), views, None)


def redecode(views: DecodedViews, index: int, token: int, rule: ScoreRule) -> Iterator[TokenStep]:
    """Continues after replacing the token at `index` by another: what follows it, without it.

    views: as an earlier decoding left them, fed at least `index` tokens. Crops the cache instead of
    reading the prompt again.
    """
    if token in views.lm.end_tokens:
        return
    views.crop(index)
    views.step([token])
    yield from with_views(decode_from(views, rule, index + 1), views, None)


def decode_from(
    views: DecodedViews, rule: ScoreRule, first: int = 0
) -> Iterator[TokenStep | ViewsNeeded]:
    """Decodes from where the views stand, greedily or sampling; first: index of the next token."""
    options = views.options
    tokens, choose = range(first, options.max_tokens), chooser(options, first)
    return steps_of(decode_views(views, rule, choose, tokens, options.keep))


def steps_of(items: Iterator[Decoded | ViewsNeeded]) -> Iterator[TokenStep | ViewsNeeded]:
    """The steps of the only hypothesis that is decoded."""
    for item in items:
        yield item.step if isinstance(item, Decoded) else item


def answer_in_batch(
    lm: LocalLM,
    base: DecodeState,
    views: DecodeState,
    chosen: Sequence[int],
    rule: ScoreRule,
    options: DecodeOptions,
) -> list[str]:
    """The texts of greedy answers to several second views, each with the video alone beside it.

    chosen: rows of `views`, which are decoded in one batch. The states are left as they are. Raises
    NumericalError at a logit that is not finite.
    """
    if not chosen:
        return []
    rows = len(chosen)
    options = replace(options, search="greedy")
    batch = ViewBatch(lm, lm.select(base, [0] * rows), [lm.select(views, chosen)], rows, options)
    steps: list[list[TokenStep]] = [[] for _ in chosen]
    items = decode_views(batch, rule, chooser(options), range(options.max_tokens), 1)
    for item in with_views(items, batch, None):
        steps[item.row].append(item.step)
    return [answer(lm, "subset", one, rule).text for one in steps]


Choose = Callable[[int, Scored], int]
"""The number of a hypothesis and the scores of its next token → the token."""


def chooser(options: DecodeOptions, first: int = 0) -> Choose:
    """The best token, or one drawn. first: index of the first token, for the draws of the seed."""
    rng = np.random.default_rng([options.seed, first])

    def sample(row: int, scored: Scored) -> int:
        return sampled(scored, options, rng)

    def best(row: int, scored: Scored) -> int:
        return scored.choose(int(scored.scores.argmax()))

    return sample if options.search == "sample" else best


MAX_BLANKS = 8
"""Blank tokens after a thought that are taken for a part of it, at most."""


class Thinking:
    """A thought as it is written: its tokens, its closing mark and the blanks after it.

    The model's answer must begin with one, see `begins`. closed: whether the model closed it
    itself; else it is closed after `max_thought` tokens, or where the answer would end.
    """

    def __init__(self, views: DecodedViews) -> None:
        self.views, self._choose = views, chooser(views.options)
        self.tokens: list[int] = []
        self.closed, self._ended, self._blanks = True, False, 0

    def steps(self, rule: ScoreRule) -> Iterator[TokenStep | ViewsNeeded]:
        """The loop over its tokens; none where the answer does not begin with a thought."""
        if not self.begins():
            return
        yield from steps_of(decode_views(self.views, rule, self._next, count(), 1))

    def begins(self) -> bool:
        """Whether the answer begins with a thought: by its likeliest token, or in the prompt.

        Some chat templates begin it themselves, at the end of the prompt.
        """
        marks = self.views.lm.thought_marks
        if marks is None:
            return False
        in_prompt = [token for token in self.views.prompt if token in marks]
        return in_prompt[-1:] == [marks[0]] or self.views.likeliest() == marks[0]

    def _next(self, row: int, scored: Scored) -> int | None:
        lm = self.views.lm
        assert lm.thought_marks is not None
        closing, token = lm.thought_marks[1], self._choose(row, scored)
        if self._ended:
            plain = penalised(scored.base.values, scored.repeats)
            token = scored.base.token(int(plain.argmax()))
            if lm.token_text(token).strip() or token in lm.end_tokens or self._blanks == MAX_BLANKS:
                return None
            self._blanks += 1
        elif token in lm.end_tokens or len(self.tokens) + 1 >= self.views.options.max_thought:
            self.closed, token = token == closing, closing
        self._ended = self._ended or token == closing
        self.tokens.append(token)
        return token

    @property
    def record(self) -> Thought | None:
        """As the trace keeps it; None where nothing was thought."""
        if not self.tokens:
            return None
        lm = self.views.lm
        inside = [token for token in self.tokens if token not in (lm.thought_marks or ())]
        return Thought(lm.text(inside), tuple(self.tokens), self.closed)
