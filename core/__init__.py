"""The method: from a clip and a question to a `Trace`.

    import core

    trace = core.trace("clip.mp4", "Is there a dog?")
    trace.answers["macd"].text

Knows neither Gradio nor any benchmark, and plots only where a figure is asked for. Importing this
package imports nothing heavy: what is named below is imported when it is first used, and torch when
a clip is first run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.door import compare, evidence, trace
    from core.errors import MacdError
    from core.options import RunOptions
    from core.recording import record
    from core.traces.bundle import load, save
    from core.types import Trace

__version__ = "0.1.0"

__all__ = [
    "MacdError",
    "RunOptions",
    "Trace",
    "__version__",
    "compare",
    "evidence",
    "load",
    "record",
    "save",
    "trace",
]

_PLACES = {
    "MacdError": "errors",
    "RunOptions": "options",
    "Trace": "types",
    "compare": "door",
    "evidence": "door",  # its package of that name can be called too
    "load": "traces.bundle",
    "record": "recording",
    "save": "traces.bundle",
    "trace": "door",
}
"""Name → the module of this package that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
