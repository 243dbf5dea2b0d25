"""Evidence → the plain object and the text that the command line prints. Imports no torch.

The JSON's schema is documented in docs/json-schema.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import as_row
from macd_studio.core.measurements import (
    BACKGROUND,
    RANDOM_ORDER,
    Curves,
    Enough,
    Evidence,
    EvidenceMap,
    Given,
    KnockOut,
    Piece,
    Smallest,
    Target,
)
from macd_studio.core.text.words import count, visible
from macd_studio.core.types import Trace

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
        "lens": evidence.lens and as_row(evidence.lens),
        "curves": None if evidence.curves is None else _curves(evidence.curves),
    }


def _curves(curves: Curves) -> dict[str, Any]:
    areas = curves.areas()
    scores = {kind: (score, below) for kind, score, below in curves.scores()}
    return {
        "shares": list(curves.shares),
        "random_band": list(curves.band()) if RANDOM_ORDER in areas else None,
        "kinds": [
            {
                "kind": one.kind,
                "deletion": list(one.deletion),
                "insertion": list(one.insertion),
                "deletion_area": areas[one.kind][0][0],
                "insertion_area": areas[one.kind][0][1],
                "score": scores[one.kind][0],
                "above_random": scores[one.kind][1],
            }
            for one in curves.curves
            if one.kind in scores
        ],
    }


def extent(trace: Trace) -> list[float]:
    """x0 y0 x1 y1 of a map's corners in shares of the source frame; beyond 0 and 1 where padded."""
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
            f" {k.layers[1] + 1}): the answer to the video {k.before!r} → {k.after!r},"
            f" probability of {evidence.target.text!r} {k.probability[0]:.3f} →"
            f" {k.probability[1]:.3f}"
        )
    if evidence.lens is not None:
        for view in ("video", "counterfactual"):
            each = [f"{p:.3f}" for p in getattr(evidence.lens, view)]
            lines.append(f"Lens       {view:<15} {' '.join(each)}")
    if evidence.curves is not None:
        lines += _curve_lines(evidence.curves)
    return visible("\n".join(lines))


def _curve_lines(curves: Curves) -> list[str]:
    areas, scores = curves.areas(), curves.scores()
    lines = ["", f"{'faithful':<16}{'deletion':>9}{'insertion':>10}{'score':>8}  random below it"]
    for kind, score, below in scores:
        deletion, insertion = areas[kind][0]
        lines.append(f"{kind:<16}{deletion:>9.3f}{insertion:>10.3f}{score:>+8.3f}  {below:.0%}")
    if RANDOM_ORDER in areas:
        low, high = curves.band()
        lines.append(f"{RANDOM_ORDER:<16}{'':>19}  {low:+.3f} to {high:+.3f}")
    if scores:
        lines.append(f"Most faithful for this token: {scores[0][0]}")
    return lines


