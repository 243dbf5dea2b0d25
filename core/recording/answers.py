"""Rows of logits and chosen tokens from another program → answers of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.decoding.steps import make_answer, make_token_step, score_token
from core.errors import NumericalError, OptionError
from core.options import ContrastOptions, RunOptions
from core.recording.arrays import describe_shape, read_array, read_mapping, require
from core.records import TEXT
from core.rules import ScoreRule, Setting, find_rule
from core.traces.schema import ANSWER, VIEW
from core.types import Answer
from core.validation import Number, Part
from core.views.records import MaskedView, NoView, OtherView, View, view_from
from core.words import count

TokenText = Callable[[int], str] | Mapping[int, str]
"""Token id → its text, such as `lambda i: tokenizer.decode([i])`, or a mapping."""
MAX_LOGIT, MAX_STEPS, MAX_ANSWERS = 1e6, 8192, 100
"""What a trace file can hold."""
CLOSE = 1e-3
"""A score this close to the best one may have been the best in another arithmetic."""
SPOKEN_RULES = ("olm", "yes-bias")
"""Rules that look words up in the model's vocabulary, which is not known here."""

_Step = tuple[int, NDArray[np.float32], NDArray[np.float32] | None]


class StepRecord(TypedDict):
    """A token. base: (V,) logits of the video; counter: (V,) those of the second view."""

    token: int
    base: ArrayLike
    counter: NotRequired[ArrayLike | None]


class AnswerRecord(TypedDict):
    """An answer by its name. rule: of core.rules; "linear" by default, "plain" with one view.

    alpha, beta, head: of the linear rule, by default those of the options. text: where it is more
    than the tokens' texts together. view: what the second view was, as `core.views.records` writes
    it, such as `{"kind": "blank"}`; by default the video behind the masks if levels are given.
    """

    name: str
    steps: Sequence[StepRecord]
    rule: NotRequired[str]
    alpha: NotRequired[float]
    beta: NotRequired[float]
    head: NotRequired[str]
    text: NotRequired[str]
    view: NotRequired[View | Mapping[str, Any]]


