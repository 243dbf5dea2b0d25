"""Rows of logits and chosen tokens from another program → answers of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from macd_studio.core.decoding.steps import make_answer, make_token_step, score_token
from macd_studio.core.errors import NumericalError, OptionError
from macd_studio.core.options import ContrastOptions, RunOptions
from macd_studio.core.recording.arrays import describe_shape, read_array, read_mapping, require
from macd_studio.core.recording.pictures import ShownRecord, read_shown
from macd_studio.core.records import TEXT
from macd_studio.core.rules import ScoreRule, Setting, find_rule
from macd_studio.core.traces.schema import ANSWER, VIEW
from macd_studio.core.types import Answer, Pixels, ShownView
from macd_studio.core.validation import Number, Part
from macd_studio.core.view_records import MaskedView, NoView, OtherView, View, view_from
from macd_studio.core.words import count

TokenText = Callable[[int], str] | Mapping[int, str]
"""Token id → its text, such as `lambda i: tokenizer.decode([i])`, or a mapping."""
MAX_LOGIT, MAX_STEPS, MAX_ANSWERS = 1e6, 8192, 100
"""What a trace file can hold."""
CLOSE = 1e-3
"""A score this close to the best one may have been the best in another arithmetic."""
SPOKEN_RULES = ("olm", "yes-bias")
"""Rules that look words up in the model's vocabulary, which is not known here."""

_Step = tuple[int, NDArray[np.float32], list[NDArray[np.float32]]]
"""A token, the logits of the video, and those of every second view."""


class StepRecord(TypedDict):
    """A token. base: (V,) logits of the video; counter: (V,) those of the second view.

    further: (V,) each, of the second views after the first.
    """

    token: int
    base: ArrayLike
    counter: NotRequired[ArrayLike | None]
    further: NotRequired[Sequence[ArrayLike]]


class AnswerRecord(TypedDict):
    """An answer by its name. rule: of core.rules; "linear" by default, "plain" with one view.

    steps: its S tokens one by one. Or tokens: their ids (S,), with rows of logits: base (S, V) of
    the video, counter (S, V) of the second view, further (S, V) each of those after it.
    alpha, beta, head: of the linear rule, by default those of the options. text: where it is more
    than the tokens' texts together. view: what the second view was, as `core.views.records` writes
    it, such as `{"kind": "blank"}`; by default the video behind the masks if levels are given.
    shown: what the second view showed in place of the frames, (T, H, W, 3) uint8 of their shape,
    or the mask it hid them behind, `{"mask": (T, H, W), "fill": (3,)}`. further_shown: the same,
    or None, for each second view after the first.
    """

    name: str
    steps: NotRequired[Sequence[StepRecord]]
    tokens: NotRequired[ArrayLike]
    base: NotRequired[ArrayLike | Sequence[ArrayLike]]
    counter: NotRequired[ArrayLike | Sequence[ArrayLike] | None]
    further: NotRequired[Sequence[ArrayLike | Sequence[ArrayLike]]]
    rule: NotRequired[str]
    alpha: NotRequired[float]
    beta: NotRequired[float]
    head: NotRequired[str]
    text: NotRequired[str]
    view: NotRequired[View | Mapping[str, Any]]
    shown: NotRequired[ShownRecord | None]
    further_shown: NotRequired[Sequence[ShownRecord | None]]


_WANTED = {0: "Leave counter out", 1: "Give counter alone at every token"}


def steps_of_rows(fields: Mapping[str, Any], path: str) -> list[StepRecord]:
    """The tokens of an answer that is handed over as rows of logits."""
    if "steps" in fields:
        raise OptionError(f"{path} has both steps and tokens", "Give one of them")
    tokens = read_array(fields["tokens"], f"{path}.tokens")
    if tokens.ndim != 1:
        raise OptionError(f"{path}.tokens is {describe_shape(tokens)}", "Give the shape (S,)")
    columns = {"base": require(fields, path, "base")}
    if fields.get("counter") is not None:
        columns["counter"] = fields["counter"]
    thirds = _further(fields, path)
    named = [*columns.items(), *((f"further[{k}]", rows) for k, rows in enumerate(thirds))]
    for name, rows in named:
        if not hasattr(rows, "__len__") or len(rows) != len(tokens):
            length = len(rows) if hasattr(rows, "__len__") else "no"
            raise OptionError(
                f"{path}.{name} has {length} rows for {count(len(tokens), 'token')}",
                "Give one row of logits a token, those it was chosen from",
            )
    steps: list[Any] = [{"token": t} for t in tokens.tolist()]
    for j, step in enumerate(steps):
        step |= {name: rows[j] for name, rows in columns.items()}
        step |= {"further": [rows[j] for rows in thirds]} if thirds else {}
    return steps