def _correlation(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def enough_as_json(enough: Enough, trace: Trace) -> dict[str, Any]:
    """What is enough for a token as one plain object; tokens and frames count from 1."""
    n = len(enough.pieces)
    found = [s for s in (enough.keep, enough.remove) if s is not None]
    return {
        "token": _token(enough.target),
        "same": enough.same,
        "margin": enough.margin,
        "fill": enough.fill,
        "pieces": [_piece(p, trace) for p in enough.pieces],
        "whole": _given(enough.whole, enough, trace),
        "nothing": _given(enough.nothing, enough, trace),
        "keep": _smallest(enough.keep, enough, trace),
        "remove": _smallest(enough.remove, enough, trace),
        "certified": bool(found) and all(s.certified(n) for s in found),
        "asked": [_given(g, enough, trace) for g in enough.asked],
        "views": enough.views,
        "budget": enough.budget,
    }


def _piece(piece: Piece, trace: Trace) -> dict[str, Any]:
    return {
        "name": region_name(piece, trace),
        "track": piece.track,
        "box": None if piece.box is None else list(piece.box),
        "frames": list(piece_frames(piece, trace)),
    }


def _given(given: Given | None, enough: Enough, trace: Trace) -> dict[str, Any] | None:
    if given is None:
        return None
    return as_row(given) | {"shown": [_piece(enough.pieces[i], trace) for i in given.shown]}


def _smallest(found: Smallest | None, enough: Enough, trace: Trace) -> dict[str, Any] | None:
    if found is None:
        return None
    indices = found.pieces
    return {
        "pieces": None if indices is None else [_piece(enough.pieces[i], trace) for i in indices],
        "certified": found.certified(len(enough.pieces)),
        "lower": found.lower,
        "alike": found.alike,
        "given": _given(found.given, enough, trace),
    }


def piece_frames(piece: Piece, trace: Trace) -> tuple[int, int]:
    """Its first and last sampled frame, from 1."""
    return trace.groups[piece.groups[0]][0] + 1, trace.groups[piece.groups[1]][-1] + 1


def region_name(piece: Piece, trace: Trace) -> str:
    """What a piece shows, without its frames."""
    if piece.track is not None:
        label = next((t.label for t in trace.tracks if t.id == piece.track), "")
        return f"{label} {piece.track}".strip()
    return BACKGROUND if piece.box is None else f"box {','.join(f'{x:g}' for x in piece.box)}"


def pieces_in_words(indices: Sequence[int], enough: Enough, trace: Trace) -> str:
    """A set of pieces, runs that follow each other joined; "nothing" for an empty one."""
    runs: dict[str, list[list[int]]] = {}
    for i in indices:
        piece = enough.pieces[i]
        of_region = runs.setdefault(region_name(piece, trace), [])
        if of_region and of_region[-1][1] + 1 == piece.groups[0]:
            of_region[-1][1] = piece.groups[1]
        else:
            of_region.append(list(piece.groups))
    return (
        "; ".join(
            f"{name}, frames " + ", ".join(_frames(run, trace) for run in of_region)
            for name, of_region in runs.items()
        )
        or "nothing"
    )


def _frames(run: Sequence[int], trace: Trace) -> str:
    first, last = trace.groups[run[0]][0] + 1, trace.groups[run[1]][-1] + 1
    return str(first) if first == last else f"{first}-{last}"


def enough_as_text(enough: Enough, trace: Trace) -> str:
    """What is enough for a token, for a terminal."""
    target, n = enough.target, len(enough.pieces)
    whole = f"{n} pieces, by objects and runs of frames" if n > 1 else "1 piece"
    lines = [
        f"Enough     for {target.text!r}, token {target.index + 1} of {target.answer}: {whole}",
        f"Video      {_in_words(enough.whole)}",
        f"Nothing    {_in_words(enough.nothing)}",
    ]
    for head, found, none in (
        ("Keep", enough.keep, "no set of pieces keeps the answer and its margin"),
        ("Remove", enough.remove, "no removal changes the answer"),
    ):
        if found is None:
            continue
        if found.pieces is None or found.given is None:
            far = f", as far as sets of {found.lower - 1} show" if found.lower > 1 else ", so far"
            known = "" if found.certified(n) else far
            lines.append(f"{head:<11}{none}{known}")
            continue
        size = len(found.pieces)
        alike = f", {count(found.alike, 'set')} of {size} known" if size else ""
        proof = (
            f"certified: no smaller set does it{alike}"
            if found.certified(n)
            else f"an upper bound: {size} pieces, no set of fewer than {found.lower}"
        )
        lines.append(f"{head:<11}{pieces_in_words(found.pieces, enough, trace)} ({proof})")
        lines.append(f"           → {_in_words(found.given)}")
    for given in enough.asked:
        lines.append(f"Given      {pieces_in_words(given.shown, enough, trace)}")
        lines.append(f"           → {_in_words(given)}")
    if enough.views:
        lines.append(f"Views      {enough.views} read, of {enough.budget} at most")
    return visible("\n".join(lines))


def _in_words(given: Given) -> str:
    same = "" if given.same else ", not the same"
    return (
        f"{given.answer!r}{same}: probability {given.probability:.3f}, margin {given.margin:+.2f}"
    )
