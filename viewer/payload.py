"""Trace → the plain object that the viewer reads. It holds null in place of NaN."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.decoding.certificate import errors_in, least_beta
from macd_studio.core.description import as_row, plain
from macd_studio.core.embedded import DRAWN, EMBEDDED, EVERYDAY
from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.kinds import KINDS
from macd_studio.core.figures.style import COLOURS
from macd_studio.core.masking.masks import REACH
from macd_studio.core.media.webp import picture_uri
from macd_studio.core.methods import clamped_share, depends_on_masks, find_method, in_8_bits
from macd_studio.core.objects.registry import named
from macd_studio.core.objects.truth import OUTSIDE, is_right
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.repeats import Repeats
from macd_studio.core.report.summary import device_of, memory_of, weights_of
from macd_studio.core.rules import CUT_BY_VIDEO, RULES
from macd_studio.core.text.everyday_words import classes_called
from macd_studio.core.text.phrases import noun_phrases, unfound
from macd_studio.core.text.question import NEGATED, UNKNOWN_WORDS
from macd_studio.core.text.words import count
from macd_studio.core.types import LOST, Answer, ModelFrames, Pixels, StepWeights, Trace
from macd_studio.core.whatif.constant import constant_of_answer
from macd_studio.core.whatif.edits import edited_levels, why_not_redecode
from macd_studio.viewer.choices import choices_payload, views_to_map
from macd_studio.viewer.constants import constants
from macd_studio.viewer.evidence import evidence_payload

MAX_WORDS, MAX_OF_A_WORD = 3, 30
"""Unknown words that stand beside the question, and characters of each."""


def status(
    stage: str = "",
    fraction: float = 0.0,
    message: str = "",
    *,
    done: tuple[str, ...] = (),
    running: bool = False,
    error: str = "",
    where: str = "",
) -> dict[str, Any]:
    """Where a run is; `error` is shown in place of the message.

    where: the part of the page an error, or what is done for it, belongs to: "form", "whatif",
    "occlusion" or "tokens".
    """
    return {
        "stage": stage,
        "fraction": round(fraction, 3),
        "message": message,
        "stages_done": list(done),
        "running": running,
        "error": error,
        "where": where,
    }


Check = Callable[[], None]
T = TypeVar("T")
LATER = ("detect", "track", "ascent", "views")
"""Stages that a lazy run may leave out; a trace has no time of those."""


def payload(
    trace: Trace | None,
    state: dict[str, Any] | None = None,
    frames: bool = True,
    previous: Trace | None = None,
    link: str = "",
    files: dict[str, str] | None = None,
    redo: bool = False,
    costs: Mapping[str, Any] | None = None,
    check: Check = lambda: None,
) -> dict[str, Any]:
    """What the viewer shows. frames=False leaves the source frames out, when it has them already.

    What the model read comes with a state that is not running: a run would send it many times.
    previous: the trace before the last change by hand, whose answer is shown beside. link: address
    of an example. files: where the trace can be downloaded, as {"trace": …, "page": …}, with "of"
    whether it is the trace of a "run" or of an "example". redo: whether a change by hand was taken
    back that can be made again. costs: milliseconds of measurements as far as they were timed here,
    "controls", "choices", "enough" by view and, by kind of map, "evidence". check: called before
    each picture, object and token; what it raises ends the work.
    """
    out: dict[str, Any] = {"constants": constants(), "status": state or status()}
    if files:
        out["files"] = files
    if trace is not None and trace.options.lazy:
        left_out = [s for s in LATER if s not in trace.timings_ms]
        done = [s for s in out["status"]["stages_done"] if s not in left_out]
        out["status"] = out["status"] | {"stages_done": done}
    if trace is not None:
        out["trace"] = _trace(trace, frames, not out["status"]["running"], check)
        out["trace"]["redo"] = redo
        out["trace"]["evidence_ms"] = (costs or {}).get("evidence")
        out["trace"]["enough_ms"] = (costs or {}).get("enough")
        out["trace"]["controls_ms"] = (costs or {}).get("controls")
        out["trace"]["choices_ms"] = (costs or {}).get("choices")
        if previous is not None and "macd" in previous.answers:
            out["trace"]["previous"] = _answer(previous.answers["macd"], previous.truth)
        if trace.status == "complete" and (trace.answers or trace.options.masks_only):
            out["trace"]["again"] = _again(trace, link)
    return out


_OTHERWISE = (
    "clip", "backbone", "detector", "model_frames", "mask", "tracks", "steps", "counterfactual",
    "occlusion", "evidence", "answers", "timings_ms", "peak_memory_mb", "skipped", "status",
    "versions",
)  # fmt: skip
"""Fields of a trace that are sent in another form, or are not shown."""


_DECODE = ("search", "temperature", "top_p")


def _trace(trace: Trace, frames: bool, pixels: bool, check: Check) -> dict[str, Any]:
    ascent = trace.options.ascent
    counterfactual = trace.counterfactual
    objects_by_hand, frames_by_hand = edited_levels(trace)
    errors = errors_in(trace)
    return as_row(trace, True, _OTHERWISE) | {
        "run": identity(trace),
        "clip": trace.clip.name,
        "backbone": trace.backbone.name,
        "demo": trace.backbone.domain_title == DRAWN,
        "outside": trace.outside_domain,
        "recorded": trace.backbone.is_recorded,
        "cuts": first_after_cuts(trace),
        "source": [trace.frames.shape[2], trace.frames.shape[1]],
        "size": _mask_size(trace),
        "frames": _pictures(trace.frames, check) if frames else [],
        "model": _model(trace, pixels, check),
        "mask": vars(trace.mask) | {"reach": REACH},
        "thresholds": {"starts": trace.detector.confidence, "continues": trace.detector.low},
        "levels": [asdict(level) for level in ascent.named_levels()],
        "r0": ascent.r0,
        "tau": ascent.tau,
        "frame_fraction": ascent.frame_fraction,
        "approximate": ascent.gradient != "exact",
        "differences": ascent.gradient == "difference",
        "tracked": bool(trace.tracks or trace.steps or "track" in trace.timings_ms),
        "tracks": [
            as_row(t, True, ("boxes",))
            | {
                "colour": COLOURS[k % len(COLOURS)],
                "confidence": round(t.confidence, 6),
                "boxes": [
                    None if s == LOST else box
                    for box, s in zip(plain(t.boxes, 5), t.state.tolist(), strict=True)
                ],
            }
            for k, t in enumerate(_checked(trace.tracks, check))
        ],
        "steps": [as_row(step, True) for step in _checked(trace.steps, check)],
        "final": None
        if counterfactual is None
        else as_row(counterfactual, True)
        | {
            "by_hand": [t.id in objects_by_hand for t in trace.tracks],
            "frame_by_hand": [g in frames_by_hand for g in range(len(counterfactual.frame_level))],
        },
        "answers": {
            name: _answer(a, trace.truth, trace if pixels else None, check)
            | _constant(trace, a)
            | {"cannot_redecode": why_not_redecode(trace, name)}
            for name, a in trace.answers.items()
        },
        "edits": [edit.as_dict() for edit in trace.edits],
        "occlusion": trace.occlusion and as_row(trace.occlusion, True),
        "evidence": evidence_payload(trace),
        "choices": choices_payload(trace),
        "choices_views": views_to_map(trace),
        "measurable": can_measure(trace),
        "comparable": can_compare(trace),
        "badge": _badge(trace),
        "lazy": trace.options.lazy,
        "decode": {name: getattr(trace.options.decode, name) for name in _DECODE},
        "unavailable": unavailable(trace),
        "log_p_errors": None if errors is None else errors._asdict(),
        "took": _took(trace),
        "undetected": list(undetected(trace)),
        "skipped": [
            {"method": name, "title": title_of(name), "reason": why}
            for name, why in trace.skipped.items()
        ],
        "classless": trace.detector.name in named("nothing"),
    }


def _checked(items: Iterable[T], check: Check) -> Iterator[T]:
    for item in items:
        check()
        yield item


def _pictures(frames: Pixels, check: Check) -> list[str]:
    return [picture_uri(frame) for frame in _checked(frames, check)]


KNOWS = {
    EVERYDAY: "it can be asked about 80 everyday things: animals, vehicles, food, furniture …",
    EMBEDDED: "it can be asked about 16 drawn things",
}
"""Embedded backbone → what it can be asked, beside words that it does not know."""


def _badge(trace: Trace) -> str:
    """What must be seen before anything is believed; empty where there is nothing of the kind."""
    only = "masks only, no answer" if trace.options.masks_only else ""
    said = [OUTSIDE] if trace.outside_domain else [_unknown(trace), _negated(trace)]
    return " · ".join(filter(None, (*said, only)))


def _negated(trace: Trace) -> str:
    """That the model does not heed a negation of the question."""
    return next((f"T{w[1:]}" for w in trace.warnings if w.startswith(NEGATED)), "")


def _unknown(trace: Trace) -> str:
    """That the question holds words which the model does not know, and the first of them."""
    notes = (w.removeprefix(UNKNOWN_WORDS) for w in trace.warnings if w.startswith(UNKNOWN_WORDS))
    words = [word for word in next(notes, "").split(", ") if word]
    shown = [f"“{word[:MAX_OF_A_WORD]}”" for word in words[:MAX_WORDS]]
    if not shown:
        return ""
    knows = KNOWS.get(trace.backbone.name, "")
    more = [count(len(words) - MAX_WORDS, "other word")] if len(words) > MAX_WORDS else []
    return f"The model does not know {', '.join(shown + more)}" + (f"; {knows}" if knows else "")


def _constant(trace: Trace, answer: Answer) -> dict[str, Any]:
    """Whether a bias would do the same, in a sentence; empty where the answers do not part."""
    same = constant_of_answer(trace, answer)
    return {
        "constant": same.sentence if same else "",
        "constant_amount": same.amount if same else None,
        "constant_of": same.of if same else "",
    }


def _again(trace: Trace, link: str) -> dict[str, str]:
    try:
        return {"command": command(trace), "snippet": snippet(trace), "link": link}
    except OptionError:  # a trace of other options is still worth looking at
        return {}


def can_compare(trace: Trace) -> bool:
    """Whether MACD's masks can be compared with controls, see `core.whatif.controls`."""
    levels = trace.counterfactual
    masked = levels is not None and (levels.level.any() or levels.frame_level.any())
    done = trace.status == "complete" and {"baseline", "macd"} <= set(trace.answers)
    greedy = trace.options.decode.search == "greedy" and not own_thoughts(trace)
    return bool(masked) and done and greedy and not trace.backbone.is_recorded


