"""Evidence → the plain object and the text that the command line prints. Imports no torch.

The JSON's schema is documented in docs/json-schema.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.evidence.records import Evidence, EvidenceMap, KnockOut, Target
from macd_studio.core.types import Trace
from macd_studio.core.words import visible

DIGITS = 4


def as_json(evidence: Evidence, trace: Trace) -> dict[str, Any]:
    """One plain object; tokens and layers count from 1."""
    kinds = list(dict.fromkeys(m.kind for m in evidence.maps))
    return {
        "token": _token(evidence.target),
        "score": {"video": evidence.score[0], "counterfactual": evidence.score[1]},
        "extent": extent(trace),
        "layers": [n + 1 for n in evidence.layers],
        "maps": {kind: _kind(evidence, kind, trace) for kind in kinds},
        "agreement": [
            {"view": a.view, "kinds": [a.first, a.second], "correlation": a.correlation}
            for a in evidence.agreement
        ],
        "knock_out": [_knock_out(k) for k in evidence.knock_outs],
        "lens": None
        if evidence.lens is None
        else {
            "video": list(evidence.lens.video),
            "counterfactual": list(evidence.lens.counterfactual),
        },
    }


def extent(trace: Trace) -> list[float]:
    """x0 y0 x1 y1 of a map's outer corners in shares of the source frame.

    Beyond 0 and 1 where the model's frames are padded.
    """
    read = trace.model_frames
    if read is None:
        return [0.0, 0.0, 1.0, 1.0]
    x0, y0, x1, y1 = read.content
    height, width = read.size
    across, down = x1 - x0, y1 - y0
    corners = -x0 / across, -y0 / down, (width - x0) / across, (height - y0) / down
    return [round(float(c), 6) + 0.0 for c in corners]


def _token(target: Target) -> dict[str, Any]:
    return {
        "answer": target.answer,
        "index": target.index + 1,
        "id": target.token,
        "text": target.text,
        "against": None
        if target.against is None
        else {"id": target.against, "text": target.against_text},
    }


def _kind(evidence: Evidence, kind: str, trace: Trace) -> dict[str, Any]:
    out: dict[str, Any] = {m.view: _map(m, trace) for m in evidence.maps if m.kind == kind}
    if len(out) == 2:
        out["difference"] = {"frames": _values(evidence.difference(kind))}
    return out


def _map(one: EvidenceMap, trace: Trace) -> dict[str, Any]:
    return {
        "frames": _values(one.values),
        "share": [
            {"track": t.id, "share": round(s, DIGITS)}
            for t, s in zip(trace.tracks, one.objects, strict=True)
        ],
        "outside": round(one.outside, DIGITS),
        "groups": [round(g, DIGITS) for g in one.groups],
        "sanity": one.sanity,
    }


def _values(values: NDArray[np.float32]) -> list[Any]:
    """Nested lists of three significant digits: what a picture needs, in few bytes."""
    return [[[float(f"{x:.3g}") for x in row] for row in f] for f in values.tolist()]


def _knock_out(one: KnockOut) -> dict[str, Any]:
    return {
        "track": one.track,
        "box": None if one.box is None else list(one.box),
        "layers": [one.layers[0] + 1, one.layers[1] + 1],
        "vision_tokens": one.tokens,
        "before": one.before,
        "after": one.after,
        "score": list(one.score),
        "probability": list(one.probability),
    }


def as_text(evidence: Evidence, trace: Trace) -> str:
    """The shares, agreements and knock-outs for a terminal; the maps are in the JSON."""
    target = evidence.target
    rather = "" if target.against_text is None else f" rather than {target.against_text!r}"
    video, counterfactual = evidence.score
    lines = [
        f"Evidence   for {target.text!r}{rather}, token {target.index + 1} of {target.answer}:"
        f" {video:+.3f} given the video, {counterfactual:+.3f} given the counterfactual",
        "",
        f"{'kind':<16}{'view':<16}{'sanity':>7}  share by object, and outside all",
    ]
    for one in evidence.maps:
        each = [f"{t.id} {t.label} {s:.0%}" for t, s in zip(trace.tracks, one.objects, strict=True)]
        lines.append(
            f"{one.kind:<16}{one.view:<16}{_correlation(one.sanity):>7}"
            f"  {', '.join([*each, f'outside {one.outside:.0%}'])}"
        )
    for a in evidence.agreement:
        lines.append(
            f"Agreement  {a.first} and {a.second}, {a.view}: {_correlation(a.correlation)}"
        )
    for k in evidence.knock_outs:
        what = f"object {k.track}" if k.box is None else f"box {', '.join(f'{x:g}' for x in k.box)}"
        lines.append(
            f"Knock-out  {what} ({k.tokens} vision tokens, layers {k.layers[0] + 1} to"
            f" {k.layers[1] + 1}): {k.before!r} → {k.after!r},"
            f" probability {k.probability[0]:.3f} → {k.probability[1]:.3f}"
        )
    if evidence.lens is not None:
        for view in ("video", "counterfactual"):
            each = [f"{p:.3f}" for p in getattr(evidence.lens, view)]
            lines.append(f"Lens       {view:<15} {' '.join(each)}")
    return visible("\n".join(lines))


def _correlation(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"
