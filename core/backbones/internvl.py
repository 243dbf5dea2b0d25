"""InternVL3 in the transformers format (`-hf`); it is not told the time."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from core.backbones.base import Encoded
from core.backbones.frames import FramesVLM


class InternVL(FramesVLM):
    """An `InternVLForConditionalGeneration`."""

    @property
    def layers(self) -> Any:
        """See `HfVideoLM.layers`."""
        return self.model.model.language_model.layers

    def pixel_input(self, encoded: Encoded, video: Tensor) -> Tensor:
        """Frames of all views along one axis."""
        return video.reshape(-1, *video.shape[-3:])