def can_measure(trace: Trace) -> bool:
    """Whether the evidence of a token can be measured: the model's frames and levels are there."""
    complete = trace.model_frames is not None and trace.counterfactual is not None
    complete = complete and not trace.backbone.is_recorded and not own_thoughts(trace)
    return complete and trace.status == "complete" and "baseline" in trace.answers


def _took(trace: Trace) -> dict[str, Any]:
    """What the run ran on, milliseconds by stage in their order, and the peak of memory."""
    return {
        "device": device_of(trace),
        "weights": weights_of(trace),
        "times": [[stage, round(ms, 1)] for stage, ms in trace.timings_ms.items()],
        "memory": memory_of(trace),
    }


def unavailable(trace: Trace) -> dict[str, str]:
    """What the model of a trace cannot do → why: kinds of evidence, "knock-out" and "change"."""
    lacks = {n: CAPABILITIES[n] for n in trace.backbone.lacks if n in CAPABILITIES}
    if "attention" in lacks:  # of which 0.1.0 did not tell it apart
        lacks |= {"knock-out": CAPABILITIES["knock-out"]}
    needed = {kind: KINDS[kind].needs for kind in KINDS} | {
        "knock-out": "knock-out", "change": "gradient"
    }  # fmt: skip
    return {what: lacks[need] for what, need in needed.items() if need in lacks}


