"""Qwen2-VL. Two frames make one temporal patch; the video is one block without timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from core.backbones.base import BackboneInfo, Encoded
from core.backbones.hf import HfVideoLM
from core.backbones.host import to_host
from core.backbones.windows import group_windows
from core.types import Clip


class Qwen2VL(HfVideoLM):
    """A `Qwen2VLForConditionalGeneration`; also what its successors share with it."""

    marker = "<|vision_end|>"
    fewest = 1  # frames that the processor wants at least

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        super().__init__(model, processor, info)
        group_windows(model.model.visual)

    def given(self, clip: Clip) -> Clip:
        """A single frame is shown as often as the processor wants frames."""
        if len(clip.frames) >= self.fewest:
            return clip
        shown = [0] * self.fewest
        return replace(clip, frames=clip.frames[shown], times=clip.times[shown])

    @property
    def vision_token(self) -> int:
        """See `HfVideoLM.vision_token`."""
        return int(self.model.config.video_token_id)

    @property
    def decoder(self) -> Any:
        """See `HfVideoLM.decoder`."""
        return self.model.model.language_model

    @property
    def temporal(self) -> int:
        """See `HfVideoLM.temporal`."""
        return int(self.processor.video_processor.temporal_patch_size)

    def shape(self, out: Mapping[str, Any], frames: int) -> tuple[int, int, int, int]:
        """See `HfVideoLM.shape`."""
        patch = int(self.processor.video_processor.patch_size)
        _, height, width = (int(n) for n in out["video_grid_thw"][0])
        return frames, 3, height * patch, width * patch

    def index(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """Asks the processor itself where each value goes, by sending coordinates through it.

        Each coordinate is a small integer, exact in float32.
        """
        shape = self.shape(out, frames)
        index = torch.zeros(1, dtype=torch.long)
        for axis, n in enumerate(shape):
            view = [1, 1, 1, 1]
            view[axis] = n
            plane = torch.arange(n, dtype=torch.float32).reshape(view).expand(shape)
            if frames < self.fewest:
                plane = plane.expand(self.fewest, -1, -1, -1)
            laid = self.processor.video_processor(
                [plane],
                do_resize=False,
                do_rescale=False,
                do_normalize=False,
                do_sample_frames=False,
                return_tensors="pt",
            )["pixel_values_videos"]
            index = index * n + laid.round().long()
        return index

    def look(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.look`; attention never leaves a temporal patch, so any can stand alone."""
        _, height, width = to_host(encoded.inputs["video_grid_thw"][0]).tolist()
        rows = encoded.gather.view(len(encoded.groups), height * width, -1)
        index = rows[at[:, 1]] + (at[:, 0] * views[0].numel())[:, None, None]
        pixels = views.reshape(-1)[index].flatten(0, 1)
        grid = torch.tensor([[len(at), height, width]], device=self.device)
        out = self.model.model.visual(pixels.to(self.dtype), grid_thw=grid)
        return tuple(f.view(len(at), -1, f.shape[-1]) for f in self.outputs(out))

    def outputs(self, out: Any) -> list[Tensor]:
        """What of the vision tower's output the decoder is given: (tokens, d) each."""
        return [out.pooler_output]

    def further(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """The grid, and explicit positions (3, 1, L)."""
        positions, _ = self.model.model.get_rope_index(
            ids,
            mm_token_type_ids=out["mm_token_type_ids"],
            video_grid_thw=out["video_grid_thw"],
            **self.timing(out),
        )
        return {"video_grid_thw": out["video_grid_thw"], "position_ids": positions}

    def positions(self, encoded: Encoded, first: int, views: int) -> Tensor:
        """See `HfVideoLM.positions`: time, row and column, (3, B, L − first)."""
        found: Tensor = encoded.inputs["position_ids"][:, :, first:]
        return found.expand(-1, views, -1)

    def sized(self, clip: Clip, size: tuple[int, int]) -> Clip:
        """See `HfVideoLM.sized`; sides are multiples of a merged patch."""
        video = self.processor.video_processor
        unit = video.patch_size * video.merge_size
        height, width = (unit * max(1, round(n / unit)) for n in size)
        resized = [
            Image.fromarray(f).resize((width, height), Image.Resampling.BICUBIC)
            for f in clip.frames
        ]
        return replace(clip, frames=np.stack([np.asarray(f) for f in resized]))

    def timing(self, out: Mapping[str, Any]) -> dict[str, Any]:
        """What positions need to know of time: nothing here."""
        return {}

    def next_position(self, encoded: Encoded) -> int:
        """See `HfVideoLM.next_position`; fewer positions than tokens, the video shares some."""
        return int(to_host(encoded.inputs["position_ids"].max())) + 1

    def step_positions(self, at: int, rows: int) -> Tensor:
        """See `HfVideoLM.step_positions`."""
        return torch.full((3, rows, 1), at, device=self.device)
