"""The question without a video, as M3ID has it."""

from __future__ import annotations

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.records import NoVideoView


def build(context: MethodContext) -> SecondView:
    """The prompt holds the question alone (Favero et al., CVPR 2024)."""
    return SecondView(context.lm.prefill_text(context.encoded.question), NoVideoView())