def own_thoughts(trace: Trace) -> bool:
    """Whether answers have thoughts of their own: nothing is computed on such a trace again."""
    return any(answer.thought is not None for answer in trace.answers.values())


def undetected(trace: Trace) -> tuple[str, ...]:
    """What was looked for and no track is called: the words that a detector was asked for.

    Of a detector of fixed classes the things that a yes-no question names. Empty where the question
    asks which or how many objects there are, or nothing was searched, as with regions of no class.
    """
    if "track" not in trace.timings_ms or trace.detector.name in named("nothing"):
        return ()
    if trace.detector.prompt:
        return unfound(trace.detector.prompt, (t.label for t in trace.tracks))
    if not trace.question.lower().startswith(("is ", "are ")):
        return ()
    labels = {track.label.lower() for track in trace.tracks}
    labels |= {word for label in labels for word in label.split()}
    heads = {phrase: phrase.split()[-1] for phrase in noun_phrases(trace.question)}
    return tuple(
        phrase
        for phrase, head in heads.items()
        if not labels
        & {head, head.rstrip("s"), *classes_called(phrase.lower()), *classes_called(head.lower())}
    )


def first_after_cuts(trace: Trace) -> list[int]:
    """The sampled frames that are the first ones after a hard cut."""
    shots = np.searchsorted(trace.clip.cuts, trace.times)
    return [int(i) + 1 for i in np.flatnonzero(np.diff(shots))]


