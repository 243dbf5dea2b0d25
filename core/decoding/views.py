"""Views that are decoded together, whoever holds the model: what `core.decoding.loop` sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import check_finite
from macd_studio.core.decoding.steps import make_token_step
from macd_studio.core.errors import NotApplicable
from macd_studio.core.macd import Float64Array
from macd_studio.core.options import DecodeOptions
from macd_studio.core.repeats import Repeats, penalised, repeats_of
from macd_studio.core.rules import ScoreRule, score_token
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import StepWeights, TokenStep

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import Handle, Reader


DEFAULTS = DecodeOptions()


@dataclass(frozen=True)
class ViewsNeeded:
    """A token came that the second views can change, and they are not there: `open` takes them."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One hypothesis at one token: what each view says, and the scores that the rule gives.

    base, others: over the same tokens. scores: (C,), after the repetition penalty unless it was
    left to the search; repeats: what it lowers.
    """

    base: NextTokenLogits
    others: tuple[NextTokenLogits, ...]
    weights: StepWeights
    scores: Float64Array
    repeats: Repeats | None

    def choose(self, place: int, sampled: bool = False) -> int:
        """The token at a place of `scores`.

        Raises NotApplicable where a token that the reader did not tell of could be chosen instead:
        the rows must reach below the cut, or hold the best of the video where it stands alone.
        """
        cut = self.base.floor < self.weights.floor or self.base.floor == -np.inf
        alone = not (self.others or self.weights.bias or self.repeats or sampled)
        if not (cut or alone):
            raise NotApplicable(
                f"the reader tells of {len(self.scores)} tokens, and the cut lets more through",
                "Choose a larger β, or a reader that gives every token's logit",
            )
        return self.base.token(place)


def adjust_logits(
    row: NextTokenLogits, index: int, tokens: Sequence[int], lm: Reader, options: DecodeOptions
) -> NextTokenLogits:
    """A row of a view as it is scored and recorded; every row that chooses a token passes here.

    An option that forbids tokens or moves their logits belongs here: head, choice, search, trace,
    controls and what is scored again from the trace follow. index: of the token, from 0. tokens:
    those that the hypothesis was fed, its thought included. Raises NumericalError at a logit that
    is not finite, naming the token.
    """
    check_finite(row.values, f"token {index + 1}")
    return row


def score_views(
    rule: ScoreRule,
    base: NextTokenLogits,
    others: Sequence[NextTokenLogits],
    index: int,
    repeats: Repeats | None,
    penalise: bool = True,
) -> Scored:
    """One hypothesis scored; others: over the tokens of `base`. See `core.rules.score_token`."""
    values, lowered = [z.values for z in others], repeats if penalise else None
    weights, scores = score_token(rule, base.values, values, index, lowered, base.ids)
    return Scored(base, tuple(others), weights, scores, repeats)


class DecodedViews(ABC):
    """n hypotheses under the video and its second views, kept in step.

    lm: gives the tokens' texts. rows: n. options: of the search. lazy: whether second views are
    read only at tokens that they can change.
    """

    lm: Reader
    rows: int
    options: DecodeOptions
    lazy: bool = False

    @abstractmethod
    def _video_rows(self, rule: ScoreRule | None) -> list[NextTokenLogits]:
        """What follows in the video of each hypothesis, as far as the rule needs it."""

    @abstractmethod
    def _second_rows(
        self, own: Sequence[NextTokenLogits]
    ) -> list[Sequence[NextTokenLogits]] | None:
        """n rows of each second view, over the tokens of the video's; see `next_logits`."""

    def next_logits(self, index: int, rule: ScoreRule) -> list[Sequence[NextTokenLogits]] | None:
        """n rows of the video, then of each second view that the rule needs.

        index: of the token, from 0. None where second views are needed and wait to be handed over.
        Raises NumericalError at a logit that is not finite, naming the token.
        """
        own = self._adjusted(self._video_rows(rule), index)
        if self.lazy and all(_is_decided(rule, row) for row in own):
            return [own]
        others = self._second_rows(own)
        if others is None:
            return None
        return [own, *(self._adjusted(rows, index) for rows in others)]

    def video_logits(self) -> NextTokenLogits:
        """What follows in the video of the first hypothesis, whatever the second views say."""
        return self._adjusted(self._video_rows(None), 0)[0]

    def _adjusted(self, rows: Sequence[NextTokenLogits], index: int) -> list[NextTokenLogits]:
        """A row of each hypothesis as it is scored and recorded."""
        return [
            adjust_logits(row, index, self.fed(n), self.lm, self.options)
            for n, row in enumerate(rows)
        ]

    def likeliest(self) -> int:
        """The best token of `video_logits`, after the repetition penalty."""
        row = self.video_logits()
        return row.token(int(penalised(row.values, self.repeats(row)).argmax()))

    @abstractmethod
    def open(self, views: Sequence[Handle]) -> None:
        """Hands over second views that were waited for, prefilled; they are left as they are."""

    @property
    @abstractmethod
    def prompt(self) -> Sequence[int]:
        """The tokens of the video's prompt."""

    @abstractmethod
    def fed(self, row: int) -> Sequence[int]:
        """The tokens of a hypothesis so far."""

    @abstractmethod
    def step(self, tokens: Sequence[int]) -> None:
        """Feeds each hypothesis its token, the same under every view."""

    @abstractmethod
    def crop(self, kept: int) -> None:
        """Forgets every decoded token but the first `kept`; `step` must follow."""

    @abstractmethod
    def select(self, rows: Sequence[int]) -> None:
        """Keeps the given hypotheses, in that order."""

    def attention(self, layers: tuple[int, ...]) -> list[NDArray[np.float32]]:
        """(n, N) of the video and each second view: how the last token that was fed, or else the
        prompt's last, attends to each vision token; mean over heads, sum over the layers.

        Raises NotApplicable where no layer can be watched.
        """
        raise NotApplicable("the layers cannot be watched", "Choose another rule")

    def hidden(self, row: int = 0) -> NDArray[np.bool_] | None:
        """(N,) vision tokens that the first second view does not see; None if it sees all."""
        return None

    def repeats(self, base: NextTokenLogits, row: int = 0) -> Repeats | None:
        """What the model's repetition penalty lowers of a row: its prompt's and answer's tokens."""
        penalty = self.lm.info.repetition_penalty
        return repeats_of(penalty, base, [*self.prompt, *self.fed(row)])

    def scored(self, index: int, rule: ScoreRule, penalise: bool = True) -> list[Scored] | None:
        """Every hypothesis at its next token; None where second views are waited for.

        penalise: whether the scores have the model's repetition penalty, see `score_token`.
        """
        rows = self.next_logits(index, rule)
        if rows is None:
            return None
        made, attention = [], self.attention(rule.reads_layers) if rule.reads_layers else None
        for n, (own, *second) in enumerate(zip(*rows, strict=True)):
            each = rule if attention is None else rule.attending([view[n] for view in attention])
            made.append(score_views(each, own, second, index, self.repeats(own, n), penalise))
        return made

    def wait_for_scores(
        self, index: int, rule: ScoreRule, penalise: bool = True
    ) -> Generator[ViewsNeeded, None, list[Scored]]:
        """`scored`, once the second views that it needs are there; asks for them."""
        while (found := self.scored(index, rule, penalise)) is None:
            yield ViewsNeeded()
        return found

    def record(
        self, scored: Scored, index: int, token: int, rule: ScoreRule, keep: int, row: int = 0
    ) -> TokenStep:
        """The record of a choice at `index`; see `make_token_step`."""
        step = make_token_step(
            self.lm.token_text, index, token, scored.base, scored.others, scored.weights, rule,
            keep, scored.repeats,
        )  # fmt: skip
        return replace(step, hidden=self.hidden(row) if scored.others else None)


def _is_decided(rule: ScoreRule, row: NextTokenLogits) -> bool:
    """Whether the video alone decides; not where tokens that are left out may pass the cut."""
    reaches = row.floor == -np.inf or row.floor < rule.floor(row.values)
    return reaches and rule.decides(row.values)
