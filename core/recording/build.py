"""The parts of a run of another program → its trace."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from macd_studio import __version__
from macd_studio.core.description import REAL, build
from macd_studio.core.errors import OptionError
from macd_studio.core.options import ContrastOptions, RunOptions, read_options
from macd_studio.core.recording.answers import (
    AnswerReader,
    AnswerRecord,
    TokenText,
    describe_shape,
    frames_as_read,
    read_array,
    read_frames,
    read_mapping,
    read_shares,
    read_vector,
    require,
)
from macd_studio.core.records import RECORDED, BackboneRecord, ClipRecord, DetectorRecord, RecordOf
from macd_studio.core.text.question import clean_question
from macd_studio.core.text.words import count
from macd_studio.core.types import (
    LOST,
    SEEN,
    Answer,
    AscentStep,
    Counterfactual,
    ModelFrames,
    TokenStep,
    Trace,
    Track,
)
from macd_studio.core.validation import Part
from macd_studio.core.view_records import MaskedView


class TrackRecord(TypedDict):
    """An object. boxes: (T, 4) x0 y0 x1 y1 in shares of the frame, [0, 1]; NaN where it is lost.

    confidence: the detector's, 1 by default.
    """

    id: int
    label: str
    boxes: ArrayLike
    confidence: NotRequired[float]


class Tokenizer(Protocol):
    """What is asked of a tokenizer; those of transformers are one."""

    @property
    def eos_token_id(self) -> Any:
        """The id that ends an answer, several of them, or None."""

    def decode(self, token_ids: Any, /) -> Any:
        """The text of some ids."""


def record(
    frames: ArrayLike,
    times: ArrayLike,
    question: str,
    *,
    answers: Sequence[AnswerRecord],
    token_text: TokenText | None = None,
    end_tokens: Collection[int] | None = None,
    tokenizer: Tokenizer | None = None,
    tracks: Sequence[TrackRecord | Track] = (),
    levels: ArrayLike | None = None,
    strengths: ArrayLike | None = None,
    gradients: ArrayLike | None = None,
    query_loss: float | None = None,
    frame_levels: ArrayLike | None = None,
    frame_gradients: ArrayLike | None = None,
    decoder: str = "another decoder",
    clip: str = "",
    model: Any = None,
    options: RunOptions | None = None,
    **parts: Any,
) -> Trace:
    """Builds the trace of what another program computed for one clip and one question.

    Args:
        frames: (T, H, W, 3) uint8, RGB, the source frames as they are to be shown.
        times: (T,) seconds, rising.
        question: as it was asked.
        answers: one or more, under any names. The viewer shows two of them side by side, one of the
            video alone and one with a second view; with three or more it compares them all. One
            that hands over `shown` has the pictures of its second view on the frames' canvas.
        token_text: the text of a token id; asked for the candidates that are kept, not for all.
        end_tokens: ids that end an answer, which are left out of its text; none by default.
        tokenizer: instead of both, such as one of transformers: `decode([id])` gives the text of a
            token, `eos_token_id` what ends an answer.
        tracks: the objects, K of them; those of another trace are taken as they are.
        levels: (K,) how far the second view hides each object, [0, 1]; 0 leaves it as it is.
        strengths: (K,) where the ascent ended, [0, 1]; the levels by default.
        gradients: (K,) of the query loss by the strengths at their start, `ascent={"r0": …}`.
        query_loss: at that start, nats per token; needed with gradients.
        frame_levels: (T,) how far each frame is hidden outside the objects, [0, 1].
        frame_gradients: (T,) as gradients, needed with both of these.
        decoder: the name of the program or model, for the record.
        clip: the name of the video file.
        model: optionally the same model, as `core.backbones.load_backbone` gives it, to read the
            frames once: where the log partition of an answer's first token differs from the
            recorded one, the trace has a warning. Frames must then have the size that it reads.
        options, parts: what the run was done with, as for `macd.trace`, where it has such options.
            `contrast` is taken from the first linear answer with two views if it is not given.

    Returns:
        The trace. A token that its rule would not choose, as a sampled one, is a warning in it.

    Raises:
        OptionError: a value of a wrong shape, type or range; the message names it by its path.
        NumericalError: logits that are not finite.
        QuestionError: a question that is blank or holds control characters.

    >>> import numpy as np
    >>> import macd_studio as macd
    >>> steps = [{"token": 1, "base": [2.0, 1.9], "others": [[2.0, 0.0]]}]
    >>> answer = {"name": "mine", "steps": steps, "alpha": 1.0, "beta": 0.1}
    >>> frames = np.zeros((1, 8, 8, 3), np.uint8)
    >>> trace = macd.record(
    ...     frames, [0.0], "Is it?", answers=[answer], token_text={0: "no", 1: "yes"}
    ... )
    >>> trace.answers["mine"].text, trace.warnings
    ('yes', ())
    """
    pixels = read_frames(frames)
    seconds = read_array(times, "times")
    if seconds.shape != (len(pixels),) or (np.diff(seconds) < 0).any():
        raise OptionError(
            f"times is {describe_shape(seconds)} for {count(len(pixels), 'frame')}, or falls",
            "Give one time per frame, in seconds, rising",
        )
    cleaned = clean_question(question)
    objects = _tracks(tracks, len(pixels))
    chosen = _options(options, parts, frame_levels is not None)
    r0, k = chosen.ascent.r0, len(objects)
    counterfactual = _counterfactual(r0, k, len(pixels), levels, strengths, frame_levels)
    ascent = _ascent(r0, k, counterfactual, gradients, frame_gradients, query_loss)
    masked = None
    if counterfactual is not None:
        masked = MaskedView(
            level=tuple(counterfactual.level.tolist()),
            frame_level=tuple(counterfactual.frame_level.tolist()),
            swept=chosen.mask.swept,
            frame_mask=chosen.mask.frame_mask,
        )
    texts, ends = _vocabulary(token_text, end_tokens, tokenizer)
    reader = AnswerReader(cleaned, chosen, texts, ends, masked, pixels)
    made = reader.read(answers)
    contrast = None if options is not None or "contrast" in parts else _first_contrast(made)
    height, width = pixels.shape[1:3]
    content = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()
    made_of = Trace(
        question=cleaned,
        frames=pixels,
        times=seconds,
        groups=tuple((i,) for i in range(len(pixels))),
        clip=RecordOf(ClipRecord).read(
            {
                "name": clip,
                "sha256": content,
                "duration": float(seconds[-1]),
                "width": width,
                "height": height,
                "title": "",
            },
            "clip",
        ),
        backbone=RecordOf(BackboneRecord).read({"name": decoder, "family": RECORDED}, "decoder"),
        detector=RecordOf(DetectorRecord).read({"name": RECORDED} if objects else {}, "detector"),
        options=replace(chosen, contrast=contrast) if contrast else chosen,
        model_frames=frames_as_read(pixels, seconds, [*made.values()]),
        mask=chosen.mask,
        tracks=objects,
        steps=ascent,
        counterfactual=counterfactual,
        answers=made,
        warnings=tuple(reader.warnings),
        seed=chosen.seed,
        versions={"macd-studio": __version__, "numpy": np.__version__},
    )
    note = "" if model is None else difference_note(made_of, model)
    return replace(made_of, warnings=(*made_of.warnings, note)) if note else made_of


def _vocabulary(
    token_text: TokenText | None, end_tokens: Collection[int] | None, tokenizer: Tokenizer | None
) -> tuple[TokenText, frozenset[int]]:
    """The texts of the tokens, and which of them end an answer."""
    if (token_text is None) == (tokenizer is None):
        raise OptionError(
            "neither token_text nor tokenizer was given"
            if tokenizer is None
            else "both token_text and tokenizer were given",
            "Give one of them",
        )
    if tokenizer is None:
        assert token_text is not None
        return token_text, frozenset(end_tokens or ())
    if not callable(getattr(tokenizer, "decode", None)):
        raise OptionError("tokenizer cannot decode", "Give one with decode([id]), or token_text")
    ends = getattr(tokenizer, "eos_token_id", None) if end_tokens is None else end_tokens
    ends = () if ends is None else (ends,) if isinstance(ends, int) else ends
    return lambda token: str(tokenizer.decode([token])), frozenset(ends)


def _first_contrast(answers: Mapping[str, Answer]) -> ContrastOptions | None:
    """That of the first answer under the linear rule."""
    first = next((a for a in answers.values() if a.rule == "linear"), None)
    return None if first is None else Part(ContrastOptions()).read(
        {"alpha": first.alpha, "beta": first.beta, "head": first.head}, "contrast"
    )  # fmt: skip


def _tracks(tracks: Sequence[TrackRecord | Track], frames: int) -> tuple[Track, ...]:
    made: list[Track] = []
    for i, row in enumerate(tracks):
        path = f"tracks[{i}]"
        names = TrackRecord.__annotations__
        given = {n: getattr(row, n) for n in names} if isinstance(row, Track) else row
        fields = read_mapping(given, path, names)
        boxes = read_array(require(fields, path, "boxes"), f"{path}.boxes", lost=True)
        if boxes.shape != (frames, 4):
            raise OptionError(
                f"{path}.boxes is {describe_shape(boxes)}", f"Give the shape ({frames}, 4)"
            )
        lost: NDArray[np.bool_] = np.asarray(np.isnan(boxes).any(axis=1))
        here = boxes[~lost]
        if (here != here.clip(0, 1)).any() or (here[:, :2] > here[:, 2:]).any():
            raise OptionError(
                f"{path}.boxes has one outside the frame, or with its corners swapped",
                "Give x0 y0 x1 y1 as shares of the frame, from 0 to 1",
            )
        boxes = np.where(lost[:, None], np.nan, boxes)
        plain = {name: value for name, value in fields.items() if name != "boxes"}
        track = build(
            Track,
            {"confidence": 1.0} | plain | {"frames_seen": int((~lost).sum())},
            path,
            boxes=boxes.astype(np.float32),
            state=np.where(lost, LOST, SEEN).astype(np.int8),
        )
        if track.id in {t.id for t in made}:
            raise OptionError(f"{path}.id is that of an earlier track", "Give each its own id")
        made.append(track)
    return tuple(made)


def _counterfactual(
    r0: float,
    tracks: int,
    frames: int,
    levels: ArrayLike | None,
    strengths: ArrayLike | None,
    frame_levels: ArrayLike | None,
) -> Counterfactual | None:
    if levels is None and frame_levels is None:
        if strengths is not None:
            raise OptionError("strengths were given without levels", "Give levels too")
        return None
    level = np.zeros(tracks) if levels is None else read_shares(levels, "levels", tracks)
    strength = level if strengths is None else read_shares(strengths, "strengths", tracks)
    none = np.zeros(0)
    frame = none if frame_levels is None else read_shares(frame_levels, "frame_levels", frames)
    return Counterfactual(
        strength=strength,
        margin=strength - r0,
        level=level,
        frame_strength=frame,
        frame_margin=frame - r0,
        frame_level=frame,
    )


def _ascent(
    r0: float,
    tracks: int,
    counterfactual: Counterfactual | None,
    gradients: ArrayLike | None,
    frame_gradients: ArrayLike | None,
    query_loss: float | None,
) -> tuple[AscentStep, ...]:
    if gradients is None:
        if frame_gradients is not None or query_loss is not None:
            raise OptionError(
                "a query loss or frame gradients were given without gradients", "Give gradients too"
            )
        return ()
    if query_loss is None or counterfactual is None:
        missing = "query_loss" if query_loss is None else "levels"
        raise OptionError(f"gradients were given without {missing}", f"Give {missing} too")
    loss = REAL.read(query_loss, "query_loss")
    assert loss is not None
    frames = len(counterfactual.frame_level)
    if frames and frame_gradients is None:
        raise OptionError(
            "gradients and frame_levels were given without frame_gradients",
            "Give frame_gradients too, or leave gradients out",
        )
    return (
        AscentStep(
            index=0,
            loss=loss,
            strength=np.full(tracks, r0),
            gradient=read_vector(gradients, "gradients", tracks),
            frame_strength=np.full(frames, r0),
            frame_gradient=read_vector(
                np.zeros(0) if frame_gradients is None else frame_gradients,
                "frame_gradients",
                frames,
            ),
        ),
    )


def _options(
    options: RunOptions | None, parts: Mapping[str, Any], masks_frames: bool
) -> RunOptions:
    """The options, with the frame mask that the frame levels imply."""
    chosen = read_options(options, parts)
    if not masks_frames:
        return replace(chosen, mask=replace(chosen.mask, frame_mask="off"))
    if chosen.mask.frame_mask == "off":
        return replace(chosen, mask=replace(chosen.mask, frame_mask="outside"))
    return chosen


TOLERANCE = 0.05
"""Difference, in logits, that may come from rounding. Other positions of the text after a video
changed the embedded model by up to 1.5."""
NORMALISED = 1e-3
"""A log partition no further from 0 is that of log-probabilities."""


def difference_note(trace: Trace, model: Any) -> str:
    """A note where a model's prefill differs from the first token of a recorded answer, else "".

    Compares the log partition; where log-probabilities were recorded, which have none, the token's
    own. model: one that `core.backbones.load_backbone` gave. The frames are read as they are, so
    they must have the size that it reads. Raises OptionError for another object or size.
    """
    if not callable(getattr(model, "encode_frames", None)):
        raise OptionError(
            f"model is {type(model).__name__}, which reads no frames here",
            "Give what core.backbones.load_backbone gives for the same weights",
        )
    name, first = next((n, a.tokens[0]) for n, a in trace.answers.items())
    pixels = trace.frames
    height, width = pixels.shape[1:3]
    frames = ModelFrames(pixels, trace.times, float(trace.times[-1]), (0, 0, width, height))
    encoded = model.encode_frames(frames, trace.question)
    row = model.next_logits(model.prefill(encoded, encoded.video))[0]
    logits = np.asarray(row.values, np.float64)
    if first.candidates.max() >= len(logits):
        return (
            f"the model {model.info.name} has {len(logits)} tokens, fewer than were recorded: it is"
            " another one"
        )
    what, recorded, here = _compared(first, logits)
    if abs(recorded - here) <= TOLERANCE:
        return ""
    return (
        f"the model {model.info.name} differs from the first token of {name!r}: {what} {here:.3f},"
        f" recorded {recorded:.3f}; check its frames, prompt and positions (position_ids)"
    )


def _compared(step: TokenStep, logits: NDArray[np.float64]) -> tuple[str, float, float]:
    """What is compared, recorded and here."""
    log_z = float(np.logaddexp.reduce(logits))
    if abs(step.base_log_z) > NORMALISED:
        return "log partition", float(step.base_log_z), log_z
    at = int(np.flatnonzero(step.candidates == step.token)[0])
    return (
        "log-probability",
        float(step.base[at] - step.base_log_z),
        float(logits[step.token] - log_z),
    )
