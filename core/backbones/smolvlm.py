"""SmolVLM2: small enough for a laptop. Frames are announced with their times in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_MEDIA_OUTTRO

from core.backbones.base import Encoded
from core.backbones.frames import FramesVLM

SPECK = 1e-6


class SmolVLM(FramesVLM):
    """A `SmolVLMForConditionalGeneration`."""

    lead = DEFAULT_MEDIA_OUTTRO

    @property
    def layers(self) -> Any:
        """See `HfVideoLM.layers`."""
        return self.model.model.text_model.layers

    def further(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """Which pixels are not padding: (1, T, H, W)."""
        return {"pixel_attention_mask": out["pixel_attention_mask"]}

    def nested(self, videos: list[Any]) -> list[Any]:
        """A list a prompt: releases before 5.18 would count frames as videos."""
        return [videos]

    def pixel_input(self, encoded: Encoded, video: Tensor) -> Tensor:
        """(B, T, 3, H, W); a frame that is zero throughout gets a speck.

        The model takes such a frame for padding and drops it, and one masked with the mean is zero.
        """
        views = video[None] if video.ndim == 4 else video
        blank = (views.detach() == 0).flatten(2).all(-1)[..., None, None, None]
        return views + torch.where(blank, SPECK, 0.0).to(views.dtype)
