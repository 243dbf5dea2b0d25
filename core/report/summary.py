"""Trace → the summary that the command line prints, as JSON or as text. Imports no torch.

The JSON's schema is documented in docs/json-schema.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from macd_studio.core.decoding.certificate import (
    Certificate,
    certificates,
    count_certified,
    errors_in,
)
from macd_studio.core.description import as_row, plain
from macd_studio.core.macd import Float64Array, weighted
from macd_studio.core.methods import display_name
from macd_studio.core.objects.edits import edit_words
from macd_studio.core.objects.truth import OUTSIDE
from macd_studio.core.options import AscentOptions
from macd_studio.core.records import Thought
from macd_studio.core.repeats import penalised
from macd_studio.core.report import evidence
from macd_studio.core.text.words import count, visible
from macd_studio.core.traces.format import options_as_dict
from macd_studio.core.types import LOST, Answer, StepWeights, TokenStep, Trace
from macd_studio.core.whatif.constant import constant_of_answer, first_difference
from macd_studio.core.whatif.edits import edited_levels
from macd_studio.core.whatif.verdict import random_masks_do, verdict_of

_OTHERWISE = (
    "mask", "model_frames", "steps", "counterfactual", "occlusion", "controls", "evidence",
    "enough", "answers", "tracks", "choice_map",
)  # fmt: skip
"""Fields of a trace that the summary holds in another form."""
HASH_SHOWN = 12
"""Digits of a hash that people compare; files hold all."""
TOKEN_OTHERWISE = ("token", "candidates", "base", "base_log_z", "floor")
"""Fields of a token that the summary holds in another form, or leaves out."""


def as_json(trace: Trace) -> dict[str, Any]:
    """One plain object; every number finite, boxes null where a track is lost."""
    return as_row(trace, without=_OTHERWISE) | {
        "backbone": trace.backbone.as_dict(),
        "detector": trace.detector.as_dict(),
        "clip": trace.clip.as_dict(),
        "frames": len(trace.frames),
        "frame_size": _model_size(trace),
        "source_size": [trace.frames.shape[2], trace.frames.shape[1]],
        "content": list(trace.model_frames.content) if trace.model_frames else None,
        "times": plain(trace.times, 4),
        "tracks": [
            as_row(t, True, ("state", "brush", "boxes"))
            | {
                "confidence": round(t.confidence, 4),
                "boxes": [
                    None if s == LOST else box
                    for box, s in zip(plain(t.boxes, 5), t.state.tolist(), strict=True)
                ],
            }
            for t in trace.tracks
        ],
        "levels": [asdict(level) for level in trace.options.ascent.named_levels()],
        "strengths": _strengths(trace),
        "frame_levels": _frame_levels(trace),
        "query_loss": _losses(trace),
        "occlusion": _occlusion(trace),
        "controls": _controls(trace),
        "choice_map": trace.choice_map and as_row(trace.choice_map),
        "verdict": _verdict(trace),
        "badge": OUTSIDE if trace.outside_domain else "",
        "evidence": [evidence.as_json(one, trace) for one in trace.evidence],
        "enough": [evidence.enough_as_json(one, trace) for one in trace.enough],
        "answers": {
            name: _answer(a, certificates(trace, a))
            | {"constant": (same := constant_of_answer(trace, a)) and same.as_dict()}
            for name, a in trace.answers.items()
        },
        "options": options_as_dict(trace),
    }


def _model_size(trace: Trace) -> list[int]:
    """[w, h] of the frames that the backbone read; of the source before one was asked."""
    read = trace.frames if trace.model_frames is None else trace.model_frames.pixels
    return [read.shape[2], read.shape[1]]


def _strengths(trace: Trace) -> list[dict[str, Any]]:
    counterfactual = trace.counterfactual
    if counterfactual is None or not trace.steps:
        return []
    gradient = trace.steps[0].gradient
    by_hand, _ = edited_levels(trace)
    return [
        {
            "track": t.id,
            "gradient": float(gradient[k]),
            "final": float(counterfactual.strength[k]),
            "level": float(counterfactual.level[k]),
            "by_hand": t.id in by_hand,
            "margin": float(counterfactual.margin[k]),
        }
        for k, t in enumerate(trace.tracks)
    ]


def _frame_levels(trace: Trace) -> list[float]:
    """One level per sampled frame."""
    out = [0.0] * len(trace.frames)
    counterfactual = trace.counterfactual
    if counterfactual is not None and len(counterfactual.frame_level):
        for level, frames in zip(counterfactual.frame_level, trace.groups, strict=True):
            for f in frames:
                out[f] = float(level)
    return out


def _losses(trace: Trace) -> dict[str, Any]:
    counterfactual = trace.counterfactual
    return {
        "steps": [s.loss for s in trace.steps],
        "video": counterfactual.base_loss if counterfactual else None,
        "counterfactual": counterfactual.loss if counterfactual else None,
    }


def _controls(trace: Trace) -> dict[str, Any] | None:
    report = trace.controls
    if report is None:
        return None
    same, draws = report.random()
    return as_row(report) | {"random_same": same, "random": draws}


def _verdict(trace: Trace) -> dict[str, Any]:
    """Whether the choice of masks matters, as far as it was measured."""
    found = verdict_of(trace)
    return asdict(found) | {"rule": found.rule}


def _occlusion(trace: Trace) -> dict[str, Any] | None:
    report = trace.occlusion
    if report is None:
        return None
    return {
        "verdict": report.verdict,
        "correlation": report.correlation,
        "objects": [
            {
                "track": t.id,
                "gradient": float(report.gradient[k]),
                "loss_change": float(report.loss_change[k]),
                "odds_change": float(report.odds_change[k]),
                "token_change": report.token_change[k].tolist(),
            }
            for k, t in enumerate(trace.tracks)
        ],
    }


def _answer(answer: Answer, found: Sequence[Certificate]) -> dict[str, Any]:
    tokens = [_token(t, answer) for t in answer.tokens]
    if found:
        named = zip(tokens, found, strict=True)
        tokens = [token | {"certificate": certificate} for token, certificate in named]
    return as_row(answer, without=("method",)) | {
        "name": display_name(answer),
        "second_views": [second.view.as_dict() for second in answer.second_views],
        "tokens": tokens,
    }


def _token(step: TokenStep, answer: Answer) -> dict[str, Any]:
    at = int(np.flatnonzero(step.candidates == step.token)[0])
    row = as_row(step, True, TOKEN_OTHERWISE) | {
        "id": step.token,
        "text": step.text,
        "logit": float(step.base[at]),
        "probability": float(np.exp(step.base[at] - step.base_log_z)),
    }
    if step.others:
        row |= {
            "second_logits": [float(other[at]) for other in step.others],
            "score": float(_weighted(step, answer)[at]),
            "base_choice": step.texts[int(penalised(step.base, step.repeats).argmax())],
        }
    if step.repeats is not None:
        row["repeated"] = bool(step.repeats.at[at])
    return row


def _weighted(step: TokenStep, answer: Answer) -> Float64Array:
    """Scores of the candidates (C,), without the cut, which the chosen token passed."""
    weights = step.weights or StepWeights(1 + answer.alpha, (-answer.alpha,))
    uncut = replace(weights, floor=-np.inf)
    return penalised(weighted(step.base, step.others, uncut, step.candidates), step.repeats)


def as_text(trace: Trace) -> str:
    """The summary for a terminal."""
    lines = [*_header(trace), *_badge(trace), f"Question   {' '.join(trace.question.split())}"]
    lines += _thought_lines("Thought", trace.thought)
    for name, answer in trace.answers.items():
        lines += _thought_lines(f"Thought of {name}", answer.thought)
        name = display_name(answer)
        lines.append(f"{name:<10} {answer.text}{'' if answer.finished else ' …'}{_votes(answer)}")
    lines += _certified_lines(trace)
    lines += _constant_lines(trace)
    lines += ["", *_object_lines(trace), *_frame_lines(trace), *_edit_lines(trace)]
    losses = _losses(trace)
    if losses["video"] is not None:
        lines.append(
            f"Query loss {losses['video']:.4f} given the video,"
            f" {losses['counterfactual']:.4f} given the counterfactual (nats per token)"
        )
    lines += [f"Note: {w}" for w in trace.warnings]
    spent = "  ".join(f"{k} {v:.0f} ms" for k, v in trace.timings_ms.items())
    if device := device_of(trace):
        lines.append(f"Device     {device}")
    if weights := weights_of(trace):
        lines.append(f"Weights    {weights}")
    run = " of the run before the changes" if trace.edits else ""
    if memory := memory_of(trace):
        spent += f"  ({memory})"
    if spent:
        lines.append(f"Times      {spent.strip()}{run}")
    if trace.status != "complete":
        lines.append(f"This run was {trace.status}.")
    return visible("\n".join(lines))


def _thought_lines(title: str, thought: Thought | None) -> list[str]:
    """That the model thought first; what it wrote is in the JSON and on the page."""
    if thought is None:
        return []
    cut = "" if thought.closed else ", cut"
    return [f"{title:<10} {count(len(thought.tokens), 'token')} before the answer{cut}"]


def _certified_lines(trace: Trace) -> list[str]:
    """How many tokens are the same for every error of a server's log-probabilities."""
    parts = []
    for answer in trace.answers.values():
        if (counted := count_certified(trace, answer)) is not None:
            parts.append(f"{display_name(answer)} {counted[0]} of {counted[1]}")
    errors = errors_in(trace)
    if errors is None or not parts:
        return []
    told = f"{errors.second:g} nats"
    if errors.video != errors.second:
        told = f"{errors.video:g} nats in the video and {told} in other views"
    return [f"{'Certified':<10} {', '.join(parts)} tokens, for every error up to {told}"]


