"""InternVL3 in the transformers format (`-hf`); its prompt holds no timestamps."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.backbones.frames import FramesVLM


class InternVL(FramesVLM):
    """An `InternVLForConditionalGeneration`."""

    @property
    def decoder(self) -> Any:
        """See `HfVideoLM.decoder`."""
        return self.model.model.language_model

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; every frame is an image of its own."""
        pixels = views[at[:, 0], at[:, 1]].to(self.dtype)
        return (self.model.model.get_image_features(pixels).pooler_output,)
