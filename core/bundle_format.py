"""What the writer and the reader of trace files agree on; described in docs/trace-format.md."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

FORMAT, SCHEMA = "macd-trace", 2

Arrays = dict[str, NDArray[Any]]

STEP_FIELDS = ("strength", "gradient", "frame_strength", "frame_gradient")
FINAL_FIELDS = (
    "strength",
    "margin",
    "level",
    "frame_strength",
    "frame_margin",
    "frame_level",
)
LEDGER_FIELDS = ("gradient", "loss_change", "odds_change", "token_change")
PLAIN_FIELDS: dict[str, type | tuple[type, ...]] = {
    "clip": dict,
    "backbone": dict,
    "detector": dict,
    "options": dict,
    "timings_ms": dict,
    "peak_memory_mb": (int, float),
    "seed": int,
    "shared": dict,
    "status": str,
    "versions": dict,
}