def _constant_lines(trace: Trace) -> list[str]:
    """Would a bias do the same?"""
    macd = trace.answers.get("macd")
    same = constant_of_answer(trace, macd) if macd else None
    return [f"{'Constant':<10} {same.sentence}"] if same else []


def _header(trace: Trace) -> list[str]:
    """What was run, in one line."""
    ascent, contrast = trace.options.ascent, trace.options.contrast
    climbed = f"{count(ascent.steps, 'step')}, {ascent.gradient} gradient"
    parts = [
        trace.clip.name,
        trace.backbone.name,
        trace.detector.name,
        "a picture" if trace.is_picture else count(len(trace.frames), "frame"),
        f"α {contrast.alpha:g} β {contrast.beta:g}",
        *(() if trace.backbone.is_recorded else (climbed, f"seed {trace.seed}")),
    ]
    return ["Run        " + " · ".join(part for part in parts if part)]


def device_of(trace: Trace) -> str:
    """What the backbone ran on, and how its weights were held; empty where it was not asked."""
    made = trace.backbone
    if not made.device:
        return ""
    name = f" ({made.device_name})" if made.device_name else ""
    packed = f", weights packed as {made.quantised}" if made.quantised else ""
    away = f", weights on {made.offloaded}" if made.offloaded else ""
    if made.server:
        return made.server
    return f"{made.device}{name}, {made.dtype}{packed}{away}"


