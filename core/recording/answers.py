"""Rows of logits and chosen tokens from another program → answers of a trace.

Arrays, mappings and pictures are checked where they come in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from macd_studio.core.decoding.steps import make_answer, make_token_step
from macd_studio.core.description import MAX_FRAMES, TEXT
from macd_studio.core.errors import NumericalError, OptionError
from macd_studio.core.media.webp import PICTURE_PIXELS
from macd_studio.core.options import ContrastOptions, RunOptions
from macd_studio.core.rules import ScoreRule, Setting, find_rule, score_token
from macd_studio.core.text.words import count
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.traces.format import ALL_PIXELS, MODEL_PIXELS, SOURCE_PIXELS
from macd_studio.core.types import Answer, ModelFrames, Pixels, ShownView
from macd_studio.core.validation import Number, Part, rules_of, shown
from macd_studio.core.view_records import AnyView, MaskedView, OtherView, View, view_rules

_RULES = rules_of(Answer)
TokenText = Callable[[int], str] | Mapping[int, str]
"""Token id → its text, such as `lambda i: tokenizer.decode([i])`, or a mapping."""
MAX_LOGIT, MAX_STEPS, MAX_ANSWERS = 1e6, 8192, 100
"""What a trace file can hold."""
CLOSE = 1e-3
"""A score this close to the best one may have been the best in another arithmetic."""

_Step = tuple[int, NDArray[np.float32], list[NDArray[np.float32]]]
"""A token, the logits of the video, and those of every second view."""


def read_array(
    value: Any, path: str, *, lost: bool = False, finite: bool = True
) -> NDArray[np.float64]:
    """float64; finite, except what is `lost`, which may be NaN."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"{path} is not an array of numbers ({type(error).__name__})",
            "Give an array; of a tensor, tensor.detach().float().cpu().numpy()",
        ) from None
    if finite and not (np.isfinite(array) | (lost & np.isnan(array))).all():
        raise OptionError(f"{path} holds a value that is not finite", "Give finite numbers")
    return array


def describe_shape(array: NDArray[Any]) -> str:
    """For a message."""
    return f"an array {array.shape}" if array.ndim else "one number"


def read_shares(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,) in [0, 1]."""
    array = read_vector(value, path, length)
    if (array != array.clip(0, 1)).any():
        raise OptionError(f"{path} holds a value outside 0 to 1", "Give shares from 0 to 1")
    return array


def read_vector(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,), finite."""
    array = read_array(value, path)
    if array.shape != (length,):
        raise OptionError(
            f"{path} is {describe_shape(array)}", f"Give an array of the shape ({length},)"
        )
    return array


