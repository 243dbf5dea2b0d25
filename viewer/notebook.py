"""A trace shown in a notebook. The viewer is imported when one is shown, not before."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

HEIGHT_PX = 900
"""Of the frame; what is longer scrolls inside it."""


def viewer_frame(trace: Trace) -> str:
    """The standalone viewer as an `<iframe>` that makes no network request.

    The frame is sandboxed: a trace may be another person's file, and its viewer's scripts do not
    reach the notebook that shows it.
    """
    return (
        '<iframe title="MACD trace" sandbox="allow-scripts allow-downloads"'
        f' style="width: 100%; height: {HEIGHT_PX}px; border: 0"'
        f' srcdoc="{html.escape(_viewer_html(trace))}"></iframe>'
    )


def _viewer_html(trace: Trace) -> str:
    """The viewer with the trace in it, as the text of an HTML file."""
    from macd_studio.viewer.export import standalone

    return standalone(trace)
