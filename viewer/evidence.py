"""The evidence of a trace's tokens as the viewer draws it."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import as_row
from macd_studio.core.measurements import RANDOM_ORDER, Curves, Evidence, EvidenceMap
from macd_studio.core.report.evidence import extent
from macd_studio.core.types import Trace

STEPS = 32767
"""Whole numbers that a map's values are sent as, on each side of 0."""
STRONGEST = 99.5
"""Percentile of a kind's magnitudes that is drawn at full strength: a few cells lie far above."""


def evidence_payload(trace: Trace) -> list[dict[str, Any]]:
    """One plain object a token; `Evidence` in js/types.d.ts says what each field is."""
    corners = extent(trace)
    return [_evidence(one, corners) for one in trace.evidence]


def _evidence(one: Evidence, corners: list[float]) -> dict[str, Any]:
    kinds = dict.fromkeys(m.kind for m in one.maps)
    strongest = {
        kind: float(
            np.percentile([np.abs(m.values) for m in one.maps if m.kind == kind], STRONGEST)
        )
        for kind in kinds
    }
    return as_row(one) | {
        "layers": [n + 1 for n in one.layers],
        "extent": corners,
        "strongest": strongest,
        "maps": [_map(m) for m in one.maps],
        "faithful": None if one.curves is None else _faithful(one.curves),
        "knock_outs": [as_row(k) | {"layers": [n + 1 for n in k.layers]} for k in one.knock_outs],
    }


def _faithful(curves: Curves) -> dict[str, Any]:
    areas = curves.areas()
    return {
        "band": list(curves.band()) if RANDOM_ORDER in areas else None,
        "kinds": [
            {
                "kind": kind, "score": score, "above": above,
                "deletion": areas[kind][0][0], "insertion": areas[kind][0][1],
            }
            for kind, score, above in curves.scores()
        ],
    }  # fmt: skip


def _map(one: EvidenceMap) -> dict[str, Any]:
    scale, values = _packed(one.values)
    return as_row(one) | {
        "grid": list(one.values.shape[1:]),
        "scale": scale,
        "values": values,
        "objects": [round(s, 5) for s in one.objects],
        "outside": round(one.outside, 5),
        "groups": [round(s, 5) for s in one.groups],
    }


def _packed(values: NDArray[np.float32]) -> tuple[float, str]:
    """The value of one step, and the steps as little-endian 16-bit numbers in base64."""
    scale = float(np.abs(values).max()) / STEPS or 1.0
    steps = np.rint(values.astype(np.float64) / scale).astype("<i2")
    return scale, base64.b64encode(steps.tobytes()).decode()
