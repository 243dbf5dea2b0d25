"""LLaVA-NeXT-Video: frames as images of one size with pooled features; no times in the prompt."""

from __future__ import annotations

from copy import copy
from typing import Any

from torch import Tensor
from transformers.image_utils import SizeDict

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.frames import FramesVLM


class LlavaNextVideo(FramesVLM):
    """A `LlavaNextVideoForConditionalGeneration`."""

    pixels = "pixel_values_videos"

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        # its processor crops the middle of a frame, and masks reach to the borders
        processor, side = copy(processor), model.config.vision_config.image_size
        processor.video_processor = video = copy(processor.video_processor)
        video.do_center_crop, video.size = False, SizeDict(height=side, width=side)
        super().__init__(model, processor, info)

    @property
    def vision_token(self) -> int:
        """See `HfVideoLM.vision_token`."""
        return int(self.model.config.video_token_id)

    @property
    def decoder(self) -> Any:
        """See `HfVideoLM.decoder`."""
        return self.model.model.language_model

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; every frame is handed over as a video of its own."""
        pixels = views[at[:, 0], at[:, 1]].to(self.dtype)
        return (self.model.model.get_video_features(pixels[:, None]).pooler_output,)
