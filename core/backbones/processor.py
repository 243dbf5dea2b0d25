"""A model's own processor, run on frames: whole clips, and what is drawn on their pixels."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.pixels import Scale, as_read, scale_of
from macd_studio.core.backbones.prompt import (
    TokenizerLM,
    metadata_of,
    render_prompt,
    split_prompt,
)
from macd_studio.core.backbones.sizes import shape_errors
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.options import Fit
from macd_studio.core.types import Clip, ModelFrames, Pixels


def uncropped(processor: Any) -> Any:
    """The processor with parts that read whole frames: masks reach to the borders.

    Where one cuts out the middle of a frame, the frame is resized to the size of that instead.
    """
    processor = copy(processor)
    for name in ("video_processor", "image_processor"):
        part: Any = copy(getattr(processor, name, None))
        if getattr(part, "do_center_crop", False) and (crop := part.crop_size):
            part.do_center_crop = False
            part.size = type(part.size)(height=crop["height"], width=crop["width"])
            setattr(processor, name, part)
    return processor


class ProcessorLM(TokenizerLM):
    """Frames go through `processor`, as a video where it reads video; `model` says the rest."""

    model: Any

    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        """The clip's frames as the model's own processor resizes them, whatever `fit` is."""
        height, width = clip.frames.shape[1:3]
        stretch = (width / height) / (clip.size[0] / clip.size[1])
        content = (0, 0, width, height)
        with shape_errors(self.info.name, clip.size):
            return self.resized(
                ModelFrames(clip.frames, clip.times, clip.duration, content, stretch)
            )

    def resized(self, frames: ModelFrames) -> ModelFrames:
        """The frames at the size of the model's pixels: what is drawn on them is not averaged."""
        count = len(frames.pixels)
        about, copies = None, 1
        if self._reads_video(count):
            about = metadata_of(frames, max(count, self._min_frames))
        else:
            copies = int(getattr(self.processor.image_processor, "temporal_patch_size", 1) or 1)
        head, tail = self._around(count, "?")

        def process(pixels: Pixels) -> int:
            rgb = torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2)
            out = self._laid_out(rgb, head + "?" + tail, about)
            values = (v for v in out.values() if isinstance(v, Tensor) and v.is_floating_point())
            return sum(v.numel() for v in values) // copies

        pixels = as_read(frames.pixels, process)
        (h, w), (height, width) = frames.size, pixels.shape[1:3]
        stretch = frames.stretch * (width / height) / (w / h)
        return replace(frames, pixels=pixels, content=(0, 0, width, height), stretch=stretch)

    def scale(self, as_video: bool) -> Scale:
        """What becomes of colours in a video, or in a picture."""
        processor = self.processor
        return scale_of(processor.video_processor if as_video else processor.image_processor)

    def _around(self, count: int, text: str) -> tuple[str, str]:
        """The prompt before and after a text about so many frames."""
        media = [{"type": "image"}] * count
        if self._reads_video(count):
            media = [{"type": "video"}]
        return split_prompt(self.processor, [*media, {"type": "text", "text": text}])

    def _laid_out(
        self, rgb: Tensor, prompt: str, about: Mapping[str, Any] | None, **how: Any
    ) -> Mapping[str, Any]:
        """What the processor makes of frames (T, 3, H, W); pictures where `about` is None."""
        out: Mapping[str, Any]
        if about is None:
            # the whole processor, which may ask its part for pictures to cut them into tiles
            out = self.processor(text=[prompt], images=[list(rgb)], return_tensors="pt", **how)
            return out
        rgb = rgb[[0] * self._min_frames] if len(rgb) < self._min_frames else rgb
        out = self.processor.video_processor(
            [rgb], do_sample_frames=False, video_metadata=[about], return_tensors="pt", **how
        )
        return out

    def _reads_video(self, frames: int) -> bool:
        """Whether frames are handed over as a video; a single one is a picture where it can be."""
        if getattr(self.processor, "video_processor", None) is None:
            return False
        if getattr(self.processor, "image_processor", None) is None:
            return True
        return frames > 1 or not self.writes_pictures

    @cached_property
    def writes_pictures(self) -> bool:
        """Whether the chat template knows pictures; false where `contract` found it wanting."""
        text = [{"type": "text", "text": "?"}]
        try:
            without = render_prompt(self.processor, text)
            return render_prompt(self.processor, [{"type": "image"}, *text]) != without
        except UnsupportedBackbone:
            return False

    @property
    def _min_frames(self) -> int:
        return int(getattr(self.processor.video_processor, "temporal_patch_size", 1) or 1)

    def _nested(self, video: Tensor) -> list[Any]:
        """One prompt's videos as the processor takes them."""
        return [[video]] if self.model.config.model_type == "smolvlm" else [video]
