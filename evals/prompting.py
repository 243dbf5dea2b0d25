"""A backbone that asks every question in a benchmark's published prompt."""

from __future__ import annotations

from typing import Any

from macd_studio.core.backbones.base import Encoded, VideoLM
from macd_studio.core.options import Fit
from macd_studio.core.types import Clip, ModelFrames


class PromptedLM:
    """The model, with text around each question that is asked of it.

    Views that encode the question again, on fewer or smaller frames, ask in the same prompt.
    """

    def __init__(self, lm: VideoLM, before: str, after: str) -> None:
        self._lm, self._before, self._after = lm, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """See `VideoLM.encode_frames`; these arguments come nearer to the question."""
        return self._lm.encode_frames(frames, question, suffix + self._after, self._before + before)

    def encode(self, clip: Clip, question: str, suffix: str = "", fit: Fit = "pad") -> Encoded:
        """See `VideoLM.encode`."""
        return self.encode_frames(self._lm.preprocess(clip, fit), question, suffix)
