"""What the writer and the reader of trace files agree on; described in docs/trace-format.md."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

FORMAT, SCHEMA = "macd-trace", 2

MAX_BYTES = 96 * 2**20
"""Of a file, and of everything in it before pictures are decoded."""
MAX_MANIFEST = 16 * 2**20
"""Of the manifest, before it is parsed."""
MAX_ITEMS = 2**23
"""Of one array."""
SOURCE_PIXELS, MODEL_PIXELS, ALL_PIXELS = 24_000_000, 56_000_000, 96_000_000
"""Of all source frames, of all model frames, and of these with all second views together."""

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
PLAIN_FIELDS = (
    "clip",
    "backbone",
    "detector",
    "options",
    "timings_ms",
    "peak_memory_mb",
    "seed",
    "shared",
    "status",
    "versions",
)
"""Fields of a Trace that stand in the manifest as they are; `core.trace_rules` says what of."""
