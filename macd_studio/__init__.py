"""MACD Studio: from a clip and a question to a `Trace`.

    import macd_studio as macd

    trace = macd.trace("clip.mp4", "Is there a dog?")
    trace.answers["macd"].text

Importing this package imports nothing heavy: what is named below is imported when it is first
used, and torch when a clip is first run. Its parts are packages: `core` (the method), `viewer`
(shows a trace), `evals`, `ratings`, `toyworld` and `macd_ui` (the page). In a checkout they lie
at its top, and this folder links to them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from macd_studio.core.api import choices, compare, enough, evidence, trace
    from macd_studio.core.errors import MacdError
    from macd_studio.core.generate import decoder, wrap
    from macd_studio.core.options import RunOptions
    from macd_studio.core.recording import record
    from macd_studio.core.report.export import export_tracks
    from macd_studio.core.traces.bundle import load, save
    from macd_studio.core.types import Trace

if not Path(__file__).with_name("core").is_dir():
    # a checkout whose links were lost: a zip file, an upload, Windows
    __path__.append(str(Path(__file__).parents[1]))

__version__ = "0.2.0"

__all__ = [
    "MacdError",
    "RunOptions",
    "Trace",
    "__version__",
    "choices",
    "compare",
    "decoder",
    "enough",
    "evidence",
    "export_tracks",
    "load",
    "record",
    "save",
    "trace",
    "wrap",
]

_PLACES = {
    "MacdError": "errors",
    "RunOptions": "options",
    "Trace": "types",
    "choices": "api",
    "compare": "api",
    "decoder": "generate",
    "enough": "api",
    "evidence": "api",
    "export_tracks": "report.export",
    "load": "traces.bundle",
    "record": "recording",
    "save": "traces.bundle",
    "trace": "api",
    "wrap": "generate",
}
"""Name → the module of `core` that defines it."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.core.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
