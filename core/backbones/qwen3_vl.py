"""Qwen3-VL: each temporal patch is a block of its own in the prompt, after its time in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from macd_studio.core.backbones.qwen2_vl import Qwen2VL


class Qwen3VL(Qwen2VL):
    """A `Qwen3VLForConditionalGeneration`; its timestamps are text, and positions know no time.

    Features of several depths of the vision tower go into the first decoder layers (DeepStack).
    """

    min_frames = 2
    splits_video = True

    def pixel_bounds(self, frames: int) -> tuple[int, int]:
        """See `Qwen2VL.pixel_bounds`: here the processor's bounds are those of the whole video."""
        fewest, most = super().pixel_bounds(frames)
        count = max(frames, self.min_frames)
        video = self.processor.video_processor
        share = most // count
        if self.info.cap_pixels_per_frame:
            share = min(share, int(video.max_video_tokens) * self.unit**2)
        return fewest // count, share

    def outputs(self, out: Any) -> list[Tensor]:
        """See `Qwen2VL.outputs`."""
        return [*super().outputs(out), *out.deepstack_features]

    def deepstack_inputs(
        self, features: Sequence[Tensor], slots: Tensor, length: int
    ) -> dict[str, Any]:
        """Which tokens stand for pixels, and their features by layer."""
        mask = torch.zeros(len(features[0]), length, dtype=torch.bool, device=self.device)
        mask[:, slots] = True
        return {
            "visual_pos_masks": mask,
            "deepstack_visual_embeds": [f.flatten(0, 1) for f in features],
        }