def read_mapping(value: Any, path: str, known: Collection[str]) -> dict[str, Any]:
    """A dict with known keys only; NumPy's numbers, and tensors of one, as Python has them."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{path} is {shown(value)}", f"Give a mapping of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise OptionError(f"{path} holds {shown(key)}", f"Give of {', '.join(known)}")
    return {key: _plain(one) for key, one in value.items()}


def require(fields: Mapping[str, Any], path: str, key: str) -> Any:
    """The value under a key that must be there."""
    if key not in fields:
        raise OptionError(f"{path}.{key} is missing", "Give it")
    return fields[key]


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


class MaskRecord(TypedDict):
    """What hides the frames. mask: M (T, H, W) in [0, 1], 1 where nothing of the frame is left.

    fill: what lies behind it, RGB from 0 to 255: one colour (3,), or pictures (T, H, W, 3).
    """

    mask: ArrayLike
    fill: ArrayLike


ShownRecord = ArrayLike | MaskRecord
"""Frames of a second view: (T, H, W, 3) uint8, of the shape of the source frames, or their mask."""


def read_frames(value: ArrayLike) -> Pixels:
    """The source frames (T, H, W, 3), uint8. Raises OptionError."""
    pixels = _array(value, "frames")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] != 3 or not pixels.size:
        raise OptionError(
            f"frames are {pixels.dtype} {pixels.shape}",
            "Give RGB pictures as uint8 from 0 to 255, shaped (T, H, W, 3)",
        )
    if len(pixels) > MAX_FRAMES:
        raise OptionError(f"there are {len(pixels)} frames", f"Give at most {MAX_FRAMES}")
    return pixels


def read_shown(value: ShownRecord, path: str, frames: Pixels) -> Pixels:
    """What a second view showed in place of the frames, of their shape. Raises OptionError."""
    if isinstance(value, Mapping):
        return _behind_mask(value, path, frames)
    pixels = _array(value, path)
    if pixels.dtype != np.uint8 or pixels.shape != frames.shape:
        raise OptionError(
            f"{path} is {pixels.dtype} {pixels.shape}",
            f"Give RGB pictures as uint8 from 0 to 255, of the frames' shape {frames.shape},"
            ' or {"mask": M, "fill": colour}',
        )
    return pixels


def _behind_mask(value: Mapping[str, Any], path: str, frames: Pixels) -> Pixels:
    """V_d = (1 − M)·V + M·fill, rounded to 8 bits; docs/methods.md, step 6."""
    fields = read_mapping(value, path, MaskRecord.__annotations__)
    mask = read_array(require(fields, path, "mask"), f"{path}.mask")
    if mask.shape != frames.shape[:3]:
        raise OptionError(
            f"{path}.mask is {describe_shape(mask)}", f"Give the shape {frames.shape[:3]}"
        )
    fill = read_array(require(fields, path, "fill"), f"{path}.fill")
    if fill.shape not in ((3,), frames.shape):
        raise OptionError(
            f"{path}.fill is {describe_shape(fill)}",
            f"Give one colour (3,), or pictures of the shape {frames.shape}",
        )
    for name, array, top in (("mask", mask, 1), ("fill", fill, 255)):
        if array.min() < 0 or array.max() > top:
            raise OptionError(f"{path}.{name} holds a value outside 0 to {top}", "Scale it")
    cover = mask[..., None]
    return np.asarray(((1 - cover) * frames + cover * fill).round(), np.uint8)


def frames_as_read(
    frames: Pixels, seconds: np.ndarray[Any, np.dtype[np.float64]], answers: Sequence[Answer]
) -> ModelFrames | None:
    """The frames as what the model read, beside which a file stores the second views' pictures.

    None where no second view has pictures. Raises OptionError for more than a file can hold.
    """
    views = [second.shown for a in answers for second in a.second_views]
    pictures = sum(view is not None for view in views)
    if not pictures:
        return None
    count, height, width, _ = frames.shape
    clip = count * height * width
    whole = min(clip, SOURCE_PIXELS) + (1 + pictures) * clip
    if height * width > PICTURE_PIXELS or clip > MODEL_PIXELS or whole > ALL_PIXELS:
        raise OptionError(
            f"{count} frames of {width} × {height} pixels with second views of {pictures} answers"
            " are more than a trace can hold",
            "Give smaller frames, or leave shown out of some answers",
        )
    return ModelFrames(frames, seconds, float(seconds[-1]), (0, 0, width, height))


def _array(value: Any, path: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"{path} is not an array ({type(error).__name__})",
            "Give an array; of a tensor, tensor.cpu().numpy()",
        ) from None


class StepRecord(TypedDict):
    """A token. base: (V,) logits of the video; others: (V,) those of each second view."""

    token: int
    base: ArrayLike
    others: NotRequired[Sequence[ArrayLike]]


class SecondViewRecord(TypedDict, total=False):
    """A second view, of which any may be missing.

    view: what it was, as `core.view_records` writes it, such as `{"kind": "blank"}`. shown: what
    it showed in place of the frames, (T, H, W, 3) uint8 of their shape, or the mask it hid them
    behind, `{"mask": (T, H, W), "fill": (3,)}`.
    """

    view: View | Mapping[str, Any]
    shown: ShownRecord | None


class AnswerRecord(TypedDict):
    """An answer by its name."""

    name: str
    steps: NotRequired[Sequence[StepRecord]]
    """Its S tokens one by one."""
    tokens: NotRequired[ArrayLike]
    """Instead of `steps`: ids (S,) of its S tokens, with `base` and `others`."""
    base: NotRequired[ArrayLike | Sequence[ArrayLike]]
    """(S, V) logits of the video."""
    others: NotRequired[Sequence[ArrayLike | Sequence[ArrayLike]]]
    """(S, V) logits of each second view."""
    rule: NotRequired[str]
    """A name of core.rules: "linear" by default, "plain" with one view."""
    alpha: NotRequired[float]
    beta: NotRequired[float]
    head: NotRequired[str]
    """`alpha`, `beta` and `head`: of the linear rule, by default those of the options."""
    text: NotRequired[str]
    """Its text, where that is more than the tokens' texts together."""
    second_views: NotRequired[Sequence[SecondViewRecord]]
    """What each second view was; by default the first is the video behind the masks if levels are
    given."""


