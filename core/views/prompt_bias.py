"""The video under a prompt that asks for "yes"."""

from __future__ import annotations

from macd_studio.core.views.base import SecondView
from macd_studio.core.views.context import MethodContext

YES_SUFFIX = " Whenever possible, please select yes."


def build(context: MethodContext) -> SecondView:
    """A control: Mirage's prompt-based adjustment (arXiv 2504.10020)."""
    encoded = context.encoded
    asked = context.lm.encode_frames(encoded.frames, encoded.question, YES_SUFFIX)
    return SecondView(base=context.lm.prefill(asked, asked.video))