class AnswerReader:
    """Reads the answers of one trace, which share their vocabulary.

    masked: the second view where an answer does not give its own, None if there are no masks.
    """

    def __init__(
        self,
        question: str,
        options: RunOptions,
        token_text: TokenText,
        end_tokens: frozenset[int],
        masked: MaskedView | None,
    ) -> None:
        self.question, self.options, self.end_tokens = question, options, end_tokens
        self.token_text, self.masked = token_text, masked
        self.vocabulary = 0
        self.texts: dict[int, str] = {}
        self.warnings: list[str] = []

    def read(self, answers: Sequence[AnswerRecord]) -> dict[str, Answer]:
        """The answers by name."""
        if not isinstance(answers, Sequence) or not 0 < len(answers) <= MAX_ANSWERS:
            raise OptionError(
                "answers is not a list of answers, or is empty", f"Give 1 to {MAX_ANSWERS}"
            )
        made: dict[str, Answer] = {}
        for i, row in enumerate(answers):
            answer = self._answer(row, f"answers[{i}]")
            if answer.method in made:
                raise OptionError(
                    f"answers[{i}].name is that of an earlier answer", "Give each its own name"
                )
            made[answer.method] = answer
        return made

    def _answer(self, row: AnswerRecord, path: str) -> Answer:
        fields = read_mapping(row, path, AnswerRecord.__annotations__)
        name = ANSWER.rules["method"].read(require(fields, path, "name"), f"{path}.name")
        rows = require(fields, path, "steps")
        if not isinstance(rows, Sequence) or not 0 < len(rows) <= MAX_STEPS:
            raise OptionError(
                f"{path}.steps is not a list of tokens, or is empty", f"Give 1 to {MAX_STEPS}"
            )
        read = [self._step(step, f"{path}.steps[{j}]") for j, step in enumerate(rows)]
        two = {counter is not None for _, _, counter in read}
        if len(two) > 1:
            raise OptionError(
                f"{path} has a second view at some tokens only", "Give counter at all or at none"
            )
        rule = self._rule(fields, path, two == {True})
        steps = []
        strays = []
        for j, (token, base, counter) in enumerate(read):
            weights, scores = score_token(rule, base, counter, j)
            if not scores[token] >= scores.max() - CLOSE:
                strays.append(j)
            steps.append(
                make_token_step(
                    self._text, j, token, base, counter, weights, rule, self.options.decode.keep
                )
            )
        if strays:
            self.warnings.append(
                f"{name}: {count(len(strays), 'token')} not as the rule {rule.name} chooses,"
                f" the first at token {strays[0] + 1}"
            )
        words = "".join(s.text for s in steps if s.token not in self.end_tokens)
        text = ANSWER.rules["text"].read(fields.get("text", words), f"{path}.text")
        made = make_answer(name, text, steps, self.end_tokens, rule)
        return replace(made, view=self._view(fields.get("view"), path, two == {True}))

    def _rule(self, fields: Mapping[str, Any], path: str, two: bool) -> ScoreRule:
        name = fields.get("rule", "linear" if two else "plain")
        if name in SPOKEN_RULES:
            raise OptionError(
                f"{path}.rule is {name!r}, which needs the model's vocabulary",
                "Record it as another rule, or without one",
            )
        kind = find_rule(name)
        if bool(kind.second_views) != two:
            raise OptionError(
                f"{path} has {'a' if two else 'no'} second view, which the rule {name!r} does not"
                " fit",
                "Give counter at every token, or another rule" if kind.second_views
                else "Leave counter out, or give another rule",
            )  # fmt: skip
        contrast = {n: fields[n] for n in ("alpha", "beta", "head") if n in fields}
        if contrast and name != "linear":
            raise OptionError(
                f"{path} has {', '.join(contrast)}, which the rule {name!r} does not take",
                "Leave it out; options of other rules are given as rules={...}",
            )
        chosen: ContrastOptions = Part(self.options.contrast).read(contrast, path)
        return kind.create(Setting(chosen, self.options.rules, None, self.question))

    def _step(self, row: StepRecord, path: str) -> _Step:
        fields = read_mapping(row, path, StepRecord.__annotations__)
        base = self._logits(require(fields, path, "base"), f"{path}.base")
        counter = fields.get("counter")
        if counter is not None:
            counter = self._logits(counter, f"{path}.counter")
        token = Number(0, self.vocabulary - 1, whole=True).read(
            require(fields, path, "token"), f"{path}.token"
        )
        assert isinstance(token, int)
        return token, base, counter

    def _logits(self, value: Any, path: str) -> NDArray[np.float32]:
        """(V,), the same V everywhere."""
        row = read_array(value, path, finite=False)
        if row.ndim != 1 or not row.size or row.size != (self.vocabulary or row.size):
            shape = f"({self.vocabulary},)" if self.vocabulary else "(V,)"
            raise OptionError(
                f"{path} is {describe_shape(row)}", f"Give one row of logits, of the shape {shape}"
            )
        if not (np.abs(row) <= MAX_LOGIT).all():  # also where it is NaN
            raise NumericalError(
                f"{path} holds logits that are not finite, or beyond {MAX_LOGIT:g}",
                "Give the logits before anything is masked out by infinity",
            )
        self.vocabulary = row.size
        return row.astype(np.float32)

    def _text(self, token: int) -> str:
        if token not in self.texts:
            try:
                text = (
                    self.token_text[token]
                    if isinstance(self.token_text, Mapping)
                    else self.token_text(token)
                )
            except LookupError:
                raise OptionError(f"token_text has no text of token {token}", "Add it") from None
            self.texts[token] = TEXT.read(text, f"token_text of {token}")
        return self.texts[token]

    def _view(self, value: Any, path: str, two: bool) -> View:
        if value is not None and not two:
            raise OptionError(
                f"{path} gives a second view but has logits of one only", "Leave view out"
            )
        if isinstance(value, View):
            return value
        if value is not None:
            checked = VIEW.read(read_mapping(value, f"{path}.view", VIEW.rules), f"{path}.view")
            return view_from({"kind": ""} | checked)
        if not two:
            return NoView()
        return self.masked or OtherView("recorded", "a second view that was not described")
