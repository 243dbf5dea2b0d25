"""Families that read each frame as an image of one size: InternVL3, LLaVA-NeXT-Video, SmolVLM2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.image_utils import SizeDict
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_MEDIA_OUTTRO

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.sizes import own_copy


class FramesVLM(HfVideoLM):
    """A family whose pixel tensor is the video itself."""

    pixels = "pixel_values"

    @property
    def marker(self) -> str:
        """See `HfVideoLM.marker`."""
        return str(self.processor.video_token)

    @property
    def vision_token(self) -> int:
        """See `HfVideoLM.vision_token`."""
        return int(self.model.config.image_token_id)

    def shape(self, out: Mapping[str, Any], frames: int) -> tuple[int, int, int, int]:
        """See `HfVideoLM.shape`."""
        height, width = out[self.pixels].shape[-2:]
        return frames, 3, height, width

    def reads(self, size: tuple[int, int]) -> bool:
        """See `HfVideoLM.reads`: one size only, that of the vision tower."""
        side = self.model.config.vision_config.image_size
        own = (side, side) if isinstance(side, int) else tuple(side)
        return size == own

    def index(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """See `HfVideoLM.index`."""
        t, c, height, width = self.shape(out, frames)
        return torch.arange(t * c * height * width).reshape(t, c, height, width)

    def unpack(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """See `HfVideoLM.unpack`; the video processor alone names its pixels differently."""
        pixels: Tensor = out["pixel_values_videos" if "pixel_values_videos" in out else self.pixels]
        return pixels.reshape(frames, *pixels.shape[-3:])


class InternVL(FramesVLM):
    """An `InternVLForConditionalGeneration` (InternVL3, `-hf`); its prompt holds no timestamps."""

    capabilities = FramesVLM.capabilities - {"times"}

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; every frame is an image of its own."""
        pixels = views[at[:, 0], at[:, 1]].to(self.dtype)
        return (self.model.model.get_image_features(pixels).pooler_output,)


class LlavaNextVideo(FramesVLM):
    """A `LlavaNextVideoForConditionalGeneration`: pooled features, no times in the prompt."""

    capabilities = FramesVLM.capabilities - {"times"}
    pixels = "pixel_values_videos"

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        # its processor crops the middle of a frame, and masks reach to the borders
        (processor, video), side = own_copy(processor), model.config.vision_config.image_size
        video.do_center_crop, video.size = False, SizeDict(height=side, width=side)
        super().__init__(model, processor, info)

    @property
    def vision_token(self) -> int:
        """See `HfVideoLM.vision_token`."""
        return int(self.model.config.video_token_id)

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; every frame is handed over as a video of its own."""
        pixels = views[at[:, 0], at[:, 1]].to(self.dtype)
        features = self.model.model.get_video_features(pixels[:, None]).pooler_output
        # transformers 5.17 gives a tuple with the frames of each video
        return (features if isinstance(features, Tensor) else torch.cat(list(features)),)


SPECK = 1e-6


class SmolVLM(FramesVLM):
    """A `SmolVLMForConditionalGeneration`; frames are announced with their times in words."""

    query_prefix = DEFAULT_MEDIA_OUTTRO

    @property
    def decoder(self) -> Any:
        """See `HfVideoLM.decoder`."""
        return self.model.model.text_model

    def extra_inputs(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """Which pixels are not padding: (1, T, H, W)."""
        return {"pixel_attention_mask": out["pixel_attention_mask"]}

    def nested(self, videos: list[Any]) -> list[Any]:
        """A list a prompt: transformers before 5.18 would count frames as videos."""
        return [videos]

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; a frame that is zero throughout gets a speck.

        The model reads a zero frame as padding and drops it; a frame masked with the mean is zero.
        """
        pixels = views[at[:, 0], at[:, 1]]
        blank = (pixels.detach() == 0).flatten(1).all(-1)[:, None, None, None]
        pixels = (pixels + torch.where(blank, SPECK, 0.0).to(pixels.dtype)).to(self.dtype)
        inside = encoded.inputs["pixel_attention_mask"][:, at[:, 1]]
        out = self.model.model.get_image_features(pixels[None], inside)
        features = torch.cat(list(out.pooler_output))
        return (features.view(len(at), -1, features.shape[-1]),)
