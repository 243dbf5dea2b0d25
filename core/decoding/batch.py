"""All views in one batch, kept in step: what the loop of `core.macd` decodes.

Beam search and self-consistency stand on the same `ViewBatch` in `core.decoding.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.base import DecodeState, VideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.decoding.contrast import check_finite, nucleus
from macd_studio.core.decoding.steps import LogitRows, make_answer, make_token_step
from macd_studio.core.macd import Float64Array, decode_views, score_token
from macd_studio.core.options import DecodeOptions
from macd_studio.core.records import Thought
from macd_studio.core.repeats import Repeats, penalised, repeats_of
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, StepWeights, TokenStep


class ViewBatch:
    """n hypotheses under the video and its second views, kept in step.

    Views share one batch and one cache with the video where their prompts are of one length; a view
    with a prompt of its own (fewer frames) has its own. The given states are left as they are.
    Logits of a joint batch agree with those of single passes to rounding (1e-5 in float32), not bit
    for bit.
    """

    def __init__(
        self, lm: VideoLM, base: DecodeState, others: Sequence[DecodeState], rows: int = 1
    ) -> None:
        self.lm, self.rows = lm, rows
        self._prompt = base.prompt_tokens
        self._fed: list[list[int]] = [[] for _ in range(rows)]
        self.states: list[DecodeState] = []
        self._join([base, *others])
        if rows > 1:
            self.states = [
                lm.select(s, [v for v in range(len(s.logits)) for _ in range(rows)])
                for s in self.states
            ]

    def _join(self, views: Sequence[DecodeState]) -> None:
        """Takes the states of the video and its second views, as many rows of each."""
        base = views[0]
        alike = [(v.length, v.prune) == (base.length, base.prune) for v in views]
        joint = [i for i, same in enumerate(alike) if same]
        apart = [i for i, same in enumerate(alike) if not same]
        join = self.lm.join
        self.states = [
            join([views[i] for i in joint]),
            *(join([views[i]]) for i in apart),
        ]
        self._blocks = [*joint, *apart]
        """Which view each block of rows of the states, one after the other, belongs to."""

    def logits(
        self, index: int, rule: ScoreRule | None = None, running: Sequence[int] | None = None
    ) -> list[LogitRows]:
        """(n, V) of the video, then of each second view. rule, running: see `LazyViewBatch`."""
        rows = np.concatenate([to_host(s.logits) for s in self.states])
        check_finite(rows, f"token {index + 1}")
        blocks = np.split(rows, len(self._blocks))
        return [blocks[self._blocks.index(view)] for view in range(len(blocks))]

    def hidden(self) -> NDArray[np.bool_] | None:
        """(N,) vision tokens that the first second view does not see; None if it sees all.

        Of the first hypothesis.
        """
        if len(self._blocks) < 2:
            return None
        first = self._blocks.index(1)
        for state in self.states:
            blocks = len(state.logits) // self.rows
            if first < blocks:
                hidden = state.hidden
                return None if hidden is None else to_host(hidden[first * self.rows])
            first -= blocks
        raise AssertionError("every view lies in one of the states")

    def repeats(self, row: int = 0) -> Repeats | None:
        """The tokens (V,) of a hypothesis so far, and of the video's prompt, which are penalised.

        None where the model has no repetition penalty.
        """
        penalty, vocabulary = self.lm.info.repetition_penalty, self.states[0].logits.shape[-1]
        return repeats_of(penalty, vocabulary, [*self._prompt, *self._fed[row]])

    def record(
        self,
        index: int,
        token: int,
        base: LogitRows,
        others: Sequence[LogitRows],
        weights: StepWeights,
        rule: ScoreRule,
        keep: int,
    ) -> TokenStep:
        """The record of the first hypothesis' choice at `index`; see `make_token_step`."""
        text = self.lm.token_text
        repeats = self.repeats()
        step = make_token_step(text, index, token, base, others, weights, rule, keep, repeats)
        return replace(step, hidden=self.hidden() if others else None)

    def step(self, tokens: Sequence[int]) -> None:
        """Feeds each hypothesis its token, the same under every view."""
        self._fed = [[*fed, token] for fed, token in zip(self._fed, tokens, strict=True)]
        self.states = [
            self.lm.step(s, list(tokens) * (len(s.logits) // self.rows)) for s in self.states
        ]

    def crop(self, kept: int) -> None:
        """Forgets every decoded token but the first `kept`; `step` must follow."""
        self.states = [self.lm.crop(s, s.prompt + kept) for s in self.states]
        self._fed = [fed[:kept] for fed in self._fed]

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the given hypotheses, in that order."""
        kept = []
        for s in self.states:
            offsets = range(0, len(s.logits), self.rows)
            kept.append(self.lm.select(s, [o + r for o in offsets for r in rows]))
        self.states, self.rows = kept, len(rows)
        self._fed = [self._fed[r] for r in rows]


PATIENCE = 6
"""How many decided tokens in a row a second view is still fed with the video, once it was needed.

A token under two views costs about a sixth more than under one, and catching up costs a pass.
"""


class LazyViewBatch(ViewBatch):
    """The same, where second views are read only at tokens that they can change.

    `logits` gives the video's rows alone where the rule decides every hypothesis by them, see
    `ScoreRule.decides`. Where it does not, the second views read all tokens since they were last
    needed in one pass and go on beside the video, until `PATIENCE` tokens were decided.

    build: gives the second views' prefilled states, called when the first is needed. Without it
    `logits` is empty there, and `open` must hand them over.
    """

    def __init__(
        self,
        lm: VideoLM,
        base: DecodeState,
        build: Callable[[], Sequence[DecodeState]] | None = None,
        rows: int = 1,
    ) -> None:
        super().__init__(lm, base, [], rows)
        self._build = build
        self._seconds: list[DecodeState] | None = None
        """The second views while they are apart from the video, and what of them is read."""
        self._rows_of: list[int] = []
        """Which of their rows each hypothesis goes on from."""
        self._shared = True
        """Whether their states are the caller's, which are left as they are."""
        self._read = 0
        self._quiet = 0
        self._needed = False

    @property
    def waits(self) -> bool:
        """Whether the second views were not handed over yet."""
        return self._seconds is None and len(self._blocks) == 1

    def open(self, states: Sequence[DecodeState]) -> None:
        """Hands the second views over, prefilled, one row each; they are left as they are."""
        self._seconds, self._rows_of, self._read = list(states), [0] * self.rows, 0
        self._shared = True

    def logits(
        self, index: int, rule: ScoreRule | None = None, running: Sequence[int] | None = None
    ) -> list[LogitRows]:
        """(n, V) of the video, and of each second view where a hypothesis needs it.

        running: the hypotheses that are not complete, all by default.
        """
        own = to_host(self.states[0].logits[: self.rows])
        check_finite(own, f"token {index + 1}")
        rows = range(self.rows) if running is None else running
        self._needed = rule is None or not all(rule.decides(own[r]) for r in rows)
        if not self._needed:
            return [own]
        if self.waits:
            if self._build is None:
                return []
            self.open(self._build())
        if self._seconds is not None:
            self._catch_up(self._seconds)
        return super().logits(index)

    def _catch_up(self, seconds: Sequence[DecodeState]) -> None:
        """All tokens since they were last needed, in one pass a view; then all go on together."""
        tokens = [fed[self._read :] for fed in self._fed]
        views = list(seconds)
        if self._rows_of != list(range(len(views[0].logits))) or (self._shared and tokens[0]):
            views = [self.lm.select(view, self._rows_of) for view in views]
        if tokens[0]:
            views = [self.lm.advance(view, tokens) for view in views]
        self._join([self.states[0], *views])
        self._seconds, self._quiet = None, 0

    def _part(self) -> None:
        """Sets the second views aside, as far as they have read."""
        views: list[DecodeState] = []
        for state in self.states:
            for first in range(0, len(state.logits), self.rows):
                views.append(self.lm.select(state, range(first, first + self.rows)))
        views = [views[self._blocks.index(view)] for view in range(len(views))]
        self.states, self._blocks = views[:1], [0]
        self._seconds, self._rows_of = views[1:], list(range(self.rows))
        self._shared, self._read = False, len(self._fed[0])

    def step(self, tokens: Sequence[int]) -> None:
        """Feeds each hypothesis its token; the second views only while they go on together."""
        if len(self._blocks) > 1:
            self._quiet = 0 if self._needed else self._quiet + 1
            if self._quiet >= PATIENCE:
                self._part()
        super().step(tokens)

    def crop(self, kept: int) -> None:
        """Forgets every decoded token but the first `kept`; `step` must follow."""
        super().crop(kept)
        if self._seconds is not None and kept < self._read:
            self._seconds = [self.lm.crop(s, s.prompt + kept) for s in self._seconds]
            self._read = kept

    def select(self, rows: Sequence[int]) -> None:
        """Keeps the given hypotheses, in that order."""
        super().select(rows)
        if self._seconds is not None:
            self._rows_of = [self._rows_of[r] for r in rows]


SecondStates = Sequence[DecodeState] | Callable[[], Sequence[DecodeState]]
"""The second views, prefilled; or a call that gives them, for a lazy batch."""


def batch_of(lm: VideoLM, base: DecodeState, others: SecondStates, rows: int = 1) -> ViewBatch:
    """The views in one batch, a lazy one where `others` is a call."""
    if callable(others):
        return LazyViewBatch(lm, base, others, rows)
    return ViewBatch(lm, base, others, rows)


def decode(
    lm: VideoLM,
    base: DecodeState,
    others: SecondStates,
    rule: ScoreRule,
    options: DecodeOptions,
) -> Iterator[TokenStep]:
    """Yields one TokenStep per token, the end token included; greedy, or sampled from its seed.

    base, others: prefilled states, left as they are. The linear rule with α = 0 gives the same
    tokens as plain decoding. Raises NumericalError at a logit that is not finite, naming the token.
    """
    yield from continue_decoding(batch_of(lm, base, others), rule, options)


def redecode(
    batch: ViewBatch, index: int, token: int, rule: ScoreRule, options: DecodeOptions
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
    batch: ViewBatch,
    rule: ScoreRule,
    options: DecodeOptions,
    first: int = 0,
    choose: Choose | None = None,
) -> Iterator[TokenStep]:
    """Decodes from where the batch stands, greedily or sampling; first: index of the next token.

    choose: that of tokens before it, whose random draws go on.
    """
    yield from decode_views(batch, rule, options, choose or chooser(options, first), first)


Choose = Callable[[Float64Array], int]
"""Scores (V,) → token."""


def chooser(options: DecodeOptions, first: int = 0) -> Choose:
    """The best token, or one drawn; every draw takes one number, also where one token is left."""
    rng = np.random.default_rng([options.seed, first])

    def sample(scores: Float64Array) -> int:
        p = nucleus(scores, options.temperature, options.top_p)
        return int(rng.choice(len(p), p=p))

    return sample if options.search == "sample" else lambda scores: int(scores.argmax())


BLANKS = 8
"""Blank tokens after a thought that are taken for a part of it, at most."""


def begins_thought(lm: VideoLM, prompt: Sequence[int], first: int) -> bool:
    """Whether an answer begins with a thought. prompt: ids; first: the likeliest first token.

    Some chat templates begin it themselves, at the end of the prompt.
    """
    if lm.thought_marks is None:
        return False
    opens, closes = lm.thought_marks
    marks = [token for token in prompt if token in (opens, closes)]
    return first == opens or marks[-1:] == [opens]


def think(
    batch: ViewBatch, rule: ScoreRule, options: DecodeOptions
) -> Generator[TokenStep, None, bool]:
    """The tokens of a thought, its closing mark and the blanks after it; at least one.

    For a batch whose answer begins with one, see `begins_thought`. Returns whether the model closed
    it itself; else it is closed after `options.max_thought` tokens, or where the answer would end.
    Nothing is yielded where a lazy batch waits for its second views.
    """
    lm, choose = batch.lm, chooser(options)
    assert lm.thought_marks is not None
    closing, written, closed, blanks, own = lm.thought_marks[1], 0, False, 0, True
    while blanks < BLANKS:
        rows = batch.logits(written, rule)
        if not rows:
            return own
        base, *others = (view[0] for view in rows)
        weights, scores = score_token(rule, base, others, written, batch.repeats())
        token = choose(scores)
        if closed:
            token = int(penalised(base, batch.repeats()).argmax())
            if lm.token_text(token).strip() or token in lm.end_tokens:
                return own
            blanks += 1
        elif token in lm.end_tokens or written + 1 >= options.max_thought:
            own, token = token == closing, closing
        closed = closed or token == closing
        yield batch.record(written, token, base, others, weights, rule, 1)
        written += 1
        batch.step([token] * batch.rows)
    return own


def thought_of(lm: VideoLM, tokens: Sequence[int], closed: bool) -> Thought:
    """The record of a thought."""
    inside = [token for token in tokens if token not in (lm.thought_marks or ())]
    return Thought(lm.text(inside), tuple(tokens), closed)


def answer(lm: VideoLM, method: str, steps: Sequence[TokenStep], rule: ScoreRule) -> Answer:
    """The tokens so far as an Answer."""
    text = lm.text([s.token for s in steps if s.token not in lm.end_tokens])
    return make_answer(method, text, steps, lm.end_tokens, rule)
