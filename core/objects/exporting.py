"""A trace's objects for another program, written by a process with bounded memory and time.

`core.objects.export` does the same in this process. Masks of every object on every frame take far
more than the trace that describes them, so an untrusted trace is written beside the server.
"""

from __future__ import annotations

from collections.abc import Callable

from macd_studio.core.objects.export import What
from macd_studio.core.system.beside import BESIDE, MakeLimits, made_beside

REMEDY = "Save the trace, and write them by `python -m core export` on a machine of your own"


def export_beside(
    content: bytes,
    format: str,
    what: What,
    cancelled: Callable[[], bool] = lambda: False,
    limits: MakeLimits = BESIDE,
) -> bytes:
    """The same bytes as `export.exported` of the trace in `content`, the content of its file.

    cancelled, limits, errors: as `beside.made_beside`.
    """
    module = "macd_studio.core.objects.export_worker"
    return made_beside(module, {"format": format, "what": what}, content, REMEDY, cancelled, limits)
