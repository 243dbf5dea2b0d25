"""What the writer and the reader of trace files agree on; described in docs/trace-format.md."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from macd_studio.core.errors import TraceError
from macd_studio.core.types import Trace

FORMAT, SCHEMA = "macd-studio-trace", 1
FORMER = "macd-trace"
"""The format's name before the first release; no such file is read."""

MAX_BYTES = 40 * 2**20
"""Of a file, and of everything in it before pictures are decoded."""
MAX_MANIFEST = 16 * 2**20
"""Of the manifest, before it is parsed."""
SOURCE_PIXELS, MODEL_PIXELS, ALL_PIXELS = 15_000_000, 24_000_000, 39_000_000
"""Of all source frames, of all model frames, and of these with all second views together.

With these bounds no file takes more than 300 MB to open, tests/security/test_trace_bomb.py.
"""
MAX_ITEMS = 2**22
"""Of all arrays together: one byte in the file can be a number and a text in the trace."""
MAX_VALUES = 600_000
"""Of the manifest: an empty object of two characters takes 64 bytes when it is read."""

Arrays = dict[str, NDArray[Any]]


def options_as_dict(trace: Trace) -> dict[str, Any]:
    """The options as plain values, those of newer versions too; changes by hand are `edits`."""
    options = trace.options.as_dict()
    for name, unknown in trace.unknown_options.items():
        known = options.get(name)
        options[name] = known | unknown if isinstance(known, dict) else unknown
    return options | ({"edits": [edit.as_dict() for edit in trace.edits]} if trace.edits else {})


def check_values(manifest: bytes) -> None:
    """Raises TraceError for JSON of more values than a trace has, before they are made."""
    if sum(manifest.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        raise TraceError(
            "the trace's manifest holds more than a trace has", "Ask for another copy of the file"
        )
