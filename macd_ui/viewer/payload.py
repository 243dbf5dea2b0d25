"""Trace → the plain object the viewer is fed with. No NaN: what is lost is null."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.errors import OptionError
from core.reproduce import command, snippet
from core.types import LOST, Answer, Ledger, Trace

_WHITE_FILL = [255, 255, 255]


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

    where: the part of the page an error belongs to: "form", "whatif", "ledger" or "tokens".
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


def payload(
    trace: Trace | None,
    state: dict[str, Any] | None = None,
    frames: bool = True,
    former: Trace | None = None,
    link: str = "",
    files: dict[str, str] | None = None,
) -> dict[str, Any]:
    """What the viewer shows. frames=False leaves the pictures out, when it has them already.

    former: the trace before the last change by hand, whose answer is shown beside. link: address
    of an example. files: where the trace can be downloaded, as {"trace": …, "page": …}.
    """
    out: dict[str, Any] = {"status": state or status()}
    if files:
        out["files"] = files
    if trace is not None:
        out["trace"] = _trace(trace, frames)
        if former is not None and "macd" in former.answers:
            out["trace"]["former"] = _answer(former.answers["macd"])
        if trace.status == "complete" and trace.answers:
            out["trace"]["again"] = _again(trace, link)
    return out


def _trace(trace: Trace, frames: bool) -> dict[str, Any]:
    ascent = trace.options.get("ascent", {})
    found = trace.counterfactual
    return {
        "run": identity(trace),
        "question": trace.question,
        "clip": str(trace.clip.get("name", "")),
        "size": [trace.frames.shape[2], trace.frames.shape[1]],
        "frames": [data_uri(f) for f in trace.frames] if frames else [],
        "times": _list(trace.times),
        "groups": [list(g) for g in trace.groups],
        "mask": vars(trace.mask),
        "fill": _fill(trace),
        "r0": float(ascent.get("r0", 0.75)),
        "tau": float(ascent.get("tau", 0.0)),
        "approximate": ascent.get("gradient", "exact") != "exact",
        "tracked": bool(trace.tracks or trace.steps or "track" in trace.timings_ms),
        "tracks": [
            {
                "id": t.id,
                "label": t.label,
                "confidence": round(t.confidence, 3),
                "state": t.state.tolist(),
                "brush": [
                    {"points": s.points.tolist(), "radius": s.radius, "erase": s.erase}
                    for s in t.brush
                ],
                "outlines": [
                    None if z is None else [[_list(p) for p in ring] for ring in z]
                    for z in t.outlines
                ],
                "boxes": [
                    None if s == LOST else _list(b) for b, s in zip(t.boxes, t.state, strict=True)
                ],
            }
            for t in trace.tracks
        ],
        "steps": [
            {
                "loss": s.loss,
                "strength": s.strength.tolist(),
                "gradient": s.gradient.tolist(),
                "frame_strength": s.frame_strength.tolist(),
                "frame_gradient": s.frame_gradient.tolist(),
            }
            for s in trace.steps
        ],
        "final": None
        if found is None
        else {
            "strength": found.strength.tolist(),
            "margin": found.margin.tolist(),
            "level": found.level.tolist(),
            "frame_strength": found.frame_strength.tolist(),
            "frame_margin": found.frame_margin.tolist(),
            "frame_level": found.frame_level.tolist(),
            "base_loss": found.base_loss,
            "loss": found.loss,
        },
        "answers": {name: _answer(a) for name, a in trace.answers.items()},
        "edits": list(trace.options.get("edits", ())),
        "ledger": None if trace.ledger is None else _ledger(trace.ledger),
        "shared": trace.shared,
        "seed": trace.seed,
        "warnings": list(trace.warnings),
    }


def _again(trace: Trace, link: str) -> dict[str, str]:
    try:
        return {"command": command(trace), "snippet": snippet(trace), "link": link}
    except OptionError:  # a trace of other options is still worth looking at
        return {}


def _ledger(ledger: Ledger) -> dict[str, Any]:
    return {
        "gradient": ledger.gradient.tolist(),
        "loss_change": ledger.loss_change.tolist(),
        "odds_change": ledger.odds_change.tolist(),
        "token_change": ledger.token_change.tolist(),
        "correlation": ledger.correlation,
        "verdict": ledger.verdict,
    }


def identity(trace: Trace) -> str:
    """The same through changes by hand, so that frame and object stay chosen."""
    fixed = {k: v for k, v in trace.options.items() if k not in ("edits", "contrast")}
    told = [trace.clip.get("sha256"), trace.question, fixed, trace.detector]
    seed = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:16]


def _fill(trace: Trace) -> list[int]:
    """Colour of masked pixels, where the fill is one colour; the mean stands in for the others."""
    if trace.mask.fill == "black":
        return [0, 0, 0]
    if trace.mask.fill == "additive":
        return _WHITE_FILL
    mean = trace.backbone.get("pixel_mean", [0.5, 0.5, 0.5])
    return [round(255 * float(m)) for m in mean]


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "method": answer.method,
        "text": answer.text,
        "finished": answer.finished,
        "alpha": answer.alpha,
        "beta": answer.beta,
        "head": answer.head,
        "votes": answer.votes,
        "view": answer.view,
        "ms": answer.ms,
        "memory_mb": answer.memory_mb,
        "tokens": [
            {
                "index": t.index,
                "token": t.token,
                "text": t.text,
                "candidates": t.candidates.tolist(),
                "texts": list(t.texts),
                "base": _list(t.base),
                "base_log_z": t.base_log_z,
                "counter": None if t.counter is None else _list(t.counter),
                "counter_log_z": t.counter_log_z,
            }
            for t in answer.tokens
        ],
    }


def _list(array: NDArray[Any]) -> list[float]:
    return [round(float(x), 5) for x in array]


def data_uri(frame: NDArray[np.uint8]) -> str:
    """One frame as a WebP data URI."""
    return _encoded(frame.shape[0], frame.shape[1], np.ascontiguousarray(frame).tobytes())


@lru_cache(maxsize=512)
def _encoded(height: int, width: int, pixels: bytes) -> str:
    frame = np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "WEBP", quality=90, method=3)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()