def weights_of(trace: Trace) -> str:
    """What tells the backbone's weights from others, and what was applied over them; else ""."""
    made = trace.backbone
    kind, _, digest = made.weights_hash.partition(":")
    parts = [f"{kind} {digest[:HASH_SHOWN]}"] if digest else []
    if made.adapter is not None:
        adapter = made.adapter
        parts.append(f"adapter {adapter.name} ({adapter.kind}, {adapter.sha256[:HASH_SHOWN]})")
    return ", ".join(parts)


def memory_of(trace: Trace) -> str:
    """The peak, and whose it is: the GPU's where one was used, else of the process; "": unknown."""
    if not trace.peak_memory_mb:
        return ""
    owner = "the GPU" if trace.backbone.device == "cuda" else "the process"
    return f"peak memory of {owner} {trace.peak_memory_mb:.0f} MB"


def _badge(trace: Trace) -> list[str]:
    return [f"Badge      {OUTSIDE}"] if trace.outside_domain else []


def _votes(answer: Answer) -> str:
    counts = ", ".join(f"{k}: {n}" for k, n in (answer.votes or {}).items())
    return f"  ({counts})" if counts else ""


def verdict(answer: Answer, baseline: Answer) -> str:
    """How an answer compares with the baseline; which of them is right is not known here.

    "flipped" means two opposite short answers, yes and no.
    """
    text, baseline_text = (a.text.lower().strip(" .!") for a in (answer, baseline))
    if text == baseline_text:
        return "agrees"
    return "flipped" if {text, baseline_text} == {"yes", "no"} else "changed"


