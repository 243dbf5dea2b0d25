"""The trace viewer: one canvas with rail, lanes and tokens, fed a trace, alive in the browser.

Knows neither the page that it is shown on nor a model: Trace → payload (a plain object) and one
script; `standalone` makes one HTML file of both.
"""

from macd_studio.viewer.bundle import JS, bundle, style
from macd_studio.viewer.export import standalone
from macd_studio.viewer.payload import identity, payload, status

__all__ = ["JS", "bundle", "identity", "payload", "standalone", "status", "style"]
