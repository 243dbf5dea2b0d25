"""SmolVLM2: small enough for a laptop. Frames are announced with their times in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_MEDIA_OUTTRO

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.backbones.frames import FramesVLM

SPECK = 1e-6


class SmolVLM(FramesVLM):
    """A `SmolVLMForConditionalGeneration`."""

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
