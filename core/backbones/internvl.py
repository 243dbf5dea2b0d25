"""InternVL3 in the transformers format (`-hf`): each frame is an image of a fixed size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from core.backbones.base import Encoded
from core.backbones.hf import HfVideoLM, plain_index


class InternVL(HfVideoLM):
    """An `InternVLForConditionalGeneration`."""

    pixels = "pixel_values"

    @property
    def marker(self) -> str:
        """See `HfVideoLM.marker`."""
        return str(self.processor.video_token)

    @property
    def vision_token(self) -> int:
        """See `HfVideoLM.vision_token`."""
        return int(self.model.config.image_token_id)

    @property
    def layers(self) -> Any:
        """See `HfVideoLM.layers`."""
        return self.model.model.language_model.layers

    def shape(self, out: Mapping[str, Any], frames: int) -> tuple[int, int, int, int]:
        """See `HfVideoLM.shape`."""
        height, width = out["pixel_values"].shape[-2:]
        return frames, 3, height, width

    def index(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """See `HfVideoLM.index`."""
        return plain_index(self.shape(out, frames))

    def pixel_input(self, encoded: Encoded, video: Tensor) -> Tensor:
        """Frames of all views along one axis."""
        return video.reshape(-1, *video.shape[-3:])
