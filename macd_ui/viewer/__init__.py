"""The viewer component: one canvas with rail and tokens, fed a trace, alive in the browser."""

from macd_ui.viewer.component import viewer_component
from macd_ui.viewer.export import standalone
from macd_ui.viewer.payload import identity, payload, status

__all__ = ["identity", "payload", "standalone", "status", "viewer_component"]
