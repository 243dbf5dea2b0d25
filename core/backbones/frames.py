"""What families share whose frames are images of a fixed size, in place of `<video>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from macd_studio.core.backbones.hf import HfVideoLM


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
