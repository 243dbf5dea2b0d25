"""A trace as a page of its own, made by a process with bounded memory and time.

`viewer.standalone` does the same in this process, where the trace is one's own.
"""

from __future__ import annotations

from collections.abc import Callable

from macd_studio.core.system.beside import BESIDE, ProcessLimits, make_in_process

REMEDY = "Save the trace, and open it on a page of your own machine: python app.py"


def page_beside(
    content: bytes,
    cancelled: Callable[[], bool] = lambda: False,
    limits: ProcessLimits = BESIDE,
) -> bytes:
    """The bytes of `standalone` of the trace in `content`, the content of its file.

    cancelled, limits, errors: as `beside.make_in_process`.
    """
    return make_in_process(
        "macd_studio.viewer.export_worker", {}, content, REMEDY, cancelled, limits
    )