def identity(trace: Trace) -> str:
    """What stays through changes by hand, so that frame and object stay chosen."""
    options = {k: v for k, v in trace.options.as_dict().items() if k != "contrast"}
    # links to runs without a file of tracks are older than these options
    options["track"] = {k: v for k, v in options["track"].items() if v or k[:5] != "file_"}
    parts = [trace.clip.sha256, trace.question, options, trace.detector.as_dict()]
    seed = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:16]


MASK_SIDE = 192
"""Long side of the masks that the browser draws over a frame; the model's own may be larger."""


def _mask_size(trace: Trace) -> list[int]:
    """[w, h] of the masks that are drawn over a source frame: as the model has them, if small."""
    width, height = trace.frames.shape[2], trace.frames.shape[1]
    if trace.model_frames is not None:
        x0, y0, x1, y1 = trace.model_frames.content
        width, height = x1 - x0, y1 - y0
    scale = min(1.0, MASK_SIDE / max(width, height))
    return [max(1, round(scale * width)), max(1, round(scale * height))]


def _model(trace: Trace, pixels: bool, check: Check) -> dict[str, Any] | None:
    """What the backbone read and how the source lies in it."""
    frames = trace.model_frames
    if frames is None:
        return None
    height, width = frames.size
    return {
        "size": [width, height],
        "content": list(frames.content),
        "frames": _pictures(frames.pixels, check) if pixels else [],
        "fit": fit_of(frames),
    }


def fit_of(frames: ModelFrames) -> str:
    """How a source frame became a model frame, in words."""
    height, width = frames.size
    by = abs(frames.stretch - 1)
    way = "wider" if frames.stretch > 1 else "narrower"
    shape = "aspect ratio preserved" if by < 0.005 else f"stretched {100 * by:.0f} % {way}"
    return f"{width}×{height} pixels, {shape}{', padded' if frames.padded else ''}"


def _shown(trace: Trace | None, frames: Pixels | None, check: Check) -> list[str | None] | None:
    """Frames of a second view; None for those that the model read as they are."""
    if frames is None or trace is None or trace.model_frames is None:
        return None
    return [
        None if np.array_equal(shown, read) else picture_uri(shown)
        for shown, read in _checked(zip(frames, trace.model_frames.pixels, strict=True), check)
    ]


def _answer(
    answer: Answer, truth: str, trace: Trace | None = None, check: Check = lambda: None
) -> dict[str, Any]:
    """trace: whose model frames the second views' pictures are compared with; None: no pictures."""
    return as_row(answer) | {
        "right": is_right(answer.text, truth) if answer.finished else None,
        "second_views": [
            {"view": z.view.as_dict(), "shown": _shown(trace, z.shown, check)}
            for z in answer.second_views
        ],
        "title": in_8_bits(title_of(answer.method), clamped_share(answer)),
        "locks": answer.rule in CUT_BY_VIDEO,
        "moves": answer.rule not in RULES or RULES[answer.rule].moves_with_views,
        "depends_on_masks": depends_on_masks(answer.method),
        "least_beta": 0.0 if trace is None else least_beta(trace, answer),
        "tokens": [
            as_row(t, True)
            | {
                "index": t.index,
                "text": t.text,
                "texts": list(t.texts),
                "others": [plain(row, 5) for row in t.others],
                "others_log_z": list(t.others_log_z),
                "hidden": None if t.hidden is None else _bits(t.hidden),
                "floor": t.floor if math.isfinite(t.floor) else None,
                "complete": t.floor == -math.inf,
                "weights": None if t.weights is None else _weights(t.weights),
                "repeats": None if t.repeats is None else _repeats(t.repeats),
            }
            for t in _checked(answer.tokens, check)
        ],
    }


def title_of(method: str) -> str:
    """A method's title; its name where the project does not know it."""
    try:
        return find_method(method).title
    except OptionError:
        return method


def _weights(weights: StepWeights) -> dict[str, Any]:
    """How the token was scored; floor is null where nothing was cut.

    It is rounded as the logits are: what was let through with it still is.
    """
    return {
        "base": weights.base,
        "others": list(weights.others),
        "floor": round(weights.floor, 5) if math.isfinite(weights.floor) else None,
        "bias": [list(pair) for pair in weights.bias],
    }


def _repeats(repeats: Repeats) -> dict[str, Any]:
    """The penalty, and the places of the candidates that it lowers."""
    return {"penalty": repeats.penalty, "at": np.flatnonzero(repeats.at).tolist()}


def _bits(hidden: NDArray[np.bool_]) -> str:
    """One bit per vision token, as base64."""
    return base64.b64encode(np.packbits(hidden).tobytes()).decode()