def _further(fields: Mapping[str, Any], path: str) -> list[Any]:
    """What is fields of the second views after the first."""
    thirds = fields.get("further", ())
    if not isinstance(thirds, Sequence) and not getattr(thirds, "ndim", 0):
        raise OptionError(f"{path}.further is no list", "Give one entry a view after the second")
    if len(thirds) and fields.get("counter") is None:
        raise OptionError(f"{path} has further views without a second one", "Give counter too")
    return list(thirds)


class AnswerReader:
    """Reads the answers of one trace, which share their vocabulary.

    masked: the second view where an answer does not give its own, None if there are no masks.
    frames: (T, H, W, 3), what the pictures of second views must have the shape of.
    """

    def __init__(
        self,
        question: str,
        options: RunOptions,
        token_text: TokenText,
        end_tokens: frozenset[int],
        masked: MaskedView | None,
        frames: Pixels,
    ) -> None:
        self.question, self.options, self.end_tokens = question, options, end_tokens
        self.token_text, self.masked, self.frames = token_text, masked, frames
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
        rows = steps_of_rows(fields, path) if "tokens" in fields else require(fields, path, "steps")
        if not isinstance(rows, Sequence) or not 0 < len(rows) <= MAX_STEPS:
            raise OptionError(
                f"{path}.steps is not a list of tokens, or is empty", f"Give 1 to {MAX_STEPS}"
            )
        read = [self._step(step, f"{path}.steps[{j}]") for j, step in enumerate(rows)]
        views = {len(others) for _, _, others in read}
        if len(views) > 1:
            raise OptionError(
                f"{path} has a second view at some tokens only", "Give counter at all or at none"
            )
        seconds = views.pop()
        rule = self._rule(fields, path, seconds)
        steps = []
        strays = []
        for j, (token, base, others) in enumerate(read):
            weights, scores = score_token(rule, base, others, j)
            if not scores[token] >= scores.max() - CLOSE:
                strays.append(j)
            steps.append(
                make_token_step(
                    self._text, j, token, base, others, weights, rule, self.options.decode.keep
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
        unknown = OtherView("recorded", "a second view that was not described")
        pictures = self._shown(fields, path, seconds)
        return replace(
            made,
            view=self._view(fields.get("view"), path, seconds > 0),
            shown=pictures[0],
            further=tuple(ShownView(unknown, shown) for shown in pictures[1:]),
        )

    def _shown(self, fields: Mapping[str, Any], path: str, seconds: int) -> list[Pixels | None]:
        """The pictures of every second view, None where none were handed over; at least one."""
        further = fields.get("further_shown", [None] * (seconds - 1))
        if not isinstance(further, Sequence) or len(further) != max(0, seconds - 1):
            raise OptionError(
                f"{path}.further_shown is not a list of"
                f" {count(max(0, seconds - 1), 'second view')} after the first",
                "Give pictures or None for each entry of further",
            )
        shown = fields.get("shown")
        if shown is not None and not seconds:
            raise OptionError(
                f"{path} has pictures of a second view but logits of one view only",
                "Leave shown out",
            )
        named = [("shown", shown), *((f"further_shown[{k}]", z) for k, z in enumerate(further))]
        return [
            None if value is None else read_shown(value, f"{path}.{name}", self.frames)
            for name, value in named
        ]

    def _rule(self, fields: Mapping[str, Any], path: str, seconds: int) -> ScoreRule:
        name = fields.get("rule", "linear" if seconds else "plain")
        if name in SPOKEN_RULES:
            raise OptionError(
                f"{path}.rule is {name!r}, which needs the model's vocabulary",
                "Record it as another rule, or without one",
            )
        kind = find_rule(name)
        if kind.second_views != seconds:
            have = ("no second view", "a second view")[seconds] if seconds < 2 else seconds
            raise OptionError(
                f"{path} has {have}{' second views' * (seconds > 1)}, which the rule {name!r} does"
                " not fit",
                _WANTED.get(kind.second_views, "Give counter and further at every token")
                + ", or another rule",
            )
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
        others = []
        if fields.get("counter") is not None:
            others.append(self._logits(fields["counter"], f"{path}.counter"))
        for k, row in enumerate(_further(fields, path)):
            others.append(self._logits(row, f"{path}.further[{k}]"))
        token = Number(0, self.vocabulary - 1, whole=True).read(
            require(fields, path, "token"), f"{path}.token"
        )
        assert isinstance(token, int)
        return token, base, others

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