def as_table(trace: Trace) -> str:
    """All answers next to the baseline, for a terminal; the summary where none was decoded."""
    if not trace.answers:
        return as_text(trace)
    question = f"Question   {' '.join(trace.question.split())}"
    lines = [*_header(trace), *_badge(trace), question, ""]
    lines.append(f"{'method':<24}{'α':>6}{'β':>8}{'ms':>9}{'diverges':>10}  {'verdict':<9} answer")
    base = trace.answers.get("baseline")
    for name, a in trace.answers.items():
        at = first_difference(a, base) if base else None
        standing = verdict(a, base) if base and name != "baseline" else ""
        contrasted = a.rule == "linear" and any(t.others for t in a.tokens)
        rule = f"{a.alpha:>6g}{a.beta:>8g}" if contrasted else ""
        lines.append(
            f"{display_name(a):<24}{rule:>14}{a.ms:>9.0f}{'' if at is None else at + 1:>10}"
            f"  {standing:<9} {a.text}{'' if a.finished else ' …'}{_votes(a)}"
        )
    shared = ", ".join(f"{k} {n}×" for k, n in trace.shared.items())
    lines += [f"{name:<24}does not apply: {why}" for name, why in trace.skipped.items()]
    lines += _certified_lines(trace)
    if shared:
        lines += ["", f"Shared: {shared}; the first to need a piece pays for it."]
    lines.append("")
    lines += _edit_lines(trace)
    lines += [f"Note: {w}" for w in trace.warnings]
    return visible("\n".join(lines))


def _object_lines(trace: Trace) -> list[str]:
    ascent = trace.options.ascent
    slope = {"exact": "gradient", "difference": "difference"}.get(ascent.gradient, "≈ gradient")
    slope += " at r0" * (len(trace.steps) > 1)  # the margin is where all steps led
    names = [f"{t.id} {t.label} {t.confidence:.2f}" for t in trace.tracks]
    width = max(18, *(min(len(name), 40) for name in names)) if names else 18
    lines = [f"{'Object':<{width}}{'sightings':>10}{slope:>18}{'margin':>12}  level"]
    rows = {r["track"]: r for r in _strengths(trace)}
    for k, (name, t) in enumerate(zip(names, trace.tracks, strict=True)):
        row = rows.get(t.id)
        if row is None:
            level = trace.counterfactual.level if trace.counterfactual else ()
            known = f"{'':30}  {level[k]:g}" if len(level) == len(trace.tracks) else ""
            lines.append(f"{name:<{width}}{t.frames_seen:>10}{known}")
            continue
        meaning = ascent.level_name(row["level"]) + ", set by hand" * row["by_hand"]
        lines.append(
            f"{name:<{width}}{t.frames_seen:>10}{_gradient(row['gradient'], ascent):>18}"
            f"{row['margin']:>+12.2e}"
            f"  {row['level']:g} ({meaning})"
        )
    return lines


def _gradient(value: float, ascent: AscentOptions) -> str:
    """Exactly zero is another thing than nearly zero: no pixel depends on the mask."""
    if any(ascent.undecided([value])):
        return "undecided"
    return f"{value:+.2e}" if value else "0 exactly"


def _frame_lines(trace: Trace) -> list[str]:
    levels = _frame_levels(trace)
    hidden = [f"{i + 1} at {x:g}" for i, x in enumerate(levels) if x > 0]
    if not hidden:
        return ["Frame mask none"]
    level = trace.counterfactual.frame_level if trace.counterfactual else np.zeros(0)
    named = ", ".join(str(group) for group in np.flatnonzero(level > 0))
    noun = "frame" if len(hidden) == 1 else "frames"
    where = "whole frames" if trace.options.mask.frame_mask == "whole" else "outside the objects"
    return [f"Frame mask {noun} {', '.join(hidden)} ({where}; `edit --frames` calls them {named})"]


def _edit_lines(trace: Trace) -> list[str]:
    """Changes by hand, as flags of `python -m core edit`, and what was measured."""
    lines = [f"Edited     {' '.join(edit_words(e))}"[:200] for e in trace.edits]
    report = trace.occlusion
    if report is not None:
        lines.append(f"Measured   {report.verdict}")
        for k, t in enumerate(trace.tracks):
            lines.append(
                f"           hiding {t.id} {t.label}: query loss {report.loss_change[k]:+.2e},"
                f" log-odds of the baseline answer {report.odds_change[k]:+.2e}"
            )
    same, drawn = trace.controls.random() if trace.controls else (0, 0)
    if drawn:
        lines.append(f"Controls   {random_masks_do(same, drawn)}")
    return lines