def steps_of_rows(fields: Mapping[str, Any], path: str) -> list[StepRecord]:
    """The tokens of an answer that is handed over as rows of logits."""
    if "steps" in fields:
        raise OptionError(f"{path} has both steps and tokens", "Give one of them")
    tokens = read_array(fields["tokens"], f"{path}.tokens")
    if tokens.ndim != 1:
        raise OptionError(f"{path}.tokens is {describe_shape(tokens)}", "Give the shape (S,)")
    base, others = require(fields, path, "base"), _others(fields, path)
    for name, rows in [("base", base), *((f"others[{k}]", rows) for k, rows in enumerate(others))]:
        if not hasattr(rows, "__len__") or len(rows) != len(tokens):
            length = len(rows) if hasattr(rows, "__len__") else "no"
            raise OptionError(
                f"{path}.{name} has {length} rows for {count(len(tokens), 'token')}",
                "Give one row of logits a token, those it was chosen from",
            )
    return [
        {"token": token, "base": base[j], "others": [rows[j] for rows in others]}
        for j, token in enumerate(tokens.tolist())
    ]


def _others(fields: Mapping[str, Any], path: str) -> list[Any]:
    """The logits of every second view."""
    others = fields.get("others", ())
    if not isinstance(others, Sequence) and not getattr(others, "ndim", 0):
        raise OptionError(f"{path}.others is no list", "Give one entry a second view")
    return list(others)


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
        name = _RULES["method"].read(require(fields, path, "name"), f"{path}.name")
        rows = steps_of_rows(fields, path) if "tokens" in fields else require(fields, path, "steps")
        if not isinstance(rows, Sequence) or not 0 < len(rows) <= MAX_STEPS:
            raise OptionError(
                f"{path}.steps is not a list of tokens, or is empty", f"Give 1 to {MAX_STEPS}"
            )
        read = [self._step(step, f"{path}.steps[{j}]") for j, step in enumerate(rows)]
        views = {len(others) for _, _, others in read}
        if len(views) > 1:
            raise OptionError(
                f"{path} has not as many second views at every token", "Give others at every token"
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
                    self._text,
                    j,
                    token,
                    NextTokenLogits(base),
                    [NextTokenLogits(z) for z in others],
                    weights,
                    rule,
                    self.options.decode.keep,
                )
            )
        if strays:
            self.warnings.append(
                f"{name}: {count(len(strays), 'token')} not as the rule {rule.name} chooses,"
                f" the first at token {strays[0] + 1}"
            )
        words = "".join(s.text for s in steps if s.token not in self.end_tokens)
        text = _RULES["text"].read(fields.get("text", words), f"{path}.text")
        made = make_answer(name, text, steps, self.end_tokens, rule)
        described = fields.get("second_views", [{}] * seconds)
        if not isinstance(described, Sequence) or len(described) != seconds:
            raise OptionError(
                f"{path}.second_views is not a list of {count(seconds, 'second view')}",
                "Describe each of others, or leave second_views out",
            )
        shown = (
            self._second_view(row, f"{path}.second_views[{k}]", k)
            for k, row in enumerate(described)
        )
        return replace(made, second_views=tuple(shown))

    def _second_view(self, row: SecondViewRecord, path: str, index: int) -> ShownView:
        fields = read_mapping(row, path, SecondViewRecord.__annotations__)
        view: Any = fields.get("view")
        if view is None:
            masked = self.masked if index == 0 else None
            view = masked or OtherView("recorded", "a second view that was not described")
        elif not isinstance(view, View):
            known = read_mapping(view, f"{path}.view", {"kind", *view_rules()})
            view = AnyView().read({"kind": ""} | known, f"{path}.view")
        shown = fields.get("shown")
        if shown is not None:
            shown = read_shown(shown, f"{path}.shown", self.frames)
        return ShownView(view, shown)

    def _rule(self, fields: Mapping[str, Any], path: str, seconds: int) -> ScoreRule:
        name = fields.get("rule", "linear" if seconds else "plain")
        kind = find_rule(name)
        if kind.reads_words:
            raise OptionError(
                f"{path}.rule is {name!r}, which needs the model's vocabulary",
                "Record it as another rule, or without one",
            )
        if not kind.takes(seconds):
            have = ("no second view", "a second view")[seconds] if seconds < 2 else seconds
            raise OptionError(
                f"{path} has {have}{' second views' * (seconds > 1)}, which the rule {name!r} does"
                " not fit",
                f"Give others of {kind.views_taken()}, or another rule",
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
        others = [
            self._logits(row, f"{path}.others[{k}]") for k, row in enumerate(_others(fields, path))
        ]
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
