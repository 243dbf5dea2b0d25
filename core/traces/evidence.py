"""The evidence of tokens in a trace file: optional rows of the manifest, and an array a map."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from macd_studio.core.errors import TraceError
from macd_studio.core.evidence.records import (
    VIEWS,
    Agreement,
    Evidence,
    EvidenceMap,
    KnockOut,
    Lens,
    Target,
)
from macd_studio.core.records import NAME, TEXT
from macd_studio.core.traces.archive import DAMAGED
from macd_studio.core.traces.format import Arrays
from macd_studio.core.traces.schema import LARGE, REAL, SHARE, Table
from macd_studio.core.types import Trace
from macd_studio.core.validation import Choice, Many, Maybe, Number, Rule, Words

MAX_EVIDENCE, MAX_MAPS, MAX_CELLS, MAX_LAYERS = 16, 32, 512, 1024
"""Of a trace, of a token, of a side of a map, of a decoder."""
MAX_KNOCK_OUTS = 64
"""Of a token."""

_ID = Number(0, 2**31 - 1, whole=True)
_LAYER = Number(0, MAX_LAYERS - 1, whole=True)
_CORRELATION = Maybe(Number(-1.001, 1.001))
_SHARES = Number(0.0, 1.001)
_TARGET: dict[str, Rule] = {
    "answer": Words(100, 1),
    "index": Number(0, 8191, whole=True),
    "token": _ID,
    "text": TEXT,
    "against": Maybe(_ID),
    "against_text": Maybe(TEXT),
}
_MAP: dict[str, Rule] = {
    "kind": Words(40, 1),
    "view": Choice(VIEWS),
    "objects": Many(_SHARES),
    "outside": _SHARES,
    "groups": Many(_SHARES),
    "sanity": _CORRELATION,
}
_AGREEMENT: dict[str, Rule] = {
    "view": Choice(VIEWS),
    "first": NAME,
    "second": NAME,
    "correlation": _CORRELATION,
}
_KNOCK_OUT: dict[str, Rule] = {
    "track": Maybe(_ID),
    "box": Maybe(Many(SHARE, 4, 4)),
    "layers": Many(_LAYER, 2, 2),
    "tokens": Number(1, 10**7, whole=True),
    "before": TEXT,
    "after": TEXT,
    "score": Many(REAL, 2, 2),
    "probability": Many(_SHARES, 2, 2),
}
_LENS: dict[str, Rule] = {view: Many(_SHARES, 1, MAX_LAYERS) for view in VIEWS}
_EVIDENCE: dict[str, Rule] = {
    "target": Table(_TARGET, tuple(_TARGET)),
    "score": Many(REAL, 2, 2),
    "layers": Many(_LAYER, 0, MAX_LAYERS),
    "maps": Many(Table(_MAP, tuple(_MAP)), 1, MAX_MAPS),
    "agreement": Many(Table(_AGREEMENT, tuple(_AGREEMENT)), 0, MAX_MAPS**2),
    "knock_outs": Many(Table(_KNOCK_OUT, tuple(_KNOCK_OUT)), 0, MAX_KNOCK_OUTS),
    "lens": Maybe(Table(_LENS, tuple(_LENS))),
}
ROWS = Many(Table(_EVIDENCE, tuple(_EVIDENCE)), 0, MAX_EVIDENCE)


def flatten_evidence(trace: Trace, arrays: Arrays) -> list[dict[str, Any]]:
    """The manifest's rows; the maps' values go to the arrays, as evidence0_map0 and so on."""
    rows = []
    for i, one in enumerate(trace.evidence):
        for j, evidence_map in enumerate(one.maps):
            arrays[f"evidence{i}_map{j}"] = evidence_map.values
        rows.append(
            {
                "target": asdict(one.target),
                "score": list(one.score),
                "layers": list(one.layers),
                "maps": [
                    {
                        "kind": m.kind,
                        "view": m.view,
                        "objects": list(m.objects),
                        "outside": m.outside,
                        "groups": list(m.groups),
                        "sanity": m.sanity,
                    }
                    for m in one.maps
                ],
                "agreement": [asdict(a) for a in one.agreement],
                "knock_outs": [asdict(k) for k in one.knock_outs],
                "lens": None if one.lens is None else asdict(one.lens),
            }
        )
    return rows


def restore_evidence(
    rows: Any, arrays: Arrays, frames: int, tracks: int, groups: int
) -> tuple[Evidence, ...]:
    """From untrusted rows and arrays. Raises OptionError or TraceError."""
    checked = ROWS.read(rows, "evidence")
    return tuple(
        Evidence(
            target=_plain(Target, row["target"]),
            score=_frozen(row["score"]),
            layers=_frozen(row["layers"]),
            maps=tuple(
                _restore_map(m, arrays, f"evidence{i}_map{j}", (frames, tracks, groups))
                for j, m in enumerate(row["maps"])
            ),
            agreement=tuple(_plain(Agreement, a) for a in row["agreement"]),
            knock_outs=tuple(_plain(KnockOut, k) for k in row["knock_outs"]),
            lens=None if row["lens"] is None else _plain(Lens, row["lens"]),
        )
        for i, row in enumerate(checked)
    )


def _restore_map(
    row: dict[str, Any], arrays: Arrays, name: str, counts: tuple[int, int, int]
) -> EvidenceMap:
    frames, tracks, groups = counts
    values = arrays.get(name)
    if values is None:
        raise TraceError(f"the trace lacks {name}", DAMAGED)
    if values.dtype.kind not in "fiu" or values.ndim != 3 or len(values) != frames:
        raise TraceError(f"{name} in the trace is not a map over its frames", DAMAGED)
    if not all(0 < n <= MAX_CELLS for n in values.shape[1:]):
        raise TraceError(f"{name} in the trace has {values.shape[1:]} cells", DAMAGED)
    if not (np.abs(values.astype(np.float64)) <= LARGE).all():  # NaN is not
        raise TraceError(f"{name} in the trace is not finite, or out of range", DAMAGED)
    if len(row["objects"]) != tracks or len(row["groups"]) != groups:
        raise TraceError("a map's shares are not those of the trace's objects", DAMAGED)
    return EvidenceMap(
        kind=row["kind"],
        view=row["view"],
        values=values.astype(np.float32),
        objects=_frozen(row["objects"]),
        outside=row["outside"],
        groups=_frozen(row["groups"]),
        sanity=row["sanity"],
    )


def _plain(kind: Any, row: dict[str, Any]) -> Any:
    """A record of the fields it knows; a newer version may have written others."""
    return kind(**{n: _frozen(row[n]) for n in kind.__dataclass_fields__})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
